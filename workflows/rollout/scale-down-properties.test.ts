/**
 * Which machines go when the autoscaler marks them and lowers the replicas, whatever else happens to the deployment: a
 * world in memory, with the planner, the views and the activities. More of it in scale-down-properties.long.test.ts.
 */
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { annotations, finalizers } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { ownerNeeds } from '../../api/owner/needs.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { isLong } from '../../test/support/long.ts';
import { isActive } from '../../test/support/machine-facts.ts';
import { createWorld, phaseOf, template, type World } from '../../test/support/owner-world.ts';
import { isEmpty, planOwner } from './plan.ts';

const { triggerDeletion, lastReplicaChangeByScalerTime } = annotations;
const runs = isLong() ? { numRuns: 1_000 } : { numRuns: 100 };

type Happening =
  | { readonly kind: 'step'; readonly maxWrites?: number } // it is lost before its next write
  | { readonly kind: 'move' } // machines come up and go away
  | { readonly kind: 'mark'; readonly picks: readonly number[] } // and lower the replicas by as many, in one update
  | { readonly kind: 'markEarly'; readonly pick: number } // the replicas follow with `lower`
  | { readonly kind: 'lower' }
  | { readonly kind: 'grow'; readonly by: number } // by a person
  | { readonly kind: 'phase'; readonly pick: number; readonly phase: string }
  | { readonly kind: 'pause'; readonly paused: boolean }
  | { readonly kind: 'template'; readonly className: string };

const pick = fc.nat(20);
const scaling: fc.Arbitrary<Happening>[] = [
  fc.constant({ kind: 'step' as const }),
  fc.record({ kind: fc.constant('step' as const), maxWrites: fc.nat(4) }),
  fc.constant({ kind: 'move' as const }),
  fc.record({ kind: fc.constant('mark' as const), picks: fc.array(pick, { minLength: 1, maxLength: 3 }) }),
  fc.record({ kind: fc.constant('markEarly' as const), pick }),
  fc.constant({ kind: 'lower' as const }),
  fc.record({ kind: fc.constant('grow' as const), by: fc.integer({ min: 1, max: 2 }) }),
  fc.record({ kind: fc.constant('phase' as const), pick, phase: fc.constantFrom('Unknown', 'Running', 'Pending') }),
  fc.record({ kind: fc.constant('pause' as const), paused: fc.boolean() }),
];
const changingTemplate = fc.record({
  kind: fc.constant('template' as const),
  className: fc.constantFrom('a', 'b', 'c'),
});
const bounds = fc.constantFrom(
  { maxSurge: 1, maxUnavailable: 0 },
  { maxSurge: 0, maxUnavailable: 1 },
  { maxSurge: 2, maxUnavailable: 2 },
);
const listOf = (...kinds: fc.Arbitrary<Happening>[]) => fc.array(fc.oneof(...kinds), { maxLength: 30, size: 'max' });

/** A deployment and its autoscaler, which knows the machines that it has marked. */
interface Story {
  readonly world: World;
  /** UIDs of all that were ever marked. */
  readonly marked: Set<string>;
  /** Marked machines for which the replicas are not lower yet. */
  early: number;
  /** Machines that were asked for from the beginning on, without those for a rollout. */
  wanted: number;
  hours: number;
  /** spec.replicas of the sets by UID, when the deployment was paused. */
  asked: ReadonlyMap<string, number>;
}

async function begin(replicas: number, from: { maxSurge: number; maxUnavailable: number }): Promise<Story> {
  const world = createWorld({ replicas, ...from, limit: 100 });
  const story = { world, marked: new Set<string>(), early: 0, wanted: replicas, hours: 0, asked: new Map() };
  await settle(story);
  return story;
}

const replicasOf = ({ deployment }: World) => deployment?.spec?.replicas ?? 0;

/** A moment after all before. */
function nextTime(story: Story): string {
  story.hours += 1;
  return new Date(Date.parse('2026-08-19T10:00:00Z') + story.hours * 3_600_000).toISOString();
}

/** Lists machines on the deployment, as the autoscaler does. It lowers the replicas by `lower` in the same update. */
function list(story: Story, added: readonly Machine[], lower: number): void {
  const { world } = story;
  const deployment = world.deployment!;
  const time = nextTime(story);
  const before = deployment.metadata.annotations?.[triggerDeletion];
  const entries = added.map(({ metadata }) => `${metadata.name}~${time}`);
  for (const { metadata } of added) story.marked.add(metadata.uid);
  world.edit(machineDeployments, deployment, {
    metadata: {
      annotations: {
        ...(entries.length > 0 && { [triggerDeletion]: [...(before ? [before] : []), ...entries].join(',') }),
        ...(lower > 0 && { [lastReplicaChangeByScalerTime]: time }),
      },
    },
    ...(lower > 0 && { spec: { replicas: replicasOf(world) - lower } }),
  });
}

/** Machines that may be marked: no two of the picks are the same, and the autoscaler goes below no replica. */
function pickUnmarked({ world, marked, early }: Story, picks: readonly number[]): Machine[] {
  const free = world.machines.filter((one) => isActive(one) && !marked.has(one.metadata.uid));
  const found = new Set(picks.flatMap((number) => free[number % free.length] ?? []));
  return [...found].slice(0, Math.max(0, replicasOf(world) - early));
}

