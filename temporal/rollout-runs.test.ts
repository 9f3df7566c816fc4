import { describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { defaultDataConverter, defaultPayloadConverter } from '@temporalio/common';
import type { OwnerView } from '../api/model/owner.ts';
import { listRolloutRuns } from './rollout-runs.ts';

type Reading = Pick<OwnerView, 'paused' | 'template'> & { readonly sets: readonly { isNew: boolean; total: number }[] };

/** Readings of the only run, the oldest first. */
function clientOf(readings: readonly Reading[]): Client {
  const history = readings.flatMap((view, i) => [
    { eventId: i * 2 + 1, activityTaskScheduledEventAttributes: { activityType: { name: 'observeOwner' } } },
    {
      eventId: i * 2 + 2,
      activityTaskCompletedEventAttributes: {
        scheduledEventId: i * 2 + 1,
        result: { payloads: [defaultPayloadConverter.toPayload({ view })] },
      },
    },
  ]);
  const at = new Date('2026-08-19T10:00:00Z');
  const run = { workflowId: 'n/rollout/n/pool/uid', runId: 'run', startTime: at, closeTime: at };
  return {
    options: { namespace: 'default', loadedDataConverter: { ...defaultDataConverter, payloadCodecs: [] } },
    withDeadline: (_: number, call: () => Promise<unknown>) => call(),
    workflow: {
      async *list() {
        yield { ...run, status: { name: 'COMPLETED' } };
      },
    },
    connection: {
      workflowService: {
        getWorkflowExecutionHistory: async () => ({ history: { events: history } }),
        getWorkflowExecutionHistoryReverse: async () => ({ history: { events: history.toReversed() } }),
      },
    },
  } as unknown as Client;
}

describe('listRolloutRuns', () => {
  const list = (...readings: Reading[]) =>
    listRolloutRuns({ client: clientOf(readings), name: 'n' }, { namespace: 'n', name: 'pool' });
  const template = { setName: 'pool-b', hash: '1', revision: 2 };
  const [old, updated] = [
    { isNew: false, total: 1 },
    { isNew: true, total: 1 },
  ];
  const rolling = { paused: false, template, sets: [old, updated] };

  it('has the revision that the template had in the first reading, which its set may have no more', async () => {
    expect(await list({ ...rolling, sets: [updated] })).toMatchObject([{ set: 'pool-b', revision: 2 }]);
  });

  it('has no revision where the reading has none, as in release 0.1.0', async () => {
    const [run] = await list({ ...rolling, template: { setName: 'pool-b', hash: '1' } });
    expect([run?.set, run?.revision]).toEqual(['pool-b', undefined]);
  });

  it.each([
    ['was paused before its end', { ...rolling, paused: true }, true],
    ['was complete', { ...rolling, sets: [updated] }, undefined],
    ['was complete while it was paused', { ...rolling, paused: true, sets: [updated] }, undefined],
  ])('says of a run that completed that its rollout %s', async (_, last, paused) => {
    const [run] = await list(rolling, last);
    expect([run?.outcome, run?.paused]).toEqual(['completed', paused]);
  });
});
