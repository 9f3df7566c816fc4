import { describe, expect, it, jest } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { defaultDataConverter } from '@temporalio/common';
import { searchAttributes } from '../../api/names.ts';
import { deletedByOthers } from '../../api/owner/deletion-cause.ts';
import { grpcCodes } from '../../temporal/connection.ts';
import { type KnownCauses, readTimeline } from '../../temporal/read-timeline.ts';
import { filesOf, historiesFolder } from '../replay/files.ts';
import { toReplay } from '../replay/history.ts';

const files = filesOf(historiesFolder, '0.1.0/scale');
const historyOf = (file: string) => files.find(({ name }) => name.endsWith(file))!.history;
const uid = '6eb81831-eee3-4bc3-9ccf-228b87807c8e';
const begin = new Date('2026-11-23T19:52:10.000Z');
const machine = { runId: 'machine-1.json', workflowId: `i/machine/n/lone-cx5zx/${uid}`, startTime: begin };
const gone = { runId: 'gone', workflowId: 'i/rollout/n/other/uid', startTime: begin };
const set = { runId: 'machineSet-1.json', workflowId: 'i/machine-set/n/lone/uid', startTime: begin };

/**
 * A client of a Temporal with the run of a machine, and what it lists of owners.
 * @param of the machine's run; retentionSeconds of the namespace, 0: it has none
 */
function temporalWith(owners: readonly object[] | Error, of: object = {}, retentionSeconds = 0) {
  const queries: string[] = [];
  async function* list({ query }: { query: string }) {
    const isOfMachine = query.startsWith('WorkflowId');
    if (!isOfMachine) queries.push(query);
    if (!isOfMachine && owners instanceof Error) throw owners;
    const runs = isOfMachine ? [{ ...machine, ...of }] : query.includes('Deployment = ') ? [] : owners;
    for (const run of runs as readonly object[]) yield { searchAttributes: {}, ...run };
  }
  async function fetchHistory(runId: string) {
    if (runId === gone.runId) throw Object.assign(new Error('not found'), { code: grpcCodes.notFound });
    return toReplay(historyOf(runId));
  }
  const getHandle = (_id: string, runId: string) => ({ fetchHistory: () => fetchHistory(runId) });
  const config = { workflowExecutionRetentionTtl: { seconds: retentionSeconds } };
  const client = {
    ...{ workflow: { list, getHandle }, options: { loadedDataConverter: defaultDataConverter } },
    workflowService: { describeNamespace: async () => ({ config }) },
    withDeadline: (_deadline: number, call: () => unknown) => call(),
  };
  return { queries, installation: { client: client as unknown as Client, name: 'i' } };
}

async function causesOf(...given: Parameters<typeof temporalWith>) {
  const found = await readTimeline(temporalWith(...given).installation, { namespace: 'n', name: 'lone-cx5zx' });
  return found?.steps.flatMap(({ step, cause }) => (cause === undefined ? [] : [`${step}: ${cause}`]));
}

describe('the timeline of a machine that was deleted', () => {
  it('has the cause that a run of its owner had at that time', async () => {
    expect(await causesOf([set])).toEqual(['drain: MachineSet lone is being deleted']);
  });

  it('has the cause of an owner of another MachineDeployment than that of an earlier run', async () => {
    const of = { searchAttributes: { [searchAttributes.deployment]: ['earlier'] } };
    expect(await causesOf([set], of)).toEqual(['drain: MachineSet lone is being deleted']);
  });

  it('asks once for the runs that owners had at that time, where what it finds is remembered', async () => {
    const { queries, installation } = temporalWith([]);
    const known: KnownCauses = new Map();
    const key = { namespace: 'n', name: 'lone-cx5zx' };
    for (const _time of [1, 2]) await readTimeline(installation, key, undefined, known);

    expect([...known.values()]).toMatchObject([{ cause: deletedByOthers }]);
    expect(queries).toEqual([
      expect.stringMatching(
        /^MillwrightInstallation = 'i' AND WorkflowType IN .* AND StartTime <= '2026-11-23T19:53:11\.000Z' AND \(CloseTime >= '2026-11-23T19:51:11\.000Z' OR /,
      ),
    ]);
  });

  it('looks again for a cause that it did not find after 30 s, and not before', async () => {
    const { queries, installation } = temporalWith([gone]);
    const known: KnownCauses = new Map();
    const key = { namespace: 'n', name: 'lone-cx5zx' };
    const now = jest.spyOn(Date, 'now');
    const asked: number[] = [];
    for (const ms of [0, 29_999, 30_000, 59_999]) {
      now.mockReturnValue(begin.getTime() + 3_600_000 + ms);
      await readTimeline(installation, key, undefined, known);
      asked.push(queries.length);
    }
    now.mockRestore();

    expect(asked).toEqual([1, 1, 2, 2]);
  });

  it.each([
    ['its owners cannot be listed', new Error('Temporal is busy'), {}, 0],
    ['its workflow began after its deletion', [], { startTime: new Date('2026-11-23T20:00:00Z') }, 0],
    ['there is more to read', Array.from({ length: 6 }, () => ({ ...set, runId: 'rollout-1.json' })), {}, 0],
    ['the history of a run that was listed is gone', [gone], {}, 0],
    ['the retention of runs that were closed then has ended', [], {}, 3_600],
  ])('has no cause where %s', async (_why, owners, of, retentionSeconds) => {
    expect(await causesOf(owners, of, retentionSeconds)).toEqual([]);
  });
});
