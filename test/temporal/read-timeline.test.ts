import { describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { defaultDataConverter } from '@temporalio/common';
import { readTimeline } from '../../temporal/read-timeline.ts';
import { filesOf, historiesFolder } from '../replay/files.ts';
import { toReplay } from '../replay/history.ts';

const files = filesOf(historiesFolder, '0.1.0/scale');
const historyOf = (file: string) => files.find(({ name }) => name.endsWith(file))!.history;
const uid = '6eb81831-eee3-4bc3-9ccf-228b87807c8e';
const begin = new Date('2026-11-23T19:52:10.000Z');
const machine = { runId: 'machine-1.json', workflowId: `i/machine/n/lone-cx5zx/${uid}`, startTime: begin };
const set = { runId: 'machineSet-1.json', workflowId: 'i/machine-set/n/lone/uid', startTime: begin };

/** A client of a Temporal with the run of a machine, and what it lists of owners. @param start of the machine's run */
function temporalWith(owners: readonly object[] | Error, start = begin) {
  const queries: string[] = [];
  async function* list({ query }: { query: string }) {
    const isOfMachine = query.startsWith('WorkflowId');
    if (!isOfMachine) queries.push(query);
    if (!isOfMachine && owners instanceof Error) throw owners;
    const runs = isOfMachine ? [{ ...machine, startTime: start }] : owners;
    for (const run of runs as readonly object[]) yield { searchAttributes: {}, ...run };
  }
  const getHandle = (_id: string, runId: string) => ({ fetchHistory: async () => toReplay(historyOf(runId)) });
  const client = {
    ...{ workflow: { list, getHandle }, options: { loadedDataConverter: defaultDataConverter } },
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

  it('asks once for the runs that owners had at that time, where what it finds is remembered', async () => {
    const { queries, installation } = temporalWith([]);
    const known = new Map<string, string>();
    const key = { namespace: 'n', name: 'lone-cx5zx' };
    for (const _time of [1, 2]) await readTimeline(installation, key, undefined, known);

    expect([...known.values()]).toEqual(['a person or another program has deleted it']);
    expect(queries).toEqual([
      expect.stringMatching(
        /^MillwrightInstallation = 'i' AND WorkflowType IN .* AND StartTime <= '2026-11-23T19:53:11\.000Z' AND \(CloseTime >= '2026-11-23T19:51:11\.000Z' OR /,
      ),
    ]);
  });

  it('asks once for what nobody will know', async () => {
    const { queries, installation } = temporalWith([], new Date('2026-11-23T20:00:00Z'));
    const known = new Map<string, string>();
    for (const _time of [1, 2]) {
      await readTimeline(installation, { namespace: 'n', name: 'lone-cx5zx' }, undefined, known);
    }

    expect([[...known.values()], queries.length]).toEqual([[''], 1]);
  });

  it.each([
    ['its owners cannot be listed', new Error('Temporal is busy'), begin],
    ['its workflow began after its deletion', [], new Date('2026-11-23T20:00:00Z')],
    ['there is more to read', Array.from({ length: 6 }, () => ({ ...set, runId: 'rollout-1.json' })), begin],
  ])('has no cause where %s', async (_why, owners, start) => {
    expect(await causesOf(owners, start)).toEqual([]);
  });
});
