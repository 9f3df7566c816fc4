/**
 * Owner, workflow, agent and people at one Machine and its Node, in any order, with workers that die between two
 * writes, and machine-controller-manager that leads for a moment.
 */
import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { orderOf, toOrder } from '../../in-place-order.ts';
import { inPlaceOrders, names } from '../../names.ts';
import { isReleasable } from '../../owner/updated-machines.ts';
import { gardener } from '../index.ts';
import { labels, taints, updateResults } from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import { planUpdateInPlace } from './in-place-update.ts';

type Plan = NonNullable<ReturnType<typeof planUpdateInPlace>>;
type Patch = Readonly<Record<string, unknown>>;

/** Merge patch (RFC 7386) of plain objects. */
function merged(object: Patch = {}, patch: Patch): Patch {
  const next: Record<string, unknown> = { ...object };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete next[key];
    else if (typeof value === 'object' && !Array.isArray(value)) next[key] = merged(next[key] as Patch, value as Patch);
    else if (value !== undefined) next[key] = value;
  }
  return next;
}

const time = '2030-01-01T00:00:00Z';
const moment = { nowMs: Date.parse(time) };
const ready = { type: 'Ready', status: 'True' };

const controlledBy = (set: string) => ({
  ownerReferences: [{ apiVersion: 'v1', kind: 'MachineSet', name: set, uid: set, controller: true }],
});

/** @param isCordoned a person has cordoned the Node */
function newWorld(isCordoned: boolean) {
  let machine: Machine = {
    metadata: { name: 'm', uid: 'm', resourceVersion: '1', creationTimestamp: time, ...controlledBy('A') },
    status: { currentStatus: { phase: 'Running', lastUpdateTime: time }, conditions: [ready] },
  };
  let node: NonNullable<Parameters<typeof planUpdateInPlace>[1]> = {
    metadata: { labels: {} },
    spec: isCordoned ? { unschedulable: true } : {},
    status: { conditions: [ready] },
  };
  const world = { set: 'A', current: 'B', hasPods: true, isCordoned };
  const reasonOf = () => node.status?.conditions?.find(({ type }) => type === 'InPlaceUpdate')?.reason;
  const resultOf = () => node.metadata.labels?.[labels.updateResult];
  const changeMachine = (patch: Patch) => {
    machine = merged(machine as unknown as Patch, patch) as unknown as Machine;
  };
  const changeNode = (patch: Patch) => {
    node = merged(node as unknown as Patch, patch) as unknown as typeof node;
    if (reasonOf() === 'ReadyForUpdate' && resultOf() === undefined)
      expect([world.hasPods, node.spec?.unschedulable]).toEqual([false, true]);
  };
  const changeCondition = (condition: NonNullable<Plan['condition']>) => {
    const others = node.status?.conditions?.filter(({ type }) => type !== condition.type) ?? [];
    const isGone = '$patch' in condition;
    changeNode({ status: { conditions: isGone ? others : [...others, condition] } });
  };
  const order = (to: string) => {
    changeMachine({ metadata: { annotations: { [names.inPlaceUpdate]: toOrder(to, world.set) } } });
  };

  /** The activity `maintain`: each step of the generator is one write. */
  function* maintain(isDrained?: true): Generator<void> {
    let seen = { machine, node };
    let drain = isDrained && { isDrained };
    const planOf = (of: Machine, on: typeof node) => planUpdateInPlace(of, on, { ...moment, ...drain });
    function* writeNode(of: Machine): Generator<void> {
      const { condition, node: change } = planOf(of, seen.node) ?? {};
      if (condition) {
        yield;
        changeCondition(condition);
        seen = { ...seen, node };
      }
      if (!change) return;
      yield;
      const again = planOf(of, node)?.node;
      if (again) changeNode(again as Patch);
      seen = { ...seen, node };
    }
    for (let pass = 0; pass < 8; pass += 1) {
      const plan = planOf(seen.machine, seen.node);
      const writes = plan && [plan.machine, plan.status, plan.node, plan.condition].some((each) => each !== undefined);
      if (!plan || !writes) return;
      if (plan.isEnd) yield* writeNode(seen.machine);
      for (const part of ['machine', 'status'] as const) {
        if (plan[part] === undefined) continue;
        yield;
        const again = planOf(machine, seen.node)?.[part];
        if (again) changeMachine(again as Patch);
        seen = { ...seen, machine };
      }
      if (!plan.isEnd) yield* writeNode(seen.machine);
      drain = undefined;
    }
  }

  /** Of the workflow: one at a time. What a worker that has died was at is begun again. */
  let running: Generator<void> | undefined;
  const isDue = () => planUpdateInPlace(machine, node, moment)?.mustDrain === true;
  const actions = {
    write() {
      running ??= maintain();
      if (running.next().done) running = undefined;
    },
    die() {
      running = undefined;
    },
    drain() {
      if (running !== undefined || !isDue()) return;
      changeNode({ spec: { unschedulable: true } });
      world.hasPods = false;
      running = maintain(true);
    },
    own() {
      const is = orderOf(machine);
      const isReturning = machine.metadata.labels?.[labels.updateResult] !== undefined;
      if (is === inPlaceOrders.updated) {
        world.set = world.current;
        const handedOver = { [labels.updateResult]: updateResults.successful };
        const annotations = { [names.inPlaceUpdate]: null };
        changeMachine({ metadata: { ...controlledBy(world.set), labels: handedOver, annotations } });
      } else if (world.set === world.current) {
        if (isReleasable(gardener, machine)) order(inPlaceOrders.released);
      } else if (is === undefined && !isReturning) order(inPlaceOrders.candidate);
      else if (is === inPlaceOrders.candidate) order(inPlaceOrders.selected);
    },
    select() {
      if (node.metadata.labels?.[labels.candidateForUpdate] === undefined) return;
      changeNode({ metadata: { labels: { [labels.selectedForUpdate]: 'true' } } });
    },
    changeTemplate() {
      world.current = world.current === 'A' ? 'B' : 'A';
    },
    fail() {
      if (reasonOf() === 'ReadyForUpdate')
        changeNode({ metadata: { labels: { [labels.updateResult]: updateResults.failed } } });
    },
    succeed() {
      if (['ReadyForUpdate', 'UpdateFailed'].includes(reasonOf() ?? ''))
        changeNode({ metadata: { labels: { [labels.updateResult]: updateResults.successful } } });
    },
    /** MCM hands the machine over, knows no order, and asks nobody who has cordoned the Node. */
    handOverByMcm() {
      if (resultOf() !== updateResults.successful || reasonOf() !== 'UpdateSuccessful') return;
      running = undefined;
      world.set = world.current;
      world.isCordoned = false;
      changeMachine({ metadata: controlledBy(world.set) });
      const ofUpdate = [labels.candidateForUpdate, labels.selectedForUpdate, labels.updateResult];
      const spec = { unschedulable: null, taints: [taints.criticalComponentsNotReady] };
      changeNode({ metadata: { labels: Object.fromEntries(ofUpdate.map((key) => [key, null])) }, spec });
    },
    beReady() {
      const rest = node.spec?.taints?.filter(({ key }) => key !== taints.criticalComponentsNotReady.key) ?? [];
      changeNode({ spec: { taints: rest } });
    },
    schedule() {
      if (!node.spec?.unschedulable) world.hasPods = true;
    },
  };
  return { actions, see: () => ({ machine, node, reason: reasonOf(), ...world }) };
}

