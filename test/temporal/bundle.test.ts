import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { until } from '../support/until.ts';

const folder = fileURLToPath(new URL('../../.cache/workflows', import.meta.url));

/** Files that a bundle was made of, from its source map. */
function sourcesOf(code: string): string[] {
  const [, encoded = ''] = /sourceMappingURL=data:application\/json;charset=utf-8;base64,([\w+/=]+)/.exec(code) ?? [];
  const { sources } = JSON.parse(Buffer.from(encoded, 'base64').toString()) as { sources: string[] };
  return sources;
}

describe('loadWorkflowBundle', () => {
  it('is the same for all concurrent builds, and leaves no unfinished file', async () => {
    const before = existsSync(folder) ? readdirSync(folder) : [];
    const [first, second] = await Promise.all([loadWorkflowBundle(), loadWorkflowBundle()]);

    expect(first.code === second.code).toBe(true);
    // Another process may be at a build of its own, and one that was killed has left its file.
    const isFinished = (file: string) => before.includes(file) || /^(workflows|replay)-[0-9a-f]{32}\.js$/.test(file);
    await until('no unfinished bundle is left', (see) => see(readdirSync(folder)).every(isFinished));
  });

  it('has no activity code in it and no zod, which would cost 17 times the memory of a workflow', async () => {
    const sources = sourcesOf((await loadWorkflowBundle()).code);

    expect(sources.filter((source) => source.endsWith('/workflows/machine/machine.ts'))).toHaveLength(1);
    expect(sources.filter((source) => /\/(activities|kube|controllers|temporal)\/[^/]+\.ts$/.test(source))).toEqual([]);
    expect(sources.filter((source) => /node_modules\/(?!@temporalio\/|long\/|ms\/|nexus-rpc\/)/.test(source))).toEqual(
      [],
    );
  });

  it('has the syntax of Node, and no functions that older engines need instead', async () => {
    const { code } = await loadWorkflowBundle();
    const own = code.slice(0, code.indexOf('sourceMappingURL'));

    expect(own).toContain('...state');
    expect(own.match(/\bfunction \w*_object_spread\w*/g)).toBeNull();
  });

  it('keeps the names of workflow types', async () => {
    const { code } = await loadWorkflowBundle();

    for (const name of ['machine', 'rollout', 'machineSet', 'orphanSweep', 'sourceCheck', 'tagUpdate'])
      expect(code).toMatch(new RegExp(`async function ${name}\\(`));
  });
});
