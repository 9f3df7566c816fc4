/** An autoscaler that marks machines while other things happen to their deployment, in another order each time. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { annotations as keys, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { update } from '../../kube/update.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { isActive } from '../support/machine-facts.ts';
import { until } from '../support/until.ts';

const { triggerDeletion, lastReplicaChangeByScalerTime } = keys;

type Happening =
  | { readonly kind: 'mark'; readonly count: number } // and lower the replicas by as many, in one update
  | { readonly kind: 'markEarly' } // the replicas follow with the next `mark`, or at the end
  | { readonly kind: 'grow'; readonly by: number }
  | { readonly kind: 'pause'; readonly paused: boolean }
  | { readonly kind: 'template' }
  | { readonly kind: 'change' } // waits for the next change of a machine
  | { readonly kind: 'rest' }; // waits until the machines are those that were asked for

const scaling: fc.Arbitrary<Happening>[] = [
  fc.record({ kind: fc.constant('mark' as const), count: fc.integer({ min: 1, max: 2 }) }),
  fc.constant({ kind: 'markEarly' as const }),
  fc.record({ kind: fc.constant('grow' as const), by: fc.integer({ min: 1, max: 2 }) }),
  fc.record({ kind: fc.constant('pause' as const), paused: fc.boolean() }),
  fc.constant({ kind: 'change' as const }),
  fc.constant({ kind: 'rest' as const }),
];
const listOf = (...kinds: fc.Arbitrary<Happening>[]) => fc.array(fc.oneof(...kinds), { minLength: 12, maxLength: 12 });

describe('machines that an autoscaler marks', () => {
  let millwright: Installation;
  let watch: Reflector<Machine>;
  /** By UID, all machines that there ever were, as they were seen last. */
  let ever: Map<string, Machine>;
  let marked: Set<string>;
  let changes: number;
  let wanted: number;
  let replicas: number;
  let early: number;
  let templates: number;
  let name = '';

  beforeAll(async () => {
    millwright = await startInstallation();
    ever = new Map();
    marked = new Set();
    watch = startReflector({
      client: millwright.control,
      resource: machines,
      namespace: millwright.namespace,
      onEvent: (event) => {
        changes += 1;
        if (event.kind === 'synced' || event.object.metadata.labels?.[labels.name] !== name) return;
        ever.set(event.object.metadata.uid, event.object);
      },
      logger: recordingLogger(),
    });
  });
  afterAll(async () => {
    await watch?.stop();
    await millwright?.stop();
  });

  const key = () => ({ namespace: millwright.namespace, name });
  const edit = (change: object) => millwright.control.patch(machineDeployments, key(), mergePatch(change));
  const uidsOf = (found: Iterable<Machine>) => new Set([...found].map(({ metadata }) => metadata.uid));

  /** Lists machines on the deployment. It lowers the replicas by `lower` in the same update. */
  async function list(added: readonly Machine[], lower: number): Promise<void> {
    const time = new Date().toISOString();
    const entries = added.map(({ metadata }) => `${metadata.name}~${time}`);
    for (const uid of uidsOf(added)) marked.add(uid);
    replicas -= lower;
    const { metadata } = await millwright.control.get(machineDeployments, key());
    await update(millwright.control, machineDeployments, { ...key(), uid: metadata.uid }, (live) => {
      const before = live.metadata.annotations?.[triggerDeletion];
      const all = [...(before ? [before] : []), ...entries].join(',');
      const annotations = {
        ...(entries.length > 0 && { [triggerDeletion]: all }),
        ...(lower > 0 && { [lastReplicaChangeByScalerTime]: time }),
      };
      return { metadata: { annotations }, ...(lower > 0 && { spec: { replicas } }) };
    });
  }

  async function unmarked(count: number): Promise<Machine[]> {
    const free = (await millwright.machines()).filter((one) => isActive(one) && !marked.has(one.metadata.uid));
    return free.slice(0, Math.max(0, Math.min(count, replicas - early)));
  }

  async function untilRest(): Promise<void> {
    const awaited = replicas - early;
    await until(
      `${awaited} machines that are not marked run`,
      async () => {
        const found = await millwright.machines();
        const free = found.filter(({ metadata }) => !marked.has(metadata.uid));
        const isDone = found.every((one) => isActive(one) && phaseOf(one) === 'Running');
        return isDone && free.length >= awaited && found.length === replicas;
      },
      { describe: () => millwright.story() },
    );
  }

  async function happen(event: Happening): Promise<void> {
    switch (event.kind) {
      case 'mark': {
        const picked = await unmarked(event.count);
        await list(picked, picked.length + early);
        early = 0;
        return;
      }
      case 'markEarly': {
        const picked = await unmarked(1);
        early += picked.length;
        await list(picked, 0);
        return;
      }
      case 'grow':
        wanted += event.by;
        replicas += event.by;
        await edit({ spec: { replicas } });
        return;
      case 'pause':
        await edit({ spec: { paused: event.paused } });
        return;
      case 'template':
        templates += 1;
        await edit({ spec: { template: { metadata: { annotations: { template: String(templates) } } } } });
        return;
      case 'change': {
        const before = changes;
        const isMoving = (one: Machine) => !isActive(one) || phaseOf(one) !== 'Running';
        await until('a machine changes, or none is about to', async () => {
          return changes > before || !(await millwright.machines()).some(isMoving);
        });
        return;
      }
      case 'rest':
        // A rollout that is paused keeps its surge.
        if (templates === 0) await untilRest();
    }
  }

  /** Lets all of it happen to a new deployment, then the replicas follow what is marked. */
  async function play(events: readonly Happening[]): Promise<void> {
    ever.clear();
    marked.clear();
    [changes, wanted, replicas, early, templates] = [0, 4, 4, 0, 0];
    name = `pool-${randomUUID()}`;
    await millwright.createDeployment(name, replicas);
    await millwright.untilMachines(4, 'Running');
    for (const event of events) await happen(event);
    await list([], early);
    early = 0;
    await happen({ kind: 'pause', paused: false });
    await untilRest();
  }

  async function finish(): Promise<void> {
    await millwright.control.delete(machineDeployments, key());
    await until(
      'nothing is left',
      async (see) => see(await millwright.control.find(machineDeployments, key())) === undefined,
    );
  }

  it('[invariant 7] are all that go, and none is replaced, in whichever order things happen', async () => {
    await fc.assert(
      fc.asyncProperty(listOf(...scaling), async (events) => {
        await play(events);
        const left = uidsOf(await millwright.machines());
        expect(new Set([...ever.keys()].filter((uid) => !left.has(uid)))).toEqual(marked);
        expect([left.size, ever.size]).toEqual([replicas, wanted]);
        await finish();
      }),
      { numRuns: 1, endOnFailure: true },
    );
  });

  it('[invariant 7] are gone at the end of rollouts, too, and no other of the last template but for the surge', async () => {
    await fc.assert(
      fc.asyncProperty(listOf(...scaling, fc.constant({ kind: 'template' as const })), async (events) => {
        await play([{ kind: 'template' }, ...events]);
        const isLast = ({ metadata }: Machine) => metadata.annotations?.['template'] === String(templates);
        const found = await until('all machines are those of the last template', async (see) => {
          const present = see(await millwright.machines());
          const isDone = present.every((one) => isLast(one) && phaseOf(one) === 'Running' && isActive(one));
          return isDone && present.length === replicas ? present : undefined;
        });
        const left = uidsOf(found);
        expect([...left].filter((uid) => marked.has(uid))).toEqual([]);
        const lost = [...ever.values()].filter((one) => isLast(one) && !left.has(one.metadata.uid));
        // A surge of one at each time that the replicas became fewer.
        const times = events.filter(({ kind }) => kind === 'mark').length + 1;
        expect(lost.filter(({ metadata }) => !marked.has(metadata.uid)).length).toBeLessThanOrEqual(times);
        await until('the list is gone', async (see) => {
          const { metadata } = see(await millwright.control.get(machineDeployments, key()));
          return metadata.annotations?.[triggerDeletion] === undefined;
        });
        await finish();
      }),
      { numRuns: 1, endOnFailure: true },
    );
  }, 400_000);
});
