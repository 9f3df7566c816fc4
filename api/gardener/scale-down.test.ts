import { describe, expect, it } from '@jest/globals';
import { annotations } from './names.ts';
import { markedMsOf, scaleDown } from './scale-down.ts';
import type { Machine } from './schema/machine.ts';
import type { MachineDeployment } from './schema/machine-deployment.ts';

const { triggerDeletion, lastReplicaChangeByScalerTime, priority, markedForDeletionTime } = annotations;
const now = new Date('2026-08-19T12:00:00.500Z');
const early = '2026-08-19T10:00:00Z';
const late = '2026-08-19T11:00:00Z';

function deployment(list: string | undefined, changedAt?: string): MachineDeployment {
  return {
    metadata: {
      ...{ name: 'pool', uid: 'pool', resourceVersion: '1', creationTimestamp: early },
      annotations: {
        ...(list !== undefined && { [triggerDeletion]: list }),
        ...(changedAt !== undefined && { [lastReplicaChangeByScalerTime]: changedAt }),
      },
    },
  };
}

function machine(name: string, phase = 'Running', own: Record<string, string> = {}, change: object = {}): Machine {
  return {
    metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: early, annotations: own, ...change },
    status: { currentStatus: { phase } },
  } as Machine;
}

const marked = (time: string) => ({ [priority]: '1', [markedForDeletionTime]: time });
const mark = (name: string, time: string) => ({ name, uid: name, annotations: marked(time) });
const plan = (list: string | undefined, machines: Machine[], changedAt?: string) =>
  scaleDown.planMarks(deployment(list, changedAt), machines, now);

describe('planMarks', () => {
  it('marks what is listed, and leaves it on the list', () => {
    const machines = [machine('a'), machine('b', 'Unknown'), machine('c')];
    expect(plan(`a~${early},b~${late}`, machines, late)).toEqual({ machines: [mark('a', early), mark('b', late)] });
  });

  it('has nothing to do where nothing is listed, or all of it is marked', () => {
    expect(plan(undefined, [machine('a')], late)).toBeUndefined();
    expect(plan('', [machine('a')], late)).toBeUndefined();
    expect(plan(`a~${early}`, [machine('a', 'Running', marked(early))], late)).toBeUndefined();
  });

  it.each<[string, string]>([
    ['a name without a machine', 'gone'],
    ['a machine that has Failed', 'failed'],
    ['one that is being deleted', 'leaving'],
    ['one that MCM was deleting', 'terminating'],
    ['nothing', ''],
    ['no name', `~${late}`],
    ['a time that is none', 'a~soon'],
    ['a time that is a date', 'a~2026-08-19'],
    ['a time too much', `a~${late}~${late}`],
    ['what can be no name', `../b~${late}`],
  ])('[mcm 65 partly] removes from the list %s', (_, entry) => {
    const machines = [
      machine('a'),
      machine('b'),
      machine('failed', 'Failed'),
      machine('leaving', 'Running', {}, { deletionTimestamp: late }),
      machine('terminating', 'Terminating'),
    ];
    const withTime = entry.includes('~') || entry === '' ? entry : `${entry}~${late}`;
    expect(plan(`b~${early},${withTime}`, machines, late)).toEqual({
      deployment: { [triggerDeletion]: `b~${early}` },
      machines: [mark('b', early)],
    });
    expect(plan(withTime === '' ? ',' : withTime, machines, late)).toEqual({
      deployment: { [triggerDeletion]: null },
      machines: [],
    });
  });

  it('gives an entry without a time that of the last change of the replicas', () => {
    expect(plan('a', [machine('a')], late)).toEqual({
      deployment: { [triggerDeletion]: `a~${late}` },
      machines: [mark('a', late)],
    });
  });

  it.each([undefined, 'soon'])('takes now for that change where it is %p', (changedAt) => {
    const time = '2026-08-19T12:00:00Z';
    expect(plan('a', [machine('a')], changedAt)).toEqual({
      deployment: { [triggerDeletion]: `a~${time}`, [lastReplicaChangeByScalerTime]: time },
      machines: [mark('a', time)],
    });
    // What has a time needs none, and for what goes from the list nothing is written.
    expect(plan(`a~${late}`, [machine('a')], changedAt)).toEqual({ machines: [mark('a', late)] });
    expect(plan('gone', [], changedAt)).toEqual({ deployment: { [triggerDeletion]: null }, machines: [] });
  });

  it('lists each machine once, as it was listed last, without blanks', () => {
    expect(plan(` a~${early}, a~${late}`, [machine('a', 'Running', marked(early))], late)).toEqual({
      deployment: { [triggerDeletion]: `a~${late}` },
      machines: [mark('a', late)],
    });
  });

  it('leaves nothing to do once it is written', () => {
    for (const list of ['a,b', `a~${early},gone~${late},b`, ' b ,a~soon']) {
      const first = plan(list, [machine('a'), machine('b')])!;
      const { [triggerDeletion]: next, [lastReplicaChangeByScalerTime]: changedAt } = first.deployment!;
      const marks = new Map(first.machines.map(({ name, annotations: own }) => [name, own as Record<string, string>]));
      const after = ['a', 'b'].map((name) => machine(name, 'Running', marks.get(name)));
      expect(plan(next ?? undefined, after, changedAt ?? undefined)).toBeUndefined();
    }
  });
});

describe('[mcm 66 partly] isUnneeded', () => {
  it.each<[string, Record<string, string>, string | undefined, boolean]>([
    ['marked before the last change', marked(early), late, true],
    ['marked at that moment', marked(late), late, true],
    ['marked at that moment, in another time zone', marked('2026-08-19T13:00:00+02:00'), late, true],
    ['marked after it', marked(late), early, false],
    ['marked, and there was no change', marked(early), undefined, false],
    ['marked, and the change is at no time', marked(early), 'now', false],
    ['marked at no time', marked('soon'), late, false],
    ['not marked', {}, late, false],
    ['with another priority', { ...marked(early), [priority]: '2' }, late, false],
    ['with a time alone', { [markedForDeletionTime]: early }, late, false],
  ])('answers for a machine %s', (_, own, changedAt, expected) => {
    expect(scaleDown.isUnneeded(machine('a', 'Running', own), deployment(undefined, changedAt))).toBe(expected);
  });
});

describe('markedMsOf', () => {
  it.each(['2026-08-19', '19 Aug 2026', '2026-13-19T10:00:00Z', '2026-08-19 10:00:00Z', ''])(
    'knows no time %p',
    (time) => {
      expect(markedMsOf(machine('a', 'Running', marked(time)))).toBe(Number.POSITIVE_INFINITY);
    },
  );
});
