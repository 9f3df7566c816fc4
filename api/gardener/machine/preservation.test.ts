import { describe, expect, it } from '@jest/globals';
import type { MaintenancePlan } from '../../dialect.ts';
import { cordoners, names } from '../../names.ts';
import { annotations as keys, labels, taints } from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import { isKept, planPreservation } from './preservation.ts';

const start = Date.parse('2030-01-01T00:00:00Z');
const hourMs = 3_600_000;
const hours = (count: number) => start + count * hourMs;
const timeIn = (count: number) => new Date(hours(count)).toISOString().replace('.000', '');

interface FakeNode {
  metadata: { annotations: Record<string, string>; deletionTimestamp?: string };
  spec: { taints: { key: string; effect: string }[]; unschedulable?: boolean };
  status: { conditions: { type: string; status: string; reason?: string; message?: string }[] };
}

/** A Machine with its Node, and what the workflow does with the plans for them. */
function world(phase: string, ofMachine: Record<string, string> = {}, ofNode: Record<string, string> | null = {}) {
  const machine: Machine = {
    metadata: {
      name: 'm',
      uid: 'm',
      resourceVersion: '1',
      creationTimestamp: timeIn(-1),
      annotations: ofMachine,
      labels: { [labels.node]: 'n' },
    },
    spec: {},
    status: { currentStatus: { phase, lastUpdateTime: timeIn(-1) } },
  };
  const node: FakeNode | undefined =
    ofNode === null
      ? undefined
      : { metadata: { annotations: ofNode }, spec: { taints: [] }, status: { conditions: [] } };
  const events: string[] = [];
  const state = {
    machine,
    node,
    events,
    plan: (nowMs: number, isDrained?: boolean) =>
      planPreservation(machine, node, {
        nowMs,
        ...(isDrained !== undefined && { isDrained }),
      }),
    /** Writes what is due until nothing is, in a step or two. Answers whether a drain is. */
    settle(nowMs: number, isDrained?: boolean): boolean {
      let plan = state.plan(nowMs, isDrained);
      for (let step = 0; step < 2 && writesOf(plan).length > 0; step++) {
        if (plan?.event) events.push(plan.event.reason);
        apply(machine, node, plan!);
        plan = state.plan(nowMs);
      }
      expect(writesOf(plan)).toEqual([]);
      return plan?.mustDrain === true;
    },
    become(next: string): void {
      machine.status!.currentStatus!.phase = next;
    },
    expiry: () => machine.status?.currentStatus?.preserveExpiryTime,
    condition: () => node?.status.conditions.find(({ type }) => type === 'Preserved'),
    cordon(isCordoned = true): void {
      node!.spec.unschedulable = isCordoned;
    },
    marks: () => [
      ...Object.keys(node?.metadata.annotations ?? {}).filter((key) => key !== keys.preserve),
      ...(node?.spec.taints ?? []).map(({ key }) => key),
      ...(node?.spec.unschedulable ? ['cordon'] : []),
    ],
  };
  return state;
}

function writesOf(plan: MaintenancePlan | undefined): string[] {
  return Object.keys(plan ?? {}).filter((key) => key !== 'isEnd' && key !== 'mustDrain');
}

function apply(machine: Machine, node: FakeNode | undefined, plan: MaintenancePlan): void {
  merge(machine.metadata.annotations!, plan.machine?.metadata.annotations);
  const status = (plan.status?.status as { currentStatus?: Record<string, string | null> } | undefined)?.currentStatus;
  merge(machine.status!.currentStatus as Record<string, string>, status);
  if (node === undefined) return;
  merge(node.metadata.annotations, plan.node?.metadata?.annotations);
  const { taints: wanted, unschedulable } = plan.node?.spec ?? {};
  if (wanted) node.spec.taints = [...wanted];
  if (unschedulable !== undefined) node.spec.unschedulable = unschedulable ?? false;
  const { condition } = plan;
  if (condition === undefined || !('status' in condition)) return;
  node.status.conditions = [...node.status.conditions.filter(({ type }) => type !== condition.type), condition];
}

