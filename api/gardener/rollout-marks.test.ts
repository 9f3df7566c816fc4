import { describe, expect, it } from '@jest/globals';
import { annotations, taints } from './names.ts';
import { toRolloutPatch } from './rollout-marks.ts';

const { scaleDownDisabled: disabled, scaleDownDisabledByMcm: byMcm } = annotations;
const mine = { key: 'mine', effect: 'NoExecute' };
const nodeOf = (of: Record<string, string>, ...on: { key: string; effect: string }[]) => ({
  metadata: { annotations: of },
  spec: { taints: on },
});
const ours = { [disabled]: 'true', [byMcm]: 'true' };
const marks = { isRolling: true, isComplete: false, isOld: true, isPreserved: false, isKeptFromAutoscaler: true };
const over = { ...marks, isRolling: false, isComplete: true, isOld: false };

describe('the Node of a machine', () => {
  it.each<[string, ReturnType<typeof nodeOf>, typeof marks, object | undefined]>([
    [
      'gets all in an old set',
      nodeOf({}, mine),
      marks,
      { metadata: { annotations: ours }, spec: { taints: [mine, taints.preferNoSchedule] } },
    ],
    ['gets the annotation in the new set', nodeOf({}), { ...marks, isOld: false }, { metadata: { annotations: ours } }],
    ['has it', nodeOf(ours, taints.preferNoSchedule), marks, undefined],
    ['keeps the annotation of others', nodeOf({ [disabled]: 'true' }, taints.preferNoSchedule), marks, undefined],
    [
      'gets the taint alone without the flag',
      nodeOf({}),
      { ...marks, isKeptFromAutoscaler: false },
      { spec: { taints: [taints.preferNoSchedule] } },
    ],
    [
      'loses all at the end',
      nodeOf(ours, taints.preferNoSchedule, mine),
      over,
      { metadata: { annotations: { [disabled]: null, [byMcm]: null } }, spec: { taints: [mine] } },
    ],
    [
      'loses the taint alone before all new machines are available',
      nodeOf(ours, taints.preferNoSchedule),
      { ...over, isComplete: false },
      { spec: { taints: [] } },
    ],
    ['keeps what others have written', nodeOf({ [disabled]: 'true' }), over, undefined],
    ['keeps that of a preserved machine', nodeOf(ours), { ...over, isPreserved: true }, undefined],
    ['has nothing', nodeOf({}), over, undefined],
  ])('%s', (_, node, given, expected) => {
    expect(toRolloutPatch(node, given)).toEqual(expected);
  });
});
