import { describe, expect, it } from '@jest/globals';
import { inPlaceOrders, names } from '../../names.ts';
import { annotations, labels, taints, updateResults } from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import { planUpdateInPlace } from './in-place-update.ts';

const start = Date.parse('2030-01-01T00:00:00Z');
const ready = { type: 'Ready', status: 'True' };

const ofSet = (order: string) => `${order}@set`;
const change = (annotation: string | null) => ({ metadata: { annotations: { [names.inPlaceUpdate]: annotation } } });

/** A Machine and its Node in the middle of an update, with what is to be written to each of them. */
function plan(given: {
  /** For the set that controls the Machine. */
  readonly order?: string;
  /** The annotation as it is, in place of an order. */
  readonly annotation?: string;
  readonly label?: string;
  readonly phase?: string;
  readonly node?: readonly string[];
  readonly result?: string;
  readonly reason?: string;
  readonly taints?: readonly { readonly key: string; readonly effect: string }[];
  readonly isCordoned?: boolean;
  readonly cordonedBy?: string;
  readonly isDrained?: boolean;
  readonly isNodeDeleted?: boolean;
  readonly nowMs?: number;
}) {
  const {
    order,
    annotation = order && ofSet(order),
    label,
    phase = 'Running',
    node = [],
    result,
    reason,
    isDrained,
    nowMs = start,
  } = given;
  const condition = reason === undefined ? [] : [{ type: 'InPlaceUpdate', status: 'True', reason }];
  const machine: Machine = {
    metadata: {
      ...{ name: 'm', uid: 'm', resourceVersion: '1', creationTimestamp: '2029-01-01T00:00:00Z' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'MachineSet', name: 's', uid: 'set', controller: true }],
      ...(annotation !== undefined && { annotations: { [names.inPlaceUpdate]: annotation } }),
      ...(label !== undefined && { labels: { [labels.updateResult]: label } }),
    },
    spec: { inPlaceUpdateTimeout: '1m' },
    status: { currentStatus: { phase, lastUpdateTime: '2030-01-01T00:00:00Z' }, conditions: [ready, ...condition] },
  };
  const onNode = [
    ...node.map((key) => [key, 'true']),
    ...(result === undefined ? [] : [[labels.updateResult, result]]),
  ];
  const planned = planUpdateInPlace(
    machine,
    {
      metadata: {
        ...(given.isNodeDeleted && { deletionTimestamp: '2030-01-01T00:00:00Z' }),
        labels: Object.fromEntries(onNode),
        annotations: {
          [annotations.updateFailedReason]: 'no space',
          ...(given.cordonedBy && { [names.cordonedBy]: given.cordonedBy }),
        },
      },
      spec: { taints: given.taints ?? [], ...(given.isCordoned && { unschedulable: true }) },
      status: { conditions: [ready, ...condition] },
    },
    { nowMs, ...(isDrained !== undefined && { isDrained }) },
  );
  const { condition: next, status, ...rest } = planned ?? { isEnd: false };
  const written = status?.status as { currentStatus?: { phase?: string } } | undefined;
  return {
    ...rest,
    ...(next && 'reason' in next && { reason: next.reason }),
    ...(next && '$patch' in next && { reason: null }),
    ...(written?.currentStatus && { phase: written.currentStatus.phase }),
  };
}

const { candidateForUpdate, selectedForUpdate, updateResult } = labels;
const both = [candidateForUpdate, selectedForUpdate];
const { candidate, selected, updated, released } = inPlaceOrders;
const nothing = { isEnd: false };