function merge(map: Record<string, string>, change: Readonly<Record<string, string | null>> = {}): void {
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete map[key];
    else map[key] = value;
  }
}

const scaleDown = [keys.scaleDownDisabled, keys.scaleDownDisabledByMcm];
/** Of a Machine that has failed: its Node is cordoned for that. */
const cordoned = [names.cordonedBy, 'cordon'];

describe('a Machine with the annotation', () => {
  it('`now` is preserved in any phase, and drained only once it has failed', () => {
    const { machine, settle, become, ...it } = world('Running', { [keys.preserve]: 'now' });
    expect(settle(hours(0))).toBe(false);
    expect([it.expiry(), it.marks()]).toEqual([timeIn(96), scaleDown]);
    expect(it.condition()).toMatchObject({
      status: 'True',
      reason: 'Preserved by user.',
      message: `Machine preserved until ${timeIn(96)}.`,
    });

    machine.spec!.machinePreserveTimeout = '1h';
    become('Failed');
    expect(settle(hours(1))).toBe(true);
    expect([it.expiry(), it.marks()]).toEqual([timeIn(96), [...scaleDown, ...cordoned]]);
    settle(hours(2), true);
    expect(it.plan(hours(2))).toBeUndefined();
    expect(it.condition()?.message).toBe(`Preserved node drained successfully. Machine preserved until ${timeIn(96)}.`);

    become('Running');
    settle(hours(3));
    expect([it.expiry(), it.marks()]).toEqual([timeIn(96), scaleDown]);
    become('Failed');
    expect(settle(hours(4))).toBe(true); // pods have come since

    expect(machine.metadata.annotations).toEqual({ [keys.preserve]: 'now' });
    expect(it.events).toEqual(['Preserved', 'PreservedDrained']);
  });

  it('`when-failed` is preserved from its failure until it recovers, and again', () => {
    const { machine, settle, become, ...it } = world('Running', { [keys.preserve]: 'when-failed' });
    const before: unknown[] = [];
    machine.spec!.machinePreserveTimeout = '2h';
    expect(it.plan(hours(0))).toBeUndefined();

    for (const time of [1, 5]) {
      become('Failed');
      expect(settle(hours(time))).toBe(true);
      before.push(it.condition()?.reason);
      expect(it.expiry()).toBe(timeIn(time + 2));
      expect(machine.status?.currentStatus?.lastUpdateTime).toBe(timeIn(time));
      settle(hours(time), true);
      become('Running');
      settle(hours(time + 1));
      expect([it.expiry(), it.marks(), it.condition()?.status]).toEqual([undefined, [], 'False']);
      expect(it.condition()?.reason).toBe('Preservation stopped.');
    }
    expect(before).toEqual([undefined, 'Preservation stopped.']); // it says more when the drain has ended
    expect(machine.metadata.annotations).toEqual({ [keys.preserve]: 'when-failed' });
  });

  it('`auto-preserved` loses it when it recovers', () => {
    const { machine, settle, become, ...it } = world('Failed', { [keys.preserve]: 'auto-preserved' });
    settle(hours(0));
    settle(hours(0), true);
    expect(it.condition()?.reason).toBe('Preserved by MCM.');
    become('Running');
    settle(hours(1));
    expect([machine.metadata.annotations, it.expiry()]).toEqual([{}, undefined]);
  });

  it('`false` is not preserved, loses what preserves it, and keeps the annotation', () => {
    const { machine, settle, ...it } = world('Failed', { [keys.preserve]: 'now' });
    settle(hours(0));
    machine.metadata.annotations![keys.preserve] = 'false';
    settle(hours(97));
    expect([machine.metadata.annotations, it.expiry(), it.marks()]).toEqual([
      { [keys.preserve]: 'false' },
      undefined,
      [],
    ]);
    expect(it.plan(hours(98))).toBeUndefined();
  });

  it('is not preserved any more when that is removed', () => {
    const { machine, settle, ...it } = world('Running', { [keys.preserve]: 'now' });
    settle(hours(0));
    delete machine.metadata.annotations![keys.preserve];
    settle(hours(1));
    expect([it.expiry(), it.marks()]).toEqual([undefined, []]);
  });

  it.each(['Machine', 'Node'])('of a %s loses it when its time is over', (of) => {
    const value = { [keys.preserve]: 'now' };
    const { machine, node, settle, ...it } = world(
      'Running',
      of === 'Machine' ? value : {},
      of === 'Node' ? value : {},
    );
    settle(hours(0));
    expect(it.plan(hours(96) - 1)).toBeUndefined();
    settle(hours(96));
    expect([machine.metadata.annotations, node?.metadata.annotations, it.expiry()]).toEqual([{}, {}, undefined]);
    expect(it.events).toEqual(['Preserved', 'PreservationEnded']);
  });

  it('is not kept by its set again when its time was over and it has failed', () => {
    const { machine, settle } = world('Failed', { [keys.preserve]: 'auto-preserved' });
    settle(hours(0));
    settle(hours(96));
    expect(machine.metadata.annotations).toEqual({ [names.preservedUntil]: timeIn(96) });
  });

  it('may be kept by its set again when it has recovered since its time was over', () => {
    const { machine, settle, become } = world('Failed', { [keys.preserve]: 'auto-preserved' });
    settle(hours(0));
    settle(hours(96));
    become('Running');
    settle(hours(97));
    expect(machine.metadata.annotations).toEqual({});
  });

  it.each(['sometimes', 'toString'])('%j, which nobody knows, stays as it is: preserved or not', (value) => {
    const idle = world('Failed', { [keys.preserve]: value });
    expect(idle.plan(hours(0))).toBeUndefined();

    const { machine, settle, ...it } = world('Running', { [keys.preserve]: 'now' });
    settle(hours(0));
    machine.metadata.annotations![keys.preserve] = value;
    expect(it.plan(hours(1))).toBeUndefined();
    settle(hours(96));
    expect([machine.metadata.annotations, it.expiry()]).toEqual([{}, undefined]);
  });
});

