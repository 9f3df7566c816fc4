import { describe, expect, it } from '@jest/globals';
import { blockers, throwsInReplayMark } from '../../../api/names.ts';
import type { BlockedWorkflow } from '../../../temporal/blocked.ts';
import { lacksKey } from '../../../temporal/codec.ts';
import {
  type CauseGroup,
  causesText,
  type Example,
  groupByCause,
  isRetriedTogether,
  longestFirst,
  taskRemedy,
  toExample,
  toSweepExample,
} from './causes.ts';

const machine = (name: string, blockedOn: BlockedWorkflow['blockedOn'], deployment?: string): BlockedWorkflow => ({
  workflowId: `default/machine/default/${name}/uid`,
  type: 'machine',
  start: '2026-11-23T10:00:00Z',
  blockedOn,
  ...(deployment !== undefined && { deployment }),
});

const toCauses = (groups: readonly CauseGroup[], longest: Example) =>
  groups.map((group, i) => ({
    ...{ ...group, meaning: blockers[group.blockedOn] },
    ...(i === 0 ? { longest, retry: 'millwright retry' } : { longest: {} }),
  }));

describe('what is stuck', () => {
  it('is grouped by cause, the largest group first, with what the one says that waits longest', () => {
    const rollout = { ...machine('workers', 'CloudCapacity'), type: 'rollout' };
    const many = Array.from({ length: 7 }, (_, i) => machine(`w-${i}`, 'CloudCapacity', i < 2 ? 'workers' : 'other'));
    const groups = groupByCause([machine('alone', 'Credentials'), rollout, ...many]);
    const longest = {
      since: '2026-11-23T10:00:00Z',
      problem: 'ResourceExhausted: no room',
      unblock: 'Raise the quota.',
    };

    expect(causesText(toCauses(groups, longest), 'default', Date.parse('2026-11-23T10:04:00Z')).split('\n')).toEqual([
      'CloudCapacity: 7 machines. The cloud has no capacity or the quota is used up.',
      '  of workers 2, other 5',
      '  w-0, w-1, w-2, w-3, w-4 and 2 more',
      '  w-0: for 4 min (since 10:00:00Z), ResourceExhausted: no room',
      '  To unblock: Raise the quota.',
      '  To retry all of them: millwright retry',
      '',
      'Credentials: 1 machine. The cloud refuses the credentials.',
      '  alone',
      '',
      'CloudCapacity: 1 rollout. The cloud has no capacity or the quota is used up.',
      '  workers',
    ]);
  });

  it('names first the one that says that it waits longest, which need not be the one whose run is the oldest', () => {
    const [group] = groupByCause([machine('a', 'NodeJoin'), machine('b', 'NodeJoin'), machine('c', 'NodeJoin')]);
    const said = [{ since: '2026-11-23T10:04:00Z' }, { since: '2026-11-23T10:01:00Z' }, { problem: 'no answer' }];
    const { blocked, longest } = longestFirst(group!, said);

    expect(blocked.map(({ workflowId }) => workflowId.split('/')[3])).toEqual(['b', 'a', 'c']);
    expect(longest).toEqual(said[1]);
    expect(longestFirst(group!, [{}, {}, {}])).toEqual({ ...group, longest: {} });
  });

  it('has a group for each remedy where the tasks of workflows fail', () => {
    const failing = (name: string) => machine(name, 'WorkflowTask');
    const blocked = [
      failing('a'),
      { ...failing('b'), isBroken: true as const },
      failing('c'),
      failing('d'),
      failing('e'),
    ];
    const failures = new Map(
      [
        ['a', 'a mistake in validate'],
        ['c', 'Fatal error in workflow machines: no'],
        ['d', 'another mistake'],
      ].map(([name, problem = '']) => [`default/machine/default/${name}/uid`, { problem }]),
    );
    const groups = groupByCause(blocked, failures);

    expect(groups.map((group) => group.blocked.map(({ workflowId }) => workflowId.split('/')[3]))).toEqual([
      ['a', 'd', 'e'],
      ['b', 'c'],
    ]);
    expect(groups.map(({ blocked: [first] }) => taskRemedy(first, failures.get(first.workflowId)?.problem))).toEqual([
      expect.stringMatching(/^The controllers do not end this run: go back to the version before/),
      expect.stringMatching(/^The controllers end this run within some minutes/),
    ]);
    const locked = { problem: `${lacksKey} 'k'` };
    expect(taskRemedy({}, locked.problem)).toMatch(/^Give the workers the key/);
  });

  it.each([
    ['an exception of the code', {}, 'a mistake in validate'],
    ['an exception in a replay, which the next run may throw as well', {}, `${throwsInReplayMark}: TypeError: no`],
    ['a task that nobody answers, as of code that never ends', { isBroken: true as const }, undefined],
  ])('gives the command that goes back to the version before, and what follows, for %s', (_, workflow, problem) => {
    expect(taskRemedy(workflow, problem)).toMatch(/`helm rollback millwright --namespace millwright`, or .*\. Then /);
  });

  it('calls the check of a class by its name', () => {
    const check = { ...machine('long', 'CloudApi'), type: 'sourceCheck', workflowId: 'i/source-check/n/long/uid.1' };
    expect(
      causesText(toCauses(groupByCause([check]), { problem: 'x' }), 'n')
        .split('\n')
        .slice(0, 2),
    ).toEqual(['CloudApi: 1 class check. The cloud refuses or does not answer.', '  long: x']);
  });

  it('can be tried again together where a try helps, and it is several', () => {
    const sweeps = ['a', 'b'].map((name) => ({ ...machine(name, 'CloudApi'), type: 'orphanSweep' }));
    const groups = groupByCause([
      ...(['CloudApi', 'KubernetesApi', 'Source', 'NodeJoin'] as const).flatMap((blockedOn) =>
        ['a', 'b'].map((name) => machine(name, blockedOn)),
      ),
      ...[machine('alone', 'Credentials'), ...sweeps],
    ]);
    const together = groups.filter(isRetriedTogether).map(({ blockedOn, type }) => `${blockedOn} ${type}`);
    expect(together).toEqual(['CloudApi machine', 'KubernetesApi machine']);
  });

  it('says what a machine without an error waits for', () => {
    const since = '2026-11-23T10:00:00Z';
    const draining = { phase: 'Terminating', doing: 'draining the node', since };
    const waitingFor = 'the PodDisruptionBudget default/web to allow the eviction of default/web';
    expect(toExample({ ...draining, waitingFor })).toEqual({ since, problem: `waits for ${waitingFor}` });
    expect(toExample(draining)).toEqual({ since });
  });

  it('says what a sweep waits for, and what to do about it', () => {
    const since = '2026-11-23T10:00:00Z';
    const named = [{ kind: 'vm', id: 'cloud:///a', name: 'a' }];
    const orphans = [{ key: 'a', named }];
    const counts = { groups: 1, listed: 1, seen: 9, candidates: 6, deleted: 0, failed: 0 };
    const waiting = { ...counts, doing: 'waiting for approval', since };
    const held = { reasons: ['there are 6 orphans'], count: 6, orphans };
    const many = Array.from({ length: 25 }, () => ({ key: 'b', named: [...named, ...named] }));
    expect(toSweepExample({ ...waiting, held }, ({ count }) => `Judge ${count}.`)).toEqual({
      ...{ since, problem: 'waits for approval: there are 6 orphans; vm cloud:///a and 5 more' },
      unblock: 'Judge 6.',
    });
    const { problem } = toSweepExample({ ...waiting, held: { reasons: [], count: 25, orphans: many } }, () => '');
    expect(problem).toMatch(/^waits for approval: (vm cloud:\/\/\/a with vm cloud:\/\/\/a,? ){20}and 5 more$/);
    const lastError = { code: 'Unavailable', message: 'no answer', at: since };
    expect(toSweepExample({ ...waiting, lastError }, () => '')).toEqual({ since, problem: 'Unavailable: no answer' });
  });

  it('names one machine once', () => {
    const groups = groupByCause([machine('alone', 'Credentials')]);
    expect(causesText(toCauses(groups, { problem: 'Unauthenticated: no' }), 'default').split('\n')).toEqual([
      'Credentials: 1 machine. The cloud refuses the credentials.',
      '  alone: Unauthenticated: no',
      '  To retry all of them: millwright retry',
    ]);
  });

  it('is said of each one that has an invalid spec', () => {
    const of = (name: string) => ({ ...machine(name, 'OwnerSpec'), type: 'rollout' });
    const [group] = groupByCause([of('a'), of('b')]);
    const own = [
      { problem: 'waits for a correction of its spec: x' },
      { problem: 'waits for a correction of its spec: y' },
    ];
    const cause = { ...group!, meaning: blockers.OwnerSpec, longest: own[0]!, own };
    expect(causesText([cause], 'other').split('\n').slice(1)).toEqual([
      '  default/a: waits for a correction of its spec: x',
      '  default/b: waits for a correction of its spec: y',
    ]);
  });

  it('says what an owner waits for as the sentence that it is', () => {
    const since = '2026-11-23T10:00:00Z';
    const replicas = { desired: 1, total: 1, active: 1, available: 0 };
    const owner = { doing: 'waiting for its machines', since, needs: [], replicas };
    const waitsFor = '1 new machine is not running';
    expect(toExample({ ...owner, waitsFor, blockedOn: 'NodeJoin' })).toEqual({ since, problem: waitsFor });
    const correction = 'a correction of its spec: x';
    expect(toExample({ ...owner, waitsFor: correction, blockedOn: 'OwnerSpec' })).toEqual({
      ...{ since, problem: `waits for ${correction}` },
    });
  });

  it('may be nothing', () => {
    expect(causesText([], 'default')).toBe('nothing is stuck');
  });
});
