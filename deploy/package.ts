/**
 * `npm pack`: the program as Node runs it from node_modules, where it strips no types. Writes dist: the sources without
 * types, and the bundles of the workflows, which a package cannot build.
 */
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { builtInBundles, loadReplayBundle, loadWorkflowBundle } from '../temporal/bundle.ts';
import { revision, version } from '../temporal/version.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const dist = join(root, 'dist');
const folders = ['activities', 'api', 'cli', 'controllers', 'kube', 'temporal', 'workflows'];

/** Relative imports, and the files of threads. */
const ownFile = /(?<=(['"])\.{1,2}\/[^'"\n]+)\.ts(?=\1)/g;

rmSync(dist, { recursive: true, force: true });
const sources = folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root }));
for (const source of sources.filter((file) => !/\.test\.ts$|\.d\.ts$/.test(file))) {
  const code = stripTypeScriptTypes(readFileSync(join(root, source), 'utf8')).replaceAll(ownFile, '.js');
  write(source.replace(/\.ts$/, '.js'), code);
}
cpSync(join(root, 'cli/fleet-page/page'), join(dist, 'cli/fleet-page/page'), { recursive: true });
write(join('temporal', builtInBundles.workflows), (await loadWorkflowBundle()).code);
write(join('temporal', builtInBundles.replay), (await loadReplayBundle()).code);
write('package.json', `${JSON.stringify({ type: 'module', version, revision: revision() })}\n`);

function write(file: string, content: string): void {
  mkdirSync(dirname(join(dist, file)), { recursive: true });
  writeFileSync(join(dist, file), content);
}
