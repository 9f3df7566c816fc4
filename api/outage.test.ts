import { describe, expect, it } from '@jest/globals';
import { findOutageAmong, type NodeHealth } from './outage.ts';

const nodesOf = (zone: string | undefined, healthy: number, unhealthy: number): NodeHealth[] =>
  Array.from({ length: healthy + unhealthy }, (_, i) => ({
    ...(zone !== undefined && { zone }),
    isHealthy: i < healthy,
  }));

describe('an outage', () => {
  it('is that of the zone of a machine, or of the cluster', () => {
    const nodes = [...nodesOf('a', 1, 4), ...nodesOf('b', 5, 0)];
    expect(findOutageAmong(nodes, 'a', 55)).toBe('4 of 5 Nodes in zone a are unhealthy');
    expect(findOutageAmong(nodes, 'b', 55)).toBeUndefined();
    expect(findOutageAmong(nodes, undefined, 55)).toBeUndefined();
    expect(findOutageAmong([...nodes, ...nodesOf('c', 0, 9)], 'b', 55)).toBe(
      '13 of 19 Nodes in the cluster are unhealthy',
    );
  });

  it('begins above the share, and with three Nodes', () => {
    expect(findOutageAmong(nodesOf('a', 5, 5), 'a', 50)).toBeUndefined();
    expect(findOutageAmong(nodesOf('a', 4, 5), 'a', 50)).toBeDefined();
    expect(findOutageAmong(nodesOf('a', 0, 2), 'a', 50)).toBeUndefined();
    expect(findOutageAmong(nodesOf(undefined, 0, 3), undefined, 0)).toBeDefined();
  });

  it('is never seen with a share of 100', () => {
    expect(findOutageAmong(nodesOf('a', 0, 9), 'a', 100)).toBeUndefined();
  });
});