describe('an in-place update', () => {
  it.each<[string, Parameters<typeof plan>[0], object]>([
    ['nothing of a Machine without one', {}, nothing],
    [
      'the label of a candidate',
      { order: candidate },
      { node: { metadata: { labels: { [candidateForUpdate]: 'true' } } } },
    ],
    ['that a Node is a candidate', { order: candidate, node: [candidateForUpdate] }, { reason: 'CandidateForUpdate' }],
    [
      'the label of one whose turn it is',
      { order: selected, node: [candidateForUpdate], reason: 'CandidateForUpdate' },
      { node: { metadata: { labels: { [selectedForUpdate]: 'true' } } } },
    ],
    [
      'the same on a Node that was deleted, and whose Machine stays',
      { order: selected, node: [candidateForUpdate], reason: 'CandidateForUpdate', isNodeDeleted: true },
      { node: { metadata: { labels: { [selectedForUpdate]: 'true' } } } },
    ],
    [
      'what a person has selected, for the owner and on the Node',
      { order: candidate, node: both, reason: 'CandidateForUpdate' },
      { reason: 'SelectedForUpdate', machine: change(ofSet(selected)) },
    ],
    [
      'first that somebody else has cordoned the Node whose turn it is',
      { order: selected, node: both, reason: 'CandidateForUpdate', isCordoned: true },
      { node: { metadata: { annotations: { [names.cordonedBy]: 'others' } } } },
    ],
    [
      'its turn then',
      {
        ...{ order: selected, node: both, reason: 'CandidateForUpdate' },
        ...{ isCordoned: true, cordonedBy: 'others' },
      },
      { reason: 'SelectedForUpdate' },
    ],
    [
      'first that nobody else has cordoned it any more',
      { order: selected, node: both, reason: 'CandidateForUpdate', cordonedBy: 'others' },
      { node: { metadata: { annotations: { [names.cordonedBy]: null } } } },
    ],
    ['nothing before the drain', { order: selected, node: both, reason: 'SelectedForUpdate' }, { mustDrain: true }],
    [
      'nothing after a drain that has failed',
      { order: selected, node: both, reason: 'SelectedForUpdate', isDrained: false },
      { mustDrain: true },
    ],
    [
      'phase and condition after the drain',
      { order: selected, node: both, reason: 'SelectedForUpdate', isDrained: true },
      { phase: 'InPlaceUpdating', reason: 'DrainSuccessful', event: expect.anything() },
    ],
    [
      'that the agent may begin',
      { order: selected, node: both, reason: 'DrainSuccessful', phase: 'InPlaceUpdating' },
      { reason: 'ReadyForUpdate' },
    ],
    [
      'nothing while the agent is at it',
      { order: selected, node: both, reason: 'ReadyForUpdate', phase: 'InPlaceUpdating', nowMs: start + 59_999 },
      nothing,
    ],
    [
      'that it takes too long',
      { order: selected, node: both, reason: 'ReadyForUpdate', phase: 'InPlaceUpdating', nowMs: start + 60_000 },
      { phase: 'InPlaceUpdateFailed' },
    ],
    [
      'that it has failed',
      {
        ...{ order: selected, node: both, reason: 'ReadyForUpdate', phase: 'InPlaceUpdating' },
        result: updateResults.failed,
      },
      { phase: 'InPlaceUpdateFailed', reason: 'UpdateFailed' },
    ],
    [
      'nothing more of a failure',
      {
        ...{ order: selected, node: both, reason: 'UpdateFailed', phase: 'InPlaceUpdateFailed' },
        result: updateResults.failed,
      },
      nothing,
    ],
    [
      'a success after a failure',
      {
        ...{ order: selected, node: both, reason: 'UpdateFailed', phase: 'InPlaceUpdateFailed' },
        result: updateResults.successful,
      },
      { phase: 'InPlaceUpdateSuccessful', reason: 'UpdateSuccessful' },
    ],
    [
      'for the owner that it has succeeded, and that it runs',
      {
        ...{ order: selected, node: both, reason: 'UpdateSuccessful', phase: 'InPlaceUpdateSuccessful' },
        result: updateResults.successful,
      },
      { phase: 'Running', machine: change(ofSet(updated)) },
    ],
    [
      'nothing until it is handed over',
      { order: updated, node: both, reason: 'UpdateSuccessful', result: updateResults.successful },
      nothing,
    ],
    [
      'the Node as before once it is handed over, but for its critical components',
      {
        ...{ label: updateResults.successful, node: both, reason: 'UpdateSuccessful' },
        ...{
          result: updateResults.successful,
          taints: [taints.preferNoSchedule, { key: 'mine', effect: 'NoExecute' }],
        },
      },
      {
        isEnd: true,
        node: {
          metadata: {
            labels: { [candidateForUpdate]: null, [selectedForUpdate]: null, [updateResult]: null },
            annotations: { [annotations.updateFailedReason]: null },
          },
          spec: {
            unschedulable: null,
            taints: [{ key: 'mine', effect: 'NoExecute' }, taints.criticalComponentsNotReady],
          },
        },
      },
    ],
    [
      'no end of a cordon that somebody else had made',
      {
        ...{ label: updateResults.successful, node: both, reason: 'UpdateSuccessful' },
        ...{ result: updateResults.successful, isCordoned: true, cordonedBy: 'others' },
      },
      {
        isEnd: true,
        node: {
          metadata: {
            labels: { [candidateForUpdate]: null, [selectedForUpdate]: null, [updateResult]: null },
            annotations: { [annotations.updateFailedReason]: null, [names.cordonedBy]: null },
          },
          spec: { taints: [taints.criticalComponentsNotReady] },
        },
      },
    ],
    [
      'nothing until these are ready',
      { label: updateResults.successful, reason: 'UpdateSuccessful', taints: [taints.criticalComponentsNotReady] },
      nothing,
    ],
    [
      'the last marks on the Machine then',
      { label: updateResults.successful, reason: 'UpdateSuccessful' },
      {
        isEnd: true,
        machine: { metadata: { labels: { [updateResult]: null }, annotations: { [names.inPlaceUpdate]: null } } },
      },
    ],
    [
      'first that one runs which was handed over before its status said so',
      {
        ...{ label: updateResults.successful, node: both, reason: 'UpdateSuccessful', phase: 'InPlaceUpdating' },
        result: updateResults.successful,
      },
      { isEnd: true, phase: 'InPlaceUpdateSuccessful' },
    ],
    [
      'the same where its Node has nothing of the update any more',
      { label: updateResults.successful, reason: 'UpdateSuccessful', phase: 'InPlaceUpdateSuccessful' },
      { isEnd: true, phase: 'Running' },
    ],
    [
      'the Node of a candidate that was released as before, and leaves its cordon to whoever made it',
      { order: released, node: [candidateForUpdate], reason: 'CandidateForUpdate' },
      {
        isEnd: true,
        node: {
          metadata: {
            labels: { [candidateForUpdate]: null },
            annotations: { [annotations.updateFailedReason]: null },
          },
        },
      },
    ],
    [
      'the Node of one that was released during its drain as before',
      { order: released, node: both, reason: 'SelectedForUpdate' },
      { isEnd: true, node: expect.objectContaining({ spec: { unschedulable: null } }) },
    ],
    [
      'the Node of one that was released during its drain, and leaves a cordon that was there before',
      { order: released, node: both, reason: 'SelectedForUpdate', isCordoned: true, cordonedBy: 'others' },
      {
        isEnd: true,
        node: {
          metadata: {
            labels: { [candidateForUpdate]: null, [selectedForUpdate]: null },
            annotations: { [annotations.updateFailedReason]: null, [names.cordonedBy]: null },
          },
        },
      },
    ],
    [
      'the Node of one that was released before its drain, and leaves a cordon that is there since the update before',
      { order: released, node: both, reason: 'UpdateSuccessful', isCordoned: true },
      {
        isEnd: true,
        node: {
          metadata: {
            labels: { [candidateForUpdate]: null, [selectedForUpdate]: null },
            annotations: { [annotations.updateFailedReason]: null },
          },
        },
      },
    ],
    [
      'no condition of one that was released',
      { order: released, reason: 'CandidateForUpdate' },
      { isEnd: true, reason: null },
    ],
    [
      'that a Node of an earlier update is a candidate again',
      { order: candidate, node: [candidateForUpdate], reason: 'UpdateSuccessful' },
      { reason: 'CandidateForUpdate' },
    ],
    [
      'nothing of an order for another set, which goes',
      { annotation: 'selected@other', reason: 'UpdateSuccessful' },
      { machine: change(null) },
    ],
    [
      'nothing of an order without a set where no update is under way, which goes',
      { annotation: selected, reason: 'UpdateSuccessful' },
      { machine: change(null) },
    ],
    [
      'the set into an order without one whose update is under way',
      { annotation: selected, node: both, reason: 'ReadyForUpdate', phase: 'InPlaceUpdating' },
      { machine: change(ofSet(selected)) },
    ],
    [
      'the end of an update that was released by an order without a set',
      { annotation: released, reason: 'SelectedForUpdate' },
      { isEnd: true, reason: null },
    ],
    [
      'for the owner that an agent has succeeded which somebody else has let begin',
      { node: both, reason: 'UpdateSuccessful', result: updateResults.successful },
      { machine: change(ofSet(updated)) },
    ],
    ['nothing of a Machine that goes', { order: candidate, phase: 'Terminating' }, nothing],
  ])('writes %s', (_, given, expected) => {
    const { event, ...written } = plan(given) as Record<string, unknown>;
    const { event: _expected, ...rest } = expected as Record<string, unknown>;
    expect(written).toEqual({ ...nothing, ...rest });
    expect(event === undefined).toBe(!('phase' in written));
  });
});

describe('an in-place update of a machine without its Node', () => {
  const late = (phase: string, nowMs: number) => {
    const metadata = { name: 'm', uid: 'm', resourceVersion: '1', creationTimestamp: '2029-01-01T00:00:00Z' };
    const currentStatus = { phase, lastUpdateTime: '2030-01-01T00:00:00Z' };
    const machine: Machine = { metadata, spec: { inPlaceUpdateTimeout: '1m' }, status: { currentStatus } };
    return planUpdateInPlace(machine, undefined, { nowMs });
  };

  it('fails when its time is over, and changes nothing before', () => {
    expect(late('InPlaceUpdating', start + 59_000)).toBeUndefined();
    expect(late('InPlaceUpdating', start + 60_000)).toMatchObject({
      isEnd: false,
      status: { status: { currentStatus: { phase: 'InPlaceUpdateFailed' } } },
      event: { reason: 'UpdateInPlaceFailed', note: 'Machine m failed to in-place update in 60 s' },
    });
    for (const phase of ['InPlaceUpdateFailed', 'Running']) expect(late(phase, start + 60_000)).toBeUndefined();
  });
});
