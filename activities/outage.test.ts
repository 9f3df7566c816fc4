import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { labels } from '../api/gardener/names.ts';
import { machineClasses, machines } from '../api/gardener/resources.ts';
import { cordoners, names } from '../api/names.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Node, nodes } from '../kube/core.ts';
import { createNoCluster } from '../kube/no-cluster.ts';
import { createOutageFinder } from './outage.ts';

const zone = { 'topology.kubernetes.io/zone': 'a' };

function nodeNamed(name: string, ready: string, annotations: Record<string, string> = {}): Node {
  const made = { name, uid: name, resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z', labels: zone };
  return { metadata: { ...made, annotations }, status: { conditions: [{ type: 'Ready', status: ready }] } };
}

const defaults = {
  creationSeconds: 1_200,
  healthSeconds: 600,
  drainSeconds: 0,
  maxEvictRetries: 0,
  nodeConditions: [],
};

function listing<T>(resources: ReadonlyMap<unknown, readonly T[]>): KubeClient {
  async function* pages(resource: unknown) {
    yield { items: resources.get(resource) ?? [], resourceVersion: '1' };
  }
  return { ...createNoCluster(), pages } as unknown as KubeClient;
}

/**
 * A finder for machines of the class small, which is in zone a.
 * @param joined names of Machines, which their Nodes have
 */
function finderOf(present: readonly Node[], joined: readonly string[] = [], limits: object = { healthSeconds: 600 }) {
  const metadata = { uid: 'u', resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z' };
  const ofClass = { metadata: { ...metadata, name: 'small' }, nodeTemplate: { zone: 'a' } };
  const machineNamed = (name: string) => ({
    metadata: { ...metadata, name, labels: { [labels.node]: name } },
    spec: { class: { kind: 'MachineClass', name: 'small' }, providerID: `x:///${name}` },
    status: { currentStatus: { phase: 'Unknown' } },
  });
  const control = listing(
    new Map<unknown, readonly object[]>([
      [machines, joined.map(machineNamed)],
      [machineClasses, [ofClass]],
    ]),
  );
  const target = listing(new Map([[nodes, present]]));
  const find = createOutageFinder({ control, target, defaults, percent: 55 });
  const machine = { source: 'small', limits };
  return (nowMs = 0) => find({ dialect: 'gardener', namespace: 'n' }, machine, present[0], nowMs);
}

/** What is out around a machine. */
const outageAmong = (...of: Parameters<typeof finderOf>): Promise<string | undefined> => finderOf(...of)();

describe('the Nodes that make an outage', () => {
  const bad = ['a', 'b', 'c'];

  it('are the unhealthy ones of all that are listed', async () => {
    const present = [...bad.map((name) => nodeNamed(name, 'Unknown')), nodeNamed('d', 'True')];
    expect(await outageAmong(present)).toBe('3 of 4 Nodes in zone a are unhealthy');
  });

  it('are those of now, however short ago the Nodes were listed without an outage', async () => {
    const present = ['a', 'b', 'c', 'd'].map((name) => nodeNamed(name, 'True'));
    const find = finderOf(present);
    expect(await find()).toBeUndefined();

    present.splice(0, 3, ...bad.map((name) => nodeNamed(name, 'Unknown')));
    const outage = '3 of 4 Nodes in zone a are unhealthy';
    expect(await Promise.all([find(), find()])).toEqual([outage, outage]);
  });

  it('are not those of Failed machines that are preserved, which stay unhealthy for days', async () => {
    const kept = bad.map((name) => nodeNamed(name, 'Unknown', { [names.cordonedBy]: cordoners.preservation }));
    expect(await outageAmong([nodeNamed('e', 'Unknown'), ...kept, nodeNamed('d', 'True')])).toBeUndefined();
  });

  it('are those that machines had, by their names, or the zone of their class', async () => {
    expect(await outageAmong([], bad)).toBe('3 of 3 machines in zone a have lost their Nodes');
    expect(
      await outageAmong(
        bad.map((name) => nodeNamed(name, 'True')),
        bad,
      ),
    ).toBeUndefined();
  });

  it('are not those of other VMs that have the names', async () => {
    const foreign = bad.map((name) => ({ ...nodeNamed(name, 'True'), spec: { providerID: `x:///other-${name}` } }));
    expect(await outageAmong(foreign, bad)).toBe('3 of 3 machines in zone a have lost their Nodes');
  });
});

describe('an outage that is over', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('[invariant 6 partly] counts for a health timeout longer, as Nodes come back one by one', async () => {
    const now = jest.spyOn(performance, 'now').mockReturnValue(0);
    const present: Node[] = [];
    const find = finderOf(present, ['a', 'b', 'c']);
    const outage = '3 of 3 machines in zone a have lost their Nodes';
    expect(await find()).toBe(outage);

    present.push(nodeNamed('a', 'True'), nodeNamed('b', 'True'));
    now.mockReturnValue(599_000);
    expect(await find()).toBe(`${outage}, less than 600 s ago`);
    now.mockReturnValue(601_000);
    expect(await find()).toBeUndefined();
  });
});

describe('an outage about which nobody has asked', () => {
  const beganMs = Date.parse('2030-01-02T00:00:00Z');
  const after = (seconds: number) => new Date(beganMs + seconds * 1_000).toISOString();
  const bad = ['a', 'b', 'c', 'd'].map((name) => nodeNamed(name, 'Unknown'));
  const well = ['g', 'h', 'i', 'j'].map((name) => nodeNamed(name, 'True'));

  /** Nodes that became ready when the others had been bad for almost ten minutes. */
  const recovered = (createdAt: string): Node[] =>
    ['e', 'f'].map((name) => ({
      metadata: { ...nodeNamed(name, 'True').metadata, creationTimestamp: createdAt },
      status: { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: after(590) }] },
    }));
  const askAfter = (seconds: number, back: readonly Node[], joined: readonly string[] = []) =>
    finderOf([...bad, ...back, ...well], joined)(beganMs + seconds * 1_000);

  it('[invariant 6 partly] counts for a health timeout longer, by when Nodes became ready again', async () => {
    const back = recovered(after(-86_400));
    expect(await askAfter(600, back)).toBe('6 of 10 Nodes in zone a are unhealthy, or were less than 600 s ago');
    expect(await askAfter(1_189, back)).toBeDefined();
    expect(await askAfter(1_191, back)).toBeUndefined();
  });

  it('counts for the default health timeout longer for a machine without one', async () => {
    const find = finderOf([...bad, ...recovered(after(-86_400)), ...well], [], {});
    expect(await find(beganMs + 600_000)).toMatch(/were less than \d+ s ago/);
  });

  it('is none where the Nodes became ready for the first time', async () => {
    expect(await askAfter(600, recovered(after(500)))).toBeUndefined();
  });

  it('[invariant 6 partly] is one where new Nodes are those of old machines', async () => {
    expect(await askAfter(600, recovered(after(580)), ['e', 'f'])).toBeDefined();
  });
});
