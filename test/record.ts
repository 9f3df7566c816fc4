/**
 * `npm run record`: runs the end-to-end tests with scenarios, and keeps what their workflows did in
 * test/histories/next. With arguments of jest only those tests. A scenario is replaced as a whole, and only when its
 * tests have passed.
 */
import { globSync, readFileSync } from 'node:fs';
import { cp, mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { conclude, runJest } from './jest.ts';
import { filesOf, historiesFolder, next, recordVariable, scenariosIn } from './replay/files.ts';

const recorded = resolve('.cache/recorded');
const kept = join(historiesFolder, next);
const args = process.argv.slice(2);

await rm(recorded, { recursive: true, force: true });
await mkdir(recorded, { recursive: true });
const files = globSync('test/end-to-end/*.test.ts').filter((file) => readFileSync(file, 'utf8').includes('.recordAs('));
const run = await runJest(
  '.cache/record-results.json',
  [...args, ...files.map((file) => `--testMatch=<rootDir>/${file}`), '--testPathIgnorePatterns=/node_modules/'],
  { [recordVariable]: recorded },
);
await keep(new Set(run.passedFiles));
if (args.length === 0 && run.failed === 0) await forget(scenariosIn(recorded));
await rm(recorded, { recursive: true });
conclude([run, await runJest('.cache/replay-test-results.json', ['test/replay'])]);

async function keep(passedFiles: ReadonlySet<string>): Promise<void> {
  for (const scenario of scenariosIn(recorded)) {
    const files = filesOf(recorded, scenario);
    const recordedBy = files[0]?.history.recordedBy ?? '';
    if (passedFiles.has(resolve(recordedBy))) {
      await rm(join(kept, scenario), { recursive: true, force: true });
      await cp(join(recorded, scenario), join(kept, scenario), { recursive: true });
      console.log(`${scenario}: ${files.length} histories`);
    } else {
      console.log(`${scenario}: as it was, because ${recordedBy} has failed`);
    }
  }
}

/** Removes scenarios that no test has. */
async function forget(present: readonly string[]): Promise<void> {
  for (const scenario of scenariosIn(kept)) {
    if (present.includes(scenario)) continue;
    await rm(join(kept, scenario), { recursive: true });
    console.log(`${scenario}: removed, as no test records it`);
  }
}