const all = Object.keys(newWorld(false).actions) as (keyof ReturnType<typeof newWorld>['actions'])[];

/** A step needs some writes, and each of the others would stop or undo it. */
const often = [...Array.from({ length: 16 }, () => 'write' as const), 'own', 'own', 'drain', 'drain', 'drain'] as const;

it('an in-place update begins on a drained Node only, and leaves nothing behind, whatever comes first', () => {
  const orders = fc.array(fc.constantFrom(...all, ...often), { minLength: 120, maxLength: 120 });
  fc.assert(
    fc.property(orders, fc.boolean(), (order, wasCordoned) => {
      const { actions, see } = newWorld(wasCordoned);
      for (const action of order) actions[action]();
      const tail = ['own', 'write', 'drain', 'write', 'write', 'write', 'succeed', 'beReady'] as const;
      for (let round = 0; round < 60; round += 1) for (const action of tail) actions[action]();
      const { machine, node, set, current, reason, isCordoned } = see();
      expect({
        ...{ isOfCurrent: set === current, phase: machine.status?.currentStatus?.phase },
        ...{ annotations: machine.metadata.annotations ?? {}, label: machine.metadata.labels?.[labels.updateResult] },
        ...{ onNode: { ...node.metadata.labels, ...node.metadata.annotations } },
        unschedulable: node.spec?.unschedulable === true,
      }).toEqual({ isOfCurrent: true, phase: 'Running', annotations: {}, onNode: {}, unschedulable: isCordoned });
      expect([undefined, 'UpdateSuccessful']).toContain(reason);
    }),
    { numRuns: 1_000 },
  );
});
