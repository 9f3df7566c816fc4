/**
 * What keeps tests apart that run at the same time: they share two clusters, and Nodes have the names of their
 * machines.
 */
import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import * as gardener from '../api/gardener/resources.ts';
import * as core from '../kube/core.ts';

const resources = new Map(Object.entries({ ...core, ...gardener }));

/** Tests with a cluster of their own, in which they may look at everything. */
const inOwnCluster = [
  'test/end-to-end/handovers.long.test.ts',
  'test/end-to-end/kills.test.ts',
  'test/end-to-end/lost-databases.test.ts',
  'test/support/marks.ts',
];

const tests = globSync(['**/*.test.ts', 'test/support/**/*.ts'], { exclude: ['node_modules/**', '.cache/**'] })
  .filter((file) => file !== 'test/isolation.test.ts')
  .map((file) => ({ file, text: readFileSync(file, 'utf8') }));

/** Calls that list a kind of the whole cluster: of all namespaces, or without a selector where it has none. */
function wideLists(text: string): string[] {
  return [...text.matchAll(/\.(?:list|pages)\((\w+)([^)]*)\)/g)].flatMap(([call, name = '', options = '']) => {
    const resource = resources.get(name);
    if (resource === undefined) return [];
    const isBounded = resource.namespaced ? options !== '' : options.includes('Selector');
    return isBounded ? [] : [call];
  });
}

/** Names of Machines, and so of Nodes, as far as they are written in a test. */
function machineNames(text: string): string[] {
  return [...text.matchAll(/createMachine\('([^']*)'/g)].map(([, name = '']) => name);
}

describe('a test', () => {
  it('lists objects of a whole cluster only where the cluster is its own', () => {
    const shared = tests.filter(({ file }) => !inOwnCluster.includes(file));

    expect(shared.flatMap(({ file, text }) => wideLists(text).map((call) => `${file}: ${call}`))).toEqual([]);
  });

  it.each([
    ['client.list(nodes)', true],
    ['client.pages(volumeAttachments, { signal })', true],
    ['client.list(machines)', true],
    ["client.list(nodes, { labelSelector: 'a=b' })", false],
    ['client.list(machines, { namespace })', false],
    ['cloud.list(parts)', false],
  ])('%s: %p', (text, isWide) => {
    expect(wideLists(text)).toEqual(isWide ? [text.slice(text.indexOf('.'))] : []);
  });

  it('gives no Machine, and so no Node, a name that one of another file has', () => {
    const filesOf = new Map<string, Set<string>>();
    for (const { file, text } of tests.filter(({ file }) => file.startsWith('test/end-to-end/')))
      for (const name of machineNames(text)) filesOf.set(name, (filesOf.get(name) ?? new Set()).add(file));

    expect([...filesOf].filter(([, files]) => files.size > 1)).toEqual([]);
  });
});
