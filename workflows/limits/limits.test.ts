/** The workflow that grants the limits of a namespace, with a namespace that the tests play. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { LimitGrant, LimitReading, LimitUse } from '../../api/model/limits.ts';
import { setUpWorkflows } from '../../test/support/workflows.ts';
import type { VirtualHandle } from '../../test/virtual-temporal/server.ts';
import { refreshSignal } from '../messages.ts';
import { grantMs } from './grants.ts';
import { claimUpdate, describeLimitsQuery } from './messages.ts';

const scope = { dialect: 'gardener', namespace: 'n' };
const kind = 'MachineDeployment';
const limits = { surge: 9, provisioning: 2 };

let uses: LimitUse[];
let readings: number;
let beforeReading: () => Promise<void>;
let id: string;
let handle: VirtualHandle;

const workflows = setUpWorkflows((taskQueue) => ({
  [taskQueue]: {
    readLimits: async (): Promise<LimitReading> => {
      readings += 1;
      await beforeReading();
      return { limits, uses };
    },
  },
}));

beforeEach(() => {
  uses = [];
  readings = 0;
  beforeReading = async () => undefined;
});

async function start(): Promise<void> {
  handle = await workflows.temporal.start('machineLimits', {
    taskQueue: workflows.taskQueue,
    workflowId: id,
    args: [scope],
  });
}

/** Records the names in the set of an owner, as its step does, and claims them. */
function claim(name: string, ...names: string[]): Promise<LimitGrant> {
  const use: LimitUse = {
    ...{ kind, name, uid: name, limits, provisioning: 0, surplus: 0 },
    ...{ wanted: names.length, pending: names },
  };
  uses = [...uses.filter(({ uid }) => uid !== name), use];
  return handle.executeUpdate(claimUpdate, { args: [{ kind, name, uid: name, names }] });
}

/** The machines of an owner exist, and run. */
function run(name: string): void {
  uses = uses.filter((use) => use.name !== name);
}

describe('the workflow that grants the limits of a namespace', () => {
  beforeEach(async () => {
    id = workflows.newWorkflowId();
    await start();
  });

  it('never grants in sum more than the limit to claims that come together', async () => {
    const grants = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => claim(name, `${name}-1`, `${name}-2`)));

    expect(grants.flatMap(({ granted }) => granted)).toHaveLength(2);
    expect(grants.filter(({ wait }) => wait?.limit === 'provisioning').length).toBeGreaterThanOrEqual(4);
  });

  it('says who uses the limits, and who waits', async () => {
    await claim('a', 'a-1', 'a-2');
    await claim('b', 'b-1');

    const said = await handle.query(describeLimitsQuery);

    expect(said).toMatchObject({ limits, used: { provisioning: 2 }, holders: [{ name: 'a', provisioning: 2 }] });
    expect(said.waiting.map(({ name }) => name)).toEqual(['b']);
  });

  it('reads again when a watcher saw a change, and drops who has no workflow from the line', async () => {
    await claim('a', 'a-1', 'a-2');
    await claim('b', 'b-1');
    run('a');

    await handle.signal(refreshSignal);

    await workflows.advanceUntil(async () => (await handle.query(describeLimitsQuery)).waiting.length === 0);
  });

  it('grants after it was terminated no machine that was granted before and does not exist yet', async () => {
    await claim('a', 'a-1', 'a-2');
    await handle.terminate();
    await start();

    const { granted, wait } = await claim('b', 'b-1');

    expect([granted, wait?.holders]).toEqual([[], [{ name: 'a', count: 2 }]]);
  });

  it('holds nothing any more for an owner that was granted machines and does not create them', async () => {
    await claim('a', 'a-1', 'a-2');
    await claim('b', 'b-1');
    await workflows.temporal.advance(grantMs + 5_000); // it looks once a minute

    expect((await claim('b', 'b-1')).granted).toEqual(['b-1']);
  });

  it('fails a claim while the API server does not answer, and grants the next one', async () => {
    beforeReading = async () => {
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'away', nonRetryable: true });
    };
    await expect(claim('a', 'a-1')).rejects.toThrow(WorkflowUpdateFailedError);
    beforeReading = async () => undefined;

    expect((await claim('a', 'a-1')).granted).toEqual(['a-1']);
  });

  it('reads nothing for a signal while nobody waits', async () => {
    await handle.signal(refreshSignal);
    await claim('a', 'a-1');

    expect(readings).toBe(1);
  });
});
