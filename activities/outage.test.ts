import { describe, expect, it } from '@jest/globals';
import { cordoners, names } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Node } from '../kube/core.ts';
import { createNoCluster } from '../kube/no-cluster.ts';
import { createOutageFinder } from './outage.ts';

const zone = { 'topology.kubernetes.io/zone': 'a' };

function nodeNamed(name: string, ready: string, annotations: Record<string, string> = {}): Node {
  const made = { name, uid: name, resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z', labels: zone };
  return { metadata: { ...made, annotations }, status: { conditions: [{ type: 'Ready', status: ready }] } };
}

function outageAmong(nodes: readonly Node[]): Promise<string | undefined> {
  async function* pages() {
    yield { items: nodes, resourceVersion: '1' };
  }
  const target = { ...createNoCluster(), pages } as unknown as KubeClient;
  return createOutageFinder({ target, nodeConditions: [], percent: 55 })(nodes[0]);
}

describe('the Nodes that make an outage', () => {
  const bad = ['a', 'b', 'c'];

  it('are the unhealthy ones of all that are listed', async () => {
    const nodes = [...bad.map((name) => nodeNamed(name, 'Unknown')), nodeNamed('d', 'True')];
    expect(await outageAmong(nodes)).toBe('3 of 4 Nodes in zone a are unhealthy');
  });

  it('are not those of Failed machines that are preserved, which stay unhealthy for days', async () => {
    const kept = bad.map((name) => nodeNamed(name, 'Unknown', { [names.cordonedBy]: cordoners.preservation }));
    expect(await outageAmong([nodeNamed('e', 'Unknown'), ...kept, nodeNamed('d', 'True')])).toBeUndefined();
  });
});