describe('a Machine whose Node has the annotation', () => {
  const noted = keys.lastAppliedNodePreserveValue;

  it('loses its own, and notes what the Node says until that says nothing', () => {
    const { machine, node, settle, ...it } = world('Running', { [keys.preserve]: 'now' }, { [keys.preserve]: 'false' });
    settle(hours(0));
    expect([machine.metadata.annotations, it.expiry()]).toEqual([{ [noted]: 'false' }, undefined]);

    node!.metadata.annotations[keys.preserve] = 'now';
    machine.metadata.annotations![keys.preserve] = 'false';
    settle(hours(1));
    expect([machine.metadata.annotations, it.expiry()]).toEqual([{ [noted]: 'now' }, timeIn(97)]);

    delete node!.metadata.annotations[keys.preserve];
    machine.metadata.annotations![keys.preserve] = 'now';
    settle(hours(2));
    expect([machine.metadata.annotations, it.expiry()]).toEqual([{}, undefined]); // it was the Node's still

    machine.metadata.annotations![keys.preserve] = 'now';
    settle(hours(3));
    expect(it.expiry()).toBe(timeIn(99));
  });

  it('is not preserved while that is empty', () => {
    const { machine, settle, ...it } = world('Failed', { [keys.preserve]: 'now' }, { [keys.preserve]: '' });
    settle(hours(0));
    expect([machine.metadata.annotations, it.expiry()]).toEqual([{ [noted]: '' }, undefined]);
  });

  it('keeps its own while that of the Node is a value that nobody knows, which decides nothing', () => {
    const { machine, settle, ...it } = world('Failed', { [keys.preserve]: 'now' }, { [keys.preserve]: 'maybe' });
    settle(hours(0));
    expect(machine.metadata.annotations).toEqual({ [keys.preserve]: 'now', [noted]: 'maybe' });
    expect(it.expiry()).toBeUndefined();
  });

  it('decides itself when the Node does not exist', () => {
    const { machine, settle, ...it } = world('Failed', { [noted]: 'now' }, null);
    settle(hours(0));
    expect([machine.metadata.annotations, it.expiry()]).toEqual([{}, undefined]);
    machine.metadata.annotations![keys.preserve] = 'when-failed';
    expect(settle(hours(1))).toBe(false); // there is nothing to drain
    expect(it.expiry()).toBe(timeIn(97));
  });
});

