/**
 * What holds of an owner that updates its machines in place, whatever its replicas, template, strategy and pauses
 * become.
 */
import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { finalizers, labels, updateResults } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { orderOf, toOrder } from '../../api/in-place-order.ts';
import { inPlaceOrders, names } from '../../api/names.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { isLong } from '../../test/support/long.ts';
import { isActive } from '../../test/support/machine-facts.ts';
import { createWorld, phaseOf, template, type World } from '../../test/support/owner-world.ts';
import { planOwner } from './plan.ts';

type Strategy = 'InPlaceUpdate' | 'RollingUpdate';

type Happening =
  | { readonly kind: 'step'; readonly maxWrites?: number } // it is lost before its next write
  | { readonly kind: 'advance'; readonly picks: readonly number[] } // machines and the agents on their Nodes go on
  | { readonly kind: 'template'; readonly className: string }
  | { readonly kind: 'scale'; readonly replicas: number }
  | { readonly kind: 'phase'; readonly pick: number; readonly phase: string }
  | { readonly kind: 'delete'; readonly pick: number }
  | { readonly kind: 'pause'; readonly paused: boolean }
  | { readonly kind: 'strategy'; readonly type: Strategy };

const pick = fc.nat(20);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 36, arbitrary: fc.constant({ kind: 'step' } as const) },
  { weight: 9, arbitrary: fc.record({ kind: fc.constant('step' as const), maxWrites: fc.nat(3) }) },
  {
    weight: 30,
    arbitrary: fc.record({ kind: fc.constant('advance' as const), picks: fc.array(pick, { maxLength: 4 }) }),
  },
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('template' as const), className: fc.constantFrom('a', 'b', 'c') }),
  },
  {
    weight: 10,
    arbitrary: fc.record({ kind: fc.constant('scale' as const), replicas: fc.integer({ min: 1, max: 7 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('phase' as const), pick, phase: fc.constantFrom('Failed', 'Unknown') }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('delete' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pause' as const), paused: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('strategy' as const),
      type: fc.constantFrom<Strategy>('InPlaceUpdate', 'RollingUpdate'),
    }),
  },
);
const start = fc
  .record({
    replicas: fc.integer({ min: 2, max: 6 }),
    maxSurge: fc.nat(2),
    maxUnavailable: fc.nat(2),
    orchestrationType: fc.constantFrom('Auto', 'Auto', 'Auto', 'Auto', 'Manual'),
  })
  .filter(({ maxSurge, maxUnavailable }) => maxSurge + maxUnavailable > 0);

interface Bounds {
  readonly maxSurge: number;
  readonly maxUnavailable: number;
  readonly orchestrationType: string;
}

function strategyOf(type: Strategy, { orchestrationType, ...bounds }: Bounds) {
  return type === 'InPlaceUpdate'
    ? { type, inPlaceUpdate: { ...bounds, orchestrationType }, rollingUpdate: null }
    : { type, rollingUpdate: bounds, inPlaceUpdate: null };
}

/** Machines that do their work: their Nodes take pods, and no update is next. */
function atWork(world: World): Machine[] {
  return world.machines.filter((machine) => {
    const order = orderOf(machine);
    const isUpdating = order === inPlaceOrders.selected || order === inPlaceOrders.updated;
    const isReturning = machine.metadata.labels?.[labels.updateResult] !== undefined;
    return isActive(machine) && phaseOf(machine) === 'Running' && !isUpdating && !isReturning;
  });
}

/** What the workflow of a machine and the agent on its Node do next. */
function advance(world: World, machine: Machine | undefined): void {
  if (machine === undefined) return;
  const { metadata } = machine;
  const phase = phaseOf(machine);
  const edit = (change: object) => world.edit(machines, machine, change);
  const order = orderOf(machine);
  const enter = (next: string) => edit({ status: { currentStatus: { phase: next } } });
  const setOrder = (next: string | null) =>
    edit({ metadata: { annotations: { [names.inPlaceUpdate]: next && toOrder(next, controllerOf(machine) ?? '') } } });
  if (metadata.deletionTimestamp !== undefined) edit({ metadata: { finalizers: [] } });
  else if (phase === '') {
    edit({ metadata: { finalizers: [finalizers.machine] } });
    enter('Running');
  } else if (phase === 'Unknown') enter('Running');
  else if (order === inPlaceOrders.selected && phase === 'Running') enter('InPlaceUpdating');
  else if (order === inPlaceOrders.selected && phase === 'InPlaceUpdating') {
    enter('InPlaceUpdateSuccessful');
    setOrder(inPlaceOrders.updated);
  } else if (order === inPlaceOrders.released) {
    setOrder(null);
    if (phase !== 'Failed') enter('Running');
  } else if (metadata.labels?.[labels.updateResult] === updateResults.successful && order === undefined) {
    if (phase === 'Running') edit({ metadata: { labels: { [labels.updateResult]: null } } });
    else enter('Running');
  }
}

/** A step may take no more machines from their work than may be missing. Where people select, they may take more. */
async function step(world: World, isBounded: boolean, maxWrites?: number): Promise<void> {
  const seen = await world.observe();
  if (seen === undefined) return;
  const before = atWork(world).length;
  await world.act(planOwner(seen, world.newName), maxWrites);
  const { replicas, maxUnavailable, sets, paused } = seen.view;
  // Before there is a set of the template nothing is given up for it. While it is paused a scale-down does not wait for
  // it.
  const least = paused || sets.some(({ isNew }) => isNew) ? replicas - maxUnavailable : replicas;
  if (isBounded) expect(atWork(world).length).toBeGreaterThanOrEqual(Math.min(before, Math.max(0, least)));
}

function happen(world: World, event: Happening, bounds: Bounds): Promise<void> | void {
  const machineAt = (number: number) => world.machines[number % Math.max(1, world.machines.length)];
  switch (event.kind) {
    case 'step':
      return step(world, bounds.orchestrationType === 'Auto', event.maxWrites);
    case 'advance':
      for (const each of event.picks) advance(world, machineAt(each));
      return;
    case 'template':
      return world.editSpec({ template: template(event.className) });
    case 'scale':
      return world.editSpec({ replicas: event.replicas });
    case 'pause':
      return world.editSpec({ paused: event.paused });
    case 'strategy':
      return world.editSpec({ strategy: strategyOf(event.type, bounds) } as object);
    case 'phase': {
      const machine = machineAt(event.pick);
      if (machine !== undefined && phaseOf(machine) === 'Running')
        world.edit(machines, machine, { status: { currentStatus: { phase: event.phase } } });
      return;
    }
    case 'delete': {
      const machine = machineAt(event.pick);
      if (machine !== undefined) world.remove(machines, machine);
    }
  }
}

/** Nothing more happens but that all goes on. People select what waits for them. */
async function settle(world: World, isManual: boolean): Promise<void> {
  world.editSpec({ paused: false });
  for (let rounds = 0; !isUpToDate(world); rounds++) {
    expect(rounds).toBeLessThan(120);
    await step(world, !isManual);
    for (const machine of [...world.machines]) {
      if (isManual && orderOf(machine) === inPlaceOrders.candidate)
        world.edit(machines, machine, {
          metadata: {
            annotations: {
              [names.inPlaceUpdate]: toOrder(inPlaceOrders.selected, controllerOf(machine) ?? ''),
            },
          },
        });
      advance(
        world,
        world.machines.find(({ metadata }) => metadata.uid === machine.metadata.uid),
      );
    }
  }
}

function isUpToDate(world: World): boolean {
  const { replicas = 0, template: wanted } = world.deployment?.spec ?? {};
  const working = atWork(world);
  const current = world.sets.find(({ spec }) => spec?.template?.spec?.class?.name === wanted?.spec?.class?.name);
  const isCurrent = ({ metadata }: Machine) => metadata.ownerReferences?.[0]?.uid === current?.metadata.uid;
  return working.length === replicas && working.length === world.machines.length && working.every(isCurrent);
}

/** The template of the pause has no set. */
const scaledDownWhilePaused = {
  from: { replicas: 2, maxSurge: 0, maxUnavailable: 1, orchestrationType: 'Auto' as const },
  events: [
    { kind: 'scale', replicas: 3 },
    { kind: 'template', className: 'b' },
    { kind: 'step' },
    { kind: 'template', className: 'c' },
    { kind: 'pause', paused: true },
    { kind: 'step' },
    { kind: 'scale', replicas: 2 },
    { kind: 'step' },
  ] satisfies Happening[],
};

it('[invariant 5 partly] [mcm 99 partly] machines that are updated in place stay within their bounds at every step, and all are updated in the end', async () => {
  await fc.assert(
    fc.asyncProperty(
      start,
      fc.array(happening, { maxLength: 30, size: 'max' }),
      async ({ replicas, ...bounds }, all) => {
        const world = createWorld({ replicas, ...bounds, strategy: 'InPlaceUpdate', limit: 100 });
        world.editSpec({ strategy: strategyOf('InPlaceUpdate', bounds) } as object);
        await settle(world, bounds.orchestrationType === 'Manual');
        for (const event of all) await happen(world, event, bounds);
        world.editSpec({ strategy: strategyOf('InPlaceUpdate', bounds) } as object);
        await settle(world, bounds.orchestrationType === 'Manual');
      },
    ),
    { numRuns: isLong() ? 5_000 : 200, examples: [[scaledDownWhilePaused.from, scaledDownWhilePaused.events]] },
  );
});
