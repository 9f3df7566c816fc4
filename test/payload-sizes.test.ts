/** What activities answer about a large namespace: Temporal refuses a payload of more than 2 MiB. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import { createInterruptionActivities } from '../activities/interruptions.ts';
import { createLimitActivities } from '../activities/limits.ts';
import { createOwnerActivities } from '../activities/owner/index.ts';
import { createSweepActivities } from '../activities/sweep.ts';
import { finalizers } from '../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import { names } from '../api/names.ts';
import { jsonBytes, maxListBytes } from '../api/payloads.ts';
import { verdictAnnotations } from '../api/verdict.ts';
import { MemoryCluster } from '../kube/memory-cluster.ts';
import { inActivity } from './support/in-activity.ts';
import { noReplacements } from './support/owner-deps.ts';

const of = { dialect: 'gardener' as const, namespace: 'shoot--project--cluster' };
const { namespace } = of;
const long = 'x'.repeat(200);
const uidOf = (kind: number, i: number) => `0000000${kind}-0000-4000-8000-${String(i).padStart(12, '0')}`;
const template = { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: 'class-0' } } };
const claimed = { [names.maxSurge]: '100', [names.maxProvisioning]: '5000' };

/** 1,000 classes, and 5,000 machines that fail, of one deployment or of 1,000. */
function clusterOf(deployments: number) {
  const cluster = new MemoryCluster();
  const perOwner = 5_000 / deployments;
  const common = { resourceVersion: '1', creationTimestamp: '2026-08-19T10:00:00Z', generation: 1, namespace };
  const owner = (kind: string, name: string, uid: string) => [
    { apiVersion: 'machine.sapcloud.io/v1alpha1', kind, name, uid, controller: true },
  ];
  const all = Array.from({ length: deployments }, (_, i) => ({ name: `pool-${i}-${long.slice(0, 40)}`, i }));
  cluster.load(
    machineDeployments,
    all.map(({ name, i }) => ({
      metadata: { ...common, name, uid: uidOf(1, i), annotations: claimed, finalizers: [finalizers.machine] },
      spec: { replicas: perOwner + 5, selector: { matchLabels: { name: 'pool' } }, template },
    })),
  );
  cluster.load(
    machineSets,
    all.map(({ name, i }) => ({
      metadata: {
        ...{ ...common, name: `${name}-set`, uid: uidOf(2, i), labels: { name: 'pool' } },
        ...{ finalizers: [finalizers.machine], ownerReferences: owner('MachineDeployment', name, uidOf(1, i)) },
      },
      spec: { replicas: perOwner + 5, selector: { matchLabels: { name: 'pool' } }, template },
    })),
  );
  cluster.load(
    machines,
    Array.from({ length: 5_000 }, (_, j) => {
      const { name, i } = all[j % deployments]!;
      return {
        metadata: {
          ...{ ...common, name: `${name}-set-${j}`, uid: uidOf(3, j), labels: { name: 'pool' } },
          ...{ finalizers: [finalizers.machine], ownerReferences: owner('MachineSet', `${name}-set`, uidOf(2, i)) },
        },
        spec: { ...template.spec, providerID: `azure:///${long}/vm-${j}` },
        status: {
          currentStatus: { phase: j % 2 === 0 ? 'Failed' : 'Pending', lastUpdateTime: '2026-08-19T10:00:00Z' },
          lastOperation: { description: `${j} ${long.repeat(5)}`, state: 'Failed', type: 'Create' },
        },
      };
    }),
  );
  cluster.load(
    machineClasses,
    Array.from({ length: 1_000 }, (_, i) => {
      const verdict = { version: 'any', problems: [], interruptionScope: `scope-${i}` };
      return {
        metadata: { ...common, name: `class-${i}`, uid: uidOf(4, i), annotations: { ...verdictAnnotations(verdict) } },
        ...{ provider: 'azure', secretRef: { namespace, name: 'cloud' } },
        providerSpec: { text: 'x'.repeat(3_000) },
      };
    }),
  );
  return cluster.client();
}

const events = { record: () => undefined, flush: async () => undefined };
const { defaults } = noReplacements;
const attempt = { attempt: 1, currentAttemptScheduledTimestampMs: Date.now() };

describe('with 5,000 machines of one deployment and 1,000 classes', () => {
  let control: ReturnType<typeof clusterOf>;
  beforeAll(() => {
    control = clusterOf(1);
  });

  it('a reading of the owner is a payload', async () => {
    const activities = createOwnerActivities({ control, target: control, events, ...noReplacements });
    const ref = { ...of, name: `pool-0-${long.slice(0, 40)}`, uid: uidOf(1, 0) };

    const reading = await inActivity(attempt, () => activities.observeOwner(ref, 'MachineDeployment', 0));

    expect(reading?.view.sets[0]?.total).toBe(5_000);
    expect(jsonBytes(reading)).toBeLessThan(maxListBytes / 4);
  });

  it('the portions of the classes that a sweep reads, and of the places that may be interrupted, are payloads', async () => {
    const past = {
      readPast: async () => ({ unanswered: [] }),
      countDeletions: async () => 0,
      findLosses: async () => [],
    };
    const sweep = { confirmAfterSeconds: 1, minimumAgeSeconds: 1, brakeCount: 1, brakeRate: 1, approvalSeconds: 1 };
    const logger = { info: () => undefined };
    const { readSweepScope } = createSweepActivities({
      ...{ control, target: control, events, defaults, sweep, past, logger },
    });
    const { listInterruptible } = createInterruptionActivities({ control, defaults });

    for (const read of [readSweepScope, listInterruptible]) {
      let [count, portions, next]: [number, number, string | undefined] = [0, 0, undefined];
      do {
        const portion: Awaited<ReturnType<typeof readSweepScope> | ReturnType<typeof listInterruptible>> =
          await inActivity(attempt, () => read(of, next));
        expect(jsonBytes(portion)).toBeLessThan(maxListBytes + 1_000);
        count += 'sources' in portion ? portion.sources.length : portion.places.length;
        portions += 1;
        ({ next } = portion);
      } while (next !== undefined);
      expect([count, portions]).toEqual([1_000, 4]);
    }
  });

  it('the interrupted machines of 1,000 VMs are a payload', async () => {
    const { findInterrupted } = createInterruptionActivities({ control, defaults });
    const asked = Array.from({ length: 1_000 }, (_, i) => ({
      ...{ providerID: `azure:///${long}/vm-${2 * i + 1}`, reason: long },
    }));

    const found = await inActivity(attempt, () => findInterrupted(of, asked));

    expect(found).toHaveLength(1_000);
    expect(jsonBytes(found)).toBeLessThan(maxListBytes);
  });
});

it('a reading of the limits of 1,000 deployments with 5 machines each is a payload', async () => {
  const { readLimits } = createLimitActivities({ control: clusterOf(1_000) });

  const reading = await readLimits(of, []);

  expect(reading.uses).toHaveLength(1_000);
  expect(jsonBytes(reading)).toBeLessThan(maxListBytes);
});
