import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';

/** By file: a line that the import directions forbid there. */
const refused = {
  'api/up.ts': `export { x } from '../kube/x.ts';`,
  'api/up-type.ts': `export type { x } from '../activities/x.ts';`,
  'api/gardener/package.ts': `export { x } from 'yaml';`,
  'api/gardener/builtin.ts': `export { x } from 'node:fs';`,
  'api/owner/dialect-type.ts': `export type { x } from '../gardener/schema/machine.ts';`,
  'kube/up.ts': `export { x } from '../controllers/x.ts';`,
  'workflows/machine/activity.ts': `export { x } from '../../activities/x.ts';`,
  'kube/dialect.ts': `export { x } from '../api/gardener/resources.ts';`,
  'workflows/machine/schema.ts': `export { x } from '../../api/provider.ts';`,
  'workflows/machine/dialect-type.ts': `export type { x } from '../../api/gardener/names.ts';`,
  'workflows/machine/zod.ts': `export { x } from 'zod';`,
  'workflows/machine/kube-type.ts': `export type { x } from '../../kube/x.ts';`,
  'workflows/rollout/builtin.ts': `export { x } from 'node:crypto';`,
  'activities/dialect.ts': `export { x } from '../api/gardener/index.ts';`,
  'activities/workflow.ts': `export type { x } from '../workflows/index.ts';`,
  'activities/dynamic.ts': `export const x = import('../temporal/x.ts');`,
  'activities/providers/simulated/kube.ts': `export { x } from '../../../kube/x.ts';`,
  'controllers/workflow.ts': `export type { x } from '../workflows/index.ts';`,
  'controllers/dialect.ts': `export { x } from '../api/gardener/resources.ts';`,
  'controllers/activity.ts': `import '../activities/x.ts';`,
  'temporal/workflow.ts': `export { x } from '../workflows/machine/machine.ts';`,
  'temporal/dialect.ts': `export { x } from '../api/gardener/names.ts';`,
  'temporal/controller.ts': `export { x } from '../controllers/x.ts';`,
  'cli/workflow.ts': `export { x } from '../workflows/index.ts';`,
  'cli/dialect.ts': `export { x } from '../api/gardener/names.ts';`,
  'deploy/local/dialect.ts': `export { x } from '../../api/gardener/names.ts';`,
  'cli/test.ts': `export { x } from '../test/x.ts';`,
} as const;

/** The same for what they allow, where a rule that is too wide would show. */
const allowed = {
  'api/gardener/schema/machine.ts': `export { x } from 'zod';\nexport { y } from '../names.ts';`,
  'api/dialects.ts': `export { x } from './gardener/index.ts';`,
  'deploy/generators/crds.ts': `export { x } from '../../api/gardener/schema/machine.ts';`,
  'kube/machines.ts': `export { x } from '../api/objects.ts';\nexport { y } from 'undici';`,
  'workflows/machine/machine.ts': [
    `export type { x } from '../../activities/x.ts';`,
    `export type { y } from '../../api/provider.ts';`,
    `export { z } from '../../api/failures.ts';`,
    `export { v } from '@temporalio/workflow';`,
    `export { w } from './phase.ts';`,
  ].join('\n'),
  'activities/machine/index.ts': `export { x } from '../kube/x.ts';\nexport { y } from './providers/provider.ts';`,
  'activities/providers/simulated/index.ts': `export { x } from '../../../api/provider.ts';`,
  'controllers/main.ts': `export { x } from '../temporal/x.ts';\nexport { y } from '../kube/x.ts';`,
  'controllers/owners.ts': `export { x } from '../workflows/rollout/plan.ts';`,
  'temporal/machines.ts': [
    `export { x } from '../workflows/machine/messages.ts';`,
    `export type { y } from '../workflows/index.ts';`,
    `export { z } from '../activities/x.ts';`,
  ].join('\n'),
  'cli/main.ts': `export { x } from '../controllers/main.ts';\nexport { y } from '../workflows/messages.ts';`,
  'cli/commands/sweep.ts': `export { x } from '../../workflows/orphansweep/messages.ts';`,
  'workflows/machine/plan.test.ts': `export { x } from 'fast-check';\nexport { y } from '../../test/builders/x.ts';`,
} as const;

/** By file: a line that prints what a terminal may obey. */
const printed = {
  'cli/commands/said.ts': `console.log('a');`,
  'cli/process/complained.ts': `console.error('a');`,
  'cli/completion/written.ts': `process.stdout.write('a');`,
  'cli/fleet-page/error.ts': `process.stderr.write('a');`,
} as const;

/** Prints the same where nothing else does. */
const terminal = { 'cli/terminal.ts': Object.values(printed).join('\n') } as const;

const floating = {
  'tsconfig.json': '{ "compilerOptions": { "strict": true, "target": "es2023" } }',
  'kube/floating.ts': `export function start(run: () => Promise<void>): void {\n  run();\n}`,
  'kube/awaited.ts': `export async function start(run: () => Promise<void>): Promise<void> {\n  await run();\n}`,
} as const;

const OxlintReport = z.object({
  diagnostics: z.array(z.object({ code: z.string(), filename: z.string() })),
});

describe('the lint rules', () => {
  let folder: string;
  let found: ReadonlyMap<string, string>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-lint-'));
    await copyFile('.oxlintrc.json', join(folder, '.oxlintrc.json'));
    for (const [file, text] of Object.entries({ ...refused, ...allowed, ...printed, ...terminal, ...floating })) {
      await mkdir(dirname(join(folder, file)), { recursive: true });
      await writeFile(join(folder, file), `${text}\n`);
    }
    found = await lint(folder);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  for (const [file, text] of Object.entries(refused)) {
    it(`refuses ${text} in ${dirname(file)}/`, () => {
      expect(found.get(file)).toContain('no-restricted-imports');
    });
  }

  for (const file of Object.keys(allowed)) {
    it(`accepts the imports of ${file}`, () => {
      expect(found.get(file)).toBeUndefined();
    });
  }

  for (const [file, text] of Object.entries(printed)) {
    it(`refuses ${text} in ${dirname(file)}/`, () => {
      expect(found.get(file)).toMatch(/no-console|no-restricted-properties/);
    });
  }

  it('accepts it in cli/terminal.ts', () => {
    expect(found.get('cli/terminal.ts')).toBeUndefined();
  });

  it('refuses a promise that nobody waits for', () => {
    expect(found.get('kube/floating.ts')).toContain('no-floating-promises');
    expect(found.get('kube/awaited.ts')).toBeUndefined();
  });
});

/** Rules that were broken, by file. */
async function lint(folder: string): Promise<ReadonlyMap<string, string>> {
  const output = await new Promise<string>((done) => {
    const args = [resolve('node_modules/oxlint/bin/oxlint'), '--type-aware', '--format', 'json'];
    // Without a node_modules beside the files, oxlint looks for tsgolint on PATH.
    const env = { ...process.env, PATH: `${resolve('node_modules/.bin')}${delimiter}${process.env.PATH}` };
    // It fails, as it should: the files are planted for that.
    execFile(process.execPath, args, { cwd: folder, env }, (_, stdout) => done(stdout));
  });
  const { diagnostics } = OxlintReport.parse(JSON.parse(output));
  const rulesOf = (file: string) => diagnostics.flatMap(({ code, filename }) => (filename === file ? [code] : []));
  return new Map(diagnostics.map(({ filename }) => [filename, rulesOf(filename).join(' ')]));
}