async function happen(story: Story, event: Happening): Promise<void> {
  const { world } = story;
  switch (event.kind) {
    case 'step':
      await step(story, event.maxWrites);
      return;
    case 'move':
      move(world);
      return;
    case 'mark': {
      const picked = pickUnmarked(story, event.picks);
      if (picked.length === 0) return;
      list(story, picked, picked.length + story.early); // the time of the change is that of all marks until then
      story.early = 0;
      return;
    }
    case 'markEarly': {
      const picked = pickUnmarked(story, [event.pick]);
      if (picked.length > 0) list(story, picked, 0);
      story.early += picked.length;
      return;
    }
    case 'lower':
      if (story.early > 0) list(story, [], story.early);
      story.early = 0;
      return;
    case 'grow':
      story.wanted += event.by;
      world.editSpec({ replicas: replicasOf(world) + event.by });
      return;
    case 'phase': {
      const active = world.machines.filter(isActive);
      const machine = active[event.pick % active.length];
      if (machine !== undefined) setPhase(world, machine, event.phase);
      return;
    }
    case 'pause':
      if (!world.deployment?.spec?.paused)
        story.asked = new Map(world.sets.map(({ metadata, spec }) => [metadata.uid, spec?.replicas ?? 0]));
      world.editSpec({ paused: event.paused });
      return;
    case 'template':
      world.editSpec({ template: template(event.className) });
  }
}

function setPhase(world: World, machine: Machine, phase: string): void {
  world.edit(machines, machine, {
    metadata: { finalizers: [finalizers.machine] },
    status: { currentStatus: { phase } },
  });
}

/** Answers whether anything moved. */
function move(world: World): boolean {
  const leaving = world.machines.filter(({ metadata }) => metadata.deletionTimestamp !== undefined);
  const coming = world.machines.filter((machine) => isActive(machine) && phaseOf(machine) !== 'Running');
  for (const machine of leaving) world.edit(machines, machine, { metadata: { finalizers: [] } });
  for (const machine of coming) setPhase(world, machine, 'Running');
  return leaving.length + coming.length > 0;
}

/**
 * Whether a machine may go that nobody has marked: its template is old and the rollout goes on, or had asked for that
 * before the pause; or there are more machines that nobody has marked than replicas, for example as there was a surge.
 */
function mayGo({ world, marked, asked }: Story, machine: Machine): boolean {
  const { spec } = world.deployment!;
  const isCurrent = (one: Machine) => one.spec?.class?.name === spec?.template?.spec?.class?.name;
  if (!spec?.paused && !isCurrent(machine)) return true;
  const unmarked = world.machines.filter((one) => isActive(one) && !marked.has(one.metadata.uid));
  const set = controllerOf(machine) ?? '';
  if (unmarked.filter((one) => controllerOf(one) === set).length > (asked.get(set) ?? 0) && !isCurrent(machine))
    return true;
  return unmarked.filter((one) => spec?.paused === true || isCurrent(one)).length > replicasOf(world);
}

/** Reads, plans and acts. Answers whether there was anything to do. */
async function step(story: Story, maxWrites?: number): Promise<boolean> {
  const { world, marked } = story;
  const seen = await world.observe();
  const plan = planOwner(seen!, world.newName);
  const others = plan.remove.filter(({ uid }) => !marked.has(uid));
  for (const { uid } of others) {
    expect(mayGo(story, world.machines.find(({ metadata }) => metadata.uid === uid)!)).toBe(true);
  }
  await world.act(plan, maxWrites);
  return !isEmpty(plan);
}

/** Steps and moves until nothing more happens. */
async function settle(story: Story): Promise<void> {
  for (let rounds = 0; ; rounds++) {
    expect(rounds).toBeLessThan(200);
    if (!(await step(story)) && !move(story.world)) return;
  }
}

/** The replicas follow what is marked, and everything comes to rest. */
async function end(story: Story): Promise<void> {
  await happen(story, { kind: 'lower' });
  await settle(story);
}

describe('machines that the autoscaler has marked', () => {
  it('[invariant 7] are all that go, and none is replaced, whatever is available, paused or not', () => {
    return fc.assert(
      fc.asyncProperty(bounds, listOf(...scaling), async (from, events) => {
        const story = await begin(4, from);
        const { world, marked } = story;
        const ever = new Set<string>();
        const note = () => {
          for (const { metadata } of world.machines) ever.add(metadata.uid);
        };
        note();
        for (const event of events) {
          await happen(story, event);
          note();
        }
        await end(story);
        note();
        const gone = [...ever].filter((uid) => world.machines.every(({ metadata }) => metadata.uid !== uid));
        expect(new Set(gone)).toEqual(marked);
        expect([world.machines.length, ever.size]).toEqual([replicasOf(world), story.wanted]);
      }),
      runs,
    );
  });

  it('[invariant 7] go in the middle of rollouts, too, and no other goes but for the rollout and its surge', () => {
    return fc.assert(
      fc.asyncProperty(bounds, listOf(...scaling, changingTemplate), async (from, events) => {
        const story = await begin(4, from);
        const { world, marked } = story;
        for (const event of events) await happen(story, event);
        await end(story);
        expect(world.machines.filter(({ metadata }) => marked.has(metadata.uid))).toEqual([]);
        await happen(story, { kind: 'pause', paused: false });
        await settle(story);
        expect(world.machines).toHaveLength(replicasOf(world));
        expect(world.deployment?.metadata.annotations?.[triggerDeletion]).toBeUndefined();
        expect(ownerNeeds((await world.observe())!.view)).toEqual([]);
      }),
      runs,
    );
  });
});
