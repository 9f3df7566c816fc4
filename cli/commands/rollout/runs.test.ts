import { describe, expect, it } from '@jest/globals';
import type { RolloutRun } from '../../../temporal/rollout-runs.ts';
import { runsText } from './runs.ts';

const failed: RolloutRun = {
  ...{ workflowId: 'n/rollout/n/pool/uid', runId: 'run-1', outcome: 'failed', set: 'pool-b', revision: 2 },
  ...{ start: '2026-08-19T10:00:00.000Z', end: '2026-08-19T10:10:00.000Z' },
  failure: 'MachineDeployment n/pool has made no progress for 600 s\nblocked by 1 machine:',
};
const {
  end: _end,
  failure: _failure,
  ...open
}: RolloutRun = {
  ...failed,
  runId: 'run-2',
  outcome: 'running',
  start: '2026-08-19T10:10:01.000Z',
};
const replay = ({ workflowId, runId }: RolloutRun) => `millwright replay ${workflowId} ${runId} -n n`;
const nowMs = Date.parse('2026-08-19T10:10:11Z');

describe('rollout runs', () => {
  it('shows each run in a line, and below it why it failed', () => {
    expect(runsText([open, failed], replay, nowMs).split('\n')).toEqual([
      'START                 TOOK         OUTCOME  REVISION  SET     RUN ID',
      '2026-08-19T10:10:01Z  10 s so far  open     2         pool-b  run-2',
      '2026-08-19T10:00:00Z  10 min       failed   2         pool-b  run-1',
      '  MachineDeployment n/pool has made no progress for 600 s',
      '  blocked by 1 machine:',
      'to replay the newest of these runs, or another one by its RUN ID: millwright replay n/rollout/n/pool/uid run-2 -n n',
    ]);
  });

  it('says which runs are those of a deployment that was deleted and created again', () => {
    const { failure: _, ...before }: RolloutRun = { ...failed, workflowId: 'n/rollout/n/pool/old', runId: 'run-0' };

    const lines = runsText([open, failed, { ...before, outcome: 'completed' }], replay, nowMs).split('\n');
    expect(lines.slice(5)).toEqual([
      'to replay the newest of these runs, or another one by its RUN ID: millwright replay n/rollout/n/pool/uid run-2 -n n',
      '2026-08-19T10:00:00Z  10 min       completed  2         pool-b  run-0',
      'to replay the newest of these runs, or another one by its RUN ID: millwright replay n/rollout/n/pool/old run-0 -n n',
    ]);
  });

  it('does not call a run complete that ended in the middle of a rollout because of a pause', () => {
    const { failure: __, ...paused }: RolloutRun = { ...failed, outcome: 'completed', paused: true };

    expect(runsText([paused], replay).split('\n')[1]).toMatch(/ 10 min +paused +2 /);
  });

  it('says why there may be none', () => {
    expect(runsText([], replay)).toMatch(/nothing was rolled out, or the retention/);
  });
});
