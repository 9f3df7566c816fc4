import { describe, expect, it } from '@jest/globals';
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
  const all = Array.from({ length: 250 }, (_, i) => `m-${i}`);

  it('are found among any number of starting ones, a hundred in a request', async () => {
    const asked: string[][] = [];
    const list = async (_: unknown, { labelSelector }: { labelSelector: string }) => {
      asked.push(/\((.*)\)/.exec(labelSelector)![1]!.split(','));
      return { items: ['m-3', 'm-249'].filter((name) => asked.at(-1)!.includes(name)).map(nodeOf) };
    };
    expect([...(await findIn(list))]).toEqual(['uid-m-3', 'uid-m-249']);
    expect(asked.map((each) => each.length)).toEqual([100, 100, 50]);
  });

  it('are those of the answers, when the API server stops answering', async () => {
    let answers = 0;
    const list = async () => {
      answers += 1;
      if (answers === 2) throw new Error('no answer');
      return { items: [nodeOf('m-3'), nodeOf('m-249')] };
    };
    expect([...(await findIn(list))]).toEqual(['uid-m-3', 'uid-m-249']);
    expect(answers).toBe(2);
  });

  function findIn(list: unknown) {
    const deps = { target: { list }, defaults: { nodeConditions: [] } };
    const ref = { dialect: 'gardener', namespace: 'n', name: 'd', uid: 'u' };
    return findJoined({ deps, ref, api: gardener } as unknown as OwnerContext, all.map(machineNamed));
  }
});