describe('the marks on a Node', () => {
  it('leave alone what somebody else has written', () => {
    const { node, settle, become, ...it } = world(
      'Failed',
      { [keys.preserve]: 'when-failed' },
      { [keys.scaleDownDisabled]: 'true' },
    );
    node!.spec.taints.push({ key: 'mine', effect: 'NoExecute' });
    settle(hours(0));
    expect(it.marks()).toEqual([keys.scaleDownDisabled, names.cordonedBy, 'mine', 'cordon']);
    become('Running');
    settle(hours(1));
    expect(it.marks()).toEqual([keys.scaleDownDisabled, 'mine']);
  });

  it('say so while the drain does not succeed', () => {
    const { settle, ...it } = world('Failed', { [keys.preserve]: 'now' });
    settle(hours(0));
    expect(settle(hours(1), false)).toBe(true);
    expect(it.condition()).toMatchObject({
      status: 'False',
      message: expect.stringMatching(/^Preserved node could not be drained\. /),
    });
    settle(hours(2), true);
    expect(it.condition()?.status).toBe('True');
  });

  it.each([
    ['that was cordoned before it is preserved', 'when-failed'],
    ['that is cordoned when it fails, and was preserved before', 'now'],
  ])('leave the cordon of a Node alone %s', (_, value) => {
    const { settle, become, cordon, ...it } = world('Running', { [keys.preserve]: value });
    settle(hours(0));
    cordon();
    expect(it.plan(hours(1))).toBeUndefined();
    become('Failed');
    expect(settle(hours(1))).toBe(true);
    settle(hours(1), true);
    become('Running');
    settle(hours(2));
    expect(it.marks()).toEqual(value === 'now' ? [...scaleDown, 'cordon'] : ['cordon']);
  });

  it('leave alone what an in-place update has noted of a cordon', () => {
    const { node, settle, cordon, ...it } = world('Running', { [keys.preserve]: 'now' });
    settle(hours(0));
    cordon();
    Object.assign(node!.metadata, {
      labels: { [labels.selectedForUpdate]: 'true' },
      annotations: { ...node!.metadata.annotations, [names.cordonedBy]: cordoners.others },
    });
    expect(it.plan(hours(1))).toBeUndefined();
  });

  it('are a cordon again if a person uncordons the Node before it is drained, and none once it is', () => {
    const { settle, become, cordon, ...it } = world('Failed', { [keys.preserve]: 'when-failed' });
    cordon();
    settle(hours(0));
    cordon(false);
    expect(settle(hours(1))).toBe(true);
    expect(it.marks().toSorted()).toEqual([...scaleDown, ...cordoned].toSorted());
    settle(hours(2), true);
    cordon(false);
    expect(it.plan(hours(2))).toBeUndefined();
    become('Running');
    settle(hours(3));
    expect(it.marks()).toEqual([]);
  });
});

/**
 * What MCM leaves of a Machine that it has preserved in Failed: v0.62 has cordoned its Node, and v0.63 has tainted it.
 */
