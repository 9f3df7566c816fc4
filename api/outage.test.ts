import { describe, expect, it } from '@jest/globals';
import { findOutageAmong, type JoinedMachine, type NodeHealth } from './outage.ts';

const nodesOf = (zone: string | undefined, healthy: number, unhealthy: number): NodeHealth[] =>
  Array.from({ length: healthy + unhealthy }, (_, i) => ({
    ...(zone !== undefined && { zone }),
    isHealthy: i < healthy,
  }));

const machinesOf = (source: string, zone: string | undefined, present: number, missing: number): JoinedMachine[] =>
  Array.from({ length: present + missing }, (_, i) => ({
    ...(zone !== undefined && { zone }),
    ...{ source, isMissing: i >= present },
  }));

describe('an outage', () => {
  const find = (nodes: NodeHealth[], zone: string | undefined, percent: number) =>
    findOutageAmong({ nodes, machines: [] }, { source: 'small', ...(zone !== undefined && { zone }) }, percent);

  it('is that of the zone of a machine, or of the cluster', () => {
    const nodes = [...nodesOf('a', 1, 4), ...nodesOf('b', 5, 0)];
    expect(find(nodes, 'a', 55)).toBe('4 of 5 Nodes in zone a are unhealthy');
    expect(find(nodes, 'b', 55)).toBeUndefined();
    expect(find(nodes, undefined, 55)).toBeUndefined();
    expect(find([...nodes, ...nodesOf('c', 0, 9)], 'b', 55)).toBe('13 of 19 Nodes in the cluster are unhealthy');
  });

  it('begins above the share, and with three Nodes', () => {
    expect(find(nodesOf('a', 5, 5), 'a', 50)).toBeUndefined();
    expect(find(nodesOf('a', 4, 5), 'a', 50)).toBeDefined();
    expect(find(nodesOf('a', 0, 2), 'a', 50)).toBeUndefined();
    expect(find(nodesOf(undefined, 0, 3), undefined, 0)).toBeDefined();
  });

  it('is never seen with a share of 100', () => {
    const machines = machinesOf('small', 'a', 0, 9);
    expect(
      findOutageAmong({ nodes: nodesOf('a', 0, 9), machines }, { source: 'small', zone: 'a' }, 100),
    ).toBeUndefined();
  });
});

describe('Nodes that are missing', () => {
  const others = nodesOf('b', 9, 0);
  it.each<[string, NodeHealth[], JoinedMachine[], Partial<JoinedMachine>, string | undefined]>([
    [
      'are an outage of the cluster',
      [],
      machinesOf('small', undefined, 0, 6),
      {},
      '6 of 6 machines of small have lost their Nodes',
    ],
    [
      'are one beside the Nodes of others',
      others,
      machinesOf('large', undefined, 0, 6),
      {},
      '6 of 6 machines in the cluster have lost their Nodes',
    ],
    [
      'are one where there are two machines',
      [],
      machinesOf('small', undefined, 0, 2),
      {},
      '2 of 2 machines of small have lost their Nodes',
    ],
    ['are none where there is one machine', [], machinesOf('small', undefined, 0, 1), {}, undefined],
    [
      'are none where most machines have theirs',
      nodesOf('a', 6, 0),
      machinesOf('small', undefined, 6, 4),
      {},
      undefined,
    ],
    [
      'are an outage of their zone',
      others,
      [...machinesOf('small', 'a', 1, 3), ...machinesOf('large', 'b', 9, 0)],
      { zone: 'a' },
      '3 of 4 machines in zone a have lost their Nodes',
    ],
    [
      'are none for machines of another zone',
      others,
      [...machinesOf('small', 'a', 1, 3), ...machinesOf('large', 'b', 9, 0)],
      { zone: 'b', source: 'large' },
      undefined,
    ],
    [
      'are one of their source where nobody knows the zone',
      others,
      [...machinesOf('small', undefined, 1, 3), ...machinesOf('large', 'b', 9, 0)],
      {},
      '3 of 4 machines of small have lost their Nodes',
    ],
    [
      'count as unhealthy ones',
      nodesOf('a', 2, 2),
      machinesOf('small', 'a', 4, 1),
      { zone: 'a' },
      '3 of 5 Nodes in zone a are unhealthy or missing',
    ],
  ])('%s', (_, nodes, machines, of, expected) => {
    expect(findOutageAmong({ nodes, machines }, { source: 'small', ...of }, 55)).toBe(expected);
  });
});
