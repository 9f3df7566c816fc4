import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';

const root = new URL('../', import.meta.url);
/** Prints the URL of each module before it is loaded, to standard error. */
const listModules = `
  import { registerHooks } from 'node:module';
  registerHooks({
    load(url, context, next) {
      process.stderr.write(url + '\\n');
      return next(url, context);
    },
  });`;

/** Modules that `millwright --help` loads: paths in this repository, and names of packages. */
async function modulesOfHelp(): Promise<string[]> {
  const hook = `data:text/javascript,${encodeURIComponent(listModules)}`;
  const main = fileURLToPath(new URL('cli/main.ts', root));
  const { stderr } = await promisify(execFile)(process.execPath, ['--import', hook, main, '--help']);
  const urls = stderr.split('\n').filter((line) => line.startsWith('file:'));
  return urls.map((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? url.replace(root.href, ''));
}

it('loads no cloud SDK, no client of Kubernetes and nothing of Temporal for --help', async () => {
  const modules = await modulesOfHelp();

  const packages = new Set(modules.filter((name) => !name.endsWith('.ts')));
  expect([...packages].toSorted()).toEqual(['commander', 'zod']);
  expect(modules).toContain('cli/commands/describe/command.ts');
  expect(
    modules.filter((path) => /^(activities\/providers\/\w+\/|api\/gardener|kube|controllers|workflows)/.test(path)),
  ).toEqual([]);
}, 30_000);