describe('what MCM has put on a Node', () => {
  const drained = 'Preserved node drained successfully. Machine preserved until 2030-01-01 05:00:00 +0000 UTC.';

  function left(by: 'cordon' | 'taint', value: string, condition?: { status: string; message: string }) {
    const kept = world(
      'Failed',
      { [keys.preserve]: value },
      { [keys.scaleDownDisabled]: 'true', [keys.scaleDownDisabledByMcm]: 'true' },
    );
    kept.machine.status!.currentStatus!.preserveExpiryTime = timeIn(5);
    if (by === 'cordon') kept.cordon();
    else kept.node!.spec.taints.push(taints.preserved);
    if (condition) kept.node!.status.conditions.push({ type: 'Preserved', reason: 'Preserved by user.', ...condition });
    return kept;
  }

  it.each([
    ['cordon', 'now', scaleDown],
    ['taint', 'now', scaleDown],
    ['cordon', 'when-failed', []],
    ['taint', 'when-failed', []],
    ['cordon', 'auto-preserved', []],
    ['taint', 'auto-preserved', []],
  ] as const)('stays while the Machine is Failed, and the %s goes when it recovers (%s)', (by, value, after) => {
    const { become, settle, ...it } = left(by, value, { status: 'True', message: drained });
    expect(it.plan(hours(1))).toBeUndefined();
    become('Running');
    settle(hours(2));
    expect(it.marks()).toEqual(after);
  });

  it.each([
    ['has begun', undefined],
    ['has failed', { status: 'False', message: 'Preserved node could not be drained. Machine preserved until x.' }],
    ['has begun anew', { status: 'False', message: '' }],
  ])('goes, too, when it recovers before a drain is over that %s', (_, condition) => {
    for (const by of ['cordon', 'taint'] as const) {
      const { become, settle, ...it } = left(by, 'when-failed', condition);
      expect(settle(hours(1))).toBe(true);
      become('Running');
      settle(hours(2));
      expect(it.marks()).toEqual([]);
    }
  });

  it('goes with the preservation of a Machine that stays Failed', () => {
    for (const by of ['cordon', 'taint'] as const) {
      const { settle, ...it } = left(by, 'when-failed', { status: 'True', message: drained });
      settle(hours(5));
      expect(it.marks()).toEqual([]);
    }
  });

  it('leaves a cordon alone beside the taint', () => {
    const { become, settle, cordon, ...it } = left('taint', 'when-failed', { status: 'True', message: drained });
    cordon();
    expect(it.plan(hours(1))).toBeUndefined();
    become('Running');
    settle(hours(2));
    expect(it.marks()).toEqual(['cordon']);
  });
});

it.each([
  ['that is drained next', true, { [names.cordonedBy]: 'preservation' }, [], ''],
  ['that v0.62 of MCM has drained', true, {}, [], 'Preserved node drained successfully.'],
  ['that v0.63 of MCM has tainted', true, {}, [taints.preserved], ''],
  ['of a preserved machine that runs', false, {}, [], 'Machine preserved until x.'],
  ['that somebody has cordoned', false, { [names.cordonedBy]: 'others' }, [], ''],
])('a Node %s counts as one of a Failed machine that is preserved: %p', (_, expected, ofNode, tainted, message) => {
  const conditions = [{ type: 'Preserved', status: 'True', message }];
  expect(isKept({ metadata: { annotations: ofNode }, spec: { taints: tainted }, status: { conditions } })).toBe(
    expected,
  );
});

it('a Machine that is being deleted is not preserved', () => {
  const { machine, plan } = world('Failed', { [keys.preserve]: 'now' });
  machine.metadata.deletionTimestamp = timeIn(0);
  expect(plan(hours(0))).toBeUndefined();
});

it('a Machine that stays although its Node was deleted is preserved as any other', () => {
  const { node, plan } = world('Failed', { [keys.preserve]: 'now' });
  const expected = plan(hours(0));
  node!.metadata.deletionTimestamp = timeIn(0);
  expect(expected).toBeDefined();
  expect(plan(hours(0))).toEqual(expected);
});
