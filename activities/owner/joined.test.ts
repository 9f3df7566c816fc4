import { beforeEach, describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { finalizers } from '../../api/gardener/names.ts';
import { names } from '../../api/names.ts';
import { findJoined } from './joined.ts';
import type { OwnerContext } from './step.ts';

describe('joined machines', () => {
  const machineNamed = (name: string) => ({
    metadata: {
      name,
      namespace: 'n',
      uid: `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: '2030-01-01T00:00:00Z',
    },
    spec: { class: { kind: 'MachineClass', name: 'small' }, providerID: `x:///${name}` },
    status: { currentStatus: { phase: 'Pending' } },
  });
  const nodeOf = (name: string) => ({
    metadata: {
      ...{ name, uid: `node-${name}`, resourceVersion: '1', finalizers: [finalizers.node] },
      labels: { [gardener.marks.nodeMachineLabel]: name },
      annotations: { [names.machine]: `n/${name}` },
    },
    status: { conditions: [{ type: 'Ready', status: 'True' }] },
  });
  /** Pages that an API server answers with for a selector, which is kept in `asked`. */
  const pagesOf = (...answers: (readonly object[] | Error)[]) =>
    async function* pages(_: unknown, { labelSelector }: { labelSelector: string }) {
      asked.push(labelSelector);
      for (const items of answers) {
        if (items instanceof Error) throw items;
        yield { items, resourceVersion: '1' };
      }
    };
  let asked: string[];
  beforeEach(() => {
    asked = [];
  });

  it('are asked for by name, if they are a hundred at most', async () => {
    expect(await findIn(pagesOf([nodeOf('m-3')]), 100)).toEqual(['uid-m-3']);
    expect(asked).toEqual([expect.stringMatching(/ in \((m-\d+,){99}m-99\)$/)]);
  });

  it('are found in a list of the Nodes of all machines, if they are more', async () => {
    const others = [nodeOf('another'), nodeOf('m-101')];
    expect(await findIn(pagesOf(others, [nodeOf('m-3'), nodeOf('m-100')]), 101)).toEqual(['uid-m-3', 'uid-m-100']);
    expect(asked).toEqual([gardener.marks.nodeMachineLabel]);
  });

  it('are those that the API server has named before it failed', async () => {
    expect(await findIn(pagesOf([nodeOf('m-3')], new Error('no answer')), 101)).toEqual(['uid-m-3']);
    expect(await findIn(pagesOf(new Error('no answer')), 2)).toEqual([]);
  });

  it.each([
    ['counts', 'is that of its VM', {}, ['uid-m-3']],
    ['does not count', 'has the provider ID of another VM', { spec: { providerID: 'x:///former' } }, []],
    ['does not count', 'is being deleted', { deletionTimestamp: '2030-01-01T00:00:00Z' }, []],
  ])('an Unknown Node %s if it %s', async (_verdict, _what, { spec, ...more }: NodeChange, found) => {
    const { metadata } = nodeOf('m-3');
    const silent = {
      metadata: { ...metadata, ...more },
      spec: { providerID: 'x:///m-3', ...spec },
      status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
    };
    expect(await findIn(pagesOf([silent]), 4)).toEqual(found);
  });

  async function findIn(pages: unknown, count: number): Promise<string[]> {
    const deps = { target: { pages }, defaults: { nodeConditions: [] } };
    const ref = { dialect: 'gardener', namespace: 'n', name: 'd', uid: 'u' };
    const all = Array.from({ length: count }, (_, i) => machineNamed(`m-${i}`));
    return [...(await findJoined({ deps, ref, api: gardener } as unknown as OwnerContext, all))];
  }
});

interface NodeChange {
  readonly spec?: object;
  readonly deletionTimestamp?: string;
}
