import { describe, expect, it } from '@jest/globals';
import { annotations } from '../../../api/gardener/names.ts';
import type { RolloutRun } from '../../../temporal/rollout-runs.ts';
import { runsText, withRevisions } from './runs.ts';

const failed: RolloutRun = {
  ...{ workflowId: 'n/rollout/n/pool/uid', runId: 'run-1', outcome: 'failed', set: 'pool-b' },
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
const metadata = { name: 'pool-b', uid: 'set-1', resourceVersion: '5', creationTimestamp: '2026-08-19T10:00:00Z' };

describe('rollout runs', () => {
  it('shows each run in a line, and below it why it failed', () => {
    const sets = [{ metadata: { ...metadata, annotations: { [annotations.revision]: '2' } } }];

    const nowMs = Date.parse('2026-08-19T10:10:11Z');
    expect(runsText(withRevisions([open, failed], sets), nowMs).split('\n')).toEqual([
      'START                 TOOK         OUTCOME  REVISION  SET     RUN ID',
      '2026-08-19T10:10:01Z  10 s so far  open     2         pool-b  run-2',
      '2026-08-19T10:00:00Z  10 min       failed   2         pool-b  run-1',
      '  MachineDeployment n/pool has made no progress for 600 s',
      '  blocked by 1 machine:',
      'to replay one: millwright replay n/rollout/n/pool/uid <run id>',
    ]);
  });

  it('gives no revision to a run whose set does not exist any more', () => {
    expect(withRevisions([failed], [])).toEqual([failed]);
  });

  it('says why there may be none', () => {
    expect(runsText([])).toMatch(/nothing was rolled out, or the retention/);
  });
});
