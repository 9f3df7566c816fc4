/**
 * Runs whose history and code disagree, of each type of workflow: they are found, ended, and followed by another run.
 */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Client, type ScheduleHandle, ScheduleOverlapPolicy, type WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure, defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { bundleWorkflowCode, DefaultLogger, type NativeConnection, Worker } from '@temporalio/worker';
import type { ObjectRef } from '../../api/model/ref.ts';
import { searchAttributes } from '../../api/names.ts';
import { limitsWorkflowId } from '../../api/workflow-id.ts';
import { listBlocked } from '../../temporal/blocked.ts';
import { type BrokenRun, listBrokenRuns, replaceBrokenRun } from '../../temporal/broken-runs.ts';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { createClaimMachines } from '../../temporal/limits.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { type Installation, installationKey, retryOfFailedRun } from '../../temporal/workflows.ts';
import { bundleChanged } from '../replay/changed.ts';
import { fromSetup } from '../support/from-setup.ts';
import { recordingLogger } from '../support/kube.ts';
import { sinks } from '../support/sinks.ts';
import { connectTemporal } from '../support/temporal.ts';
import { until } from '../support/until.ts';
import { proceedSignal } from './timer-workflows.ts';

const scope = { dialect: 'gardener', namespace: 'n' };
const ref: ObjectRef = { ...scope, name: 'a', uid: 'a-uid' };
const inputs = {
  machine: ref,
  rollout: ref,
  machineSet: ref,
  machineLimits: scope,
  orphanSweep: { ...scope, dryRun: true },
  sourceCheck: ref,
  tagUpdate: ref,
  interruptionCheck: scope,
} as const;
const types = Object.keys(inputs) as (keyof typeof inputs)[];

/** What every workflow of these tests is waiting for: an API server, or a provider without a worker. */
const place = { provider: 'none', providerSpec: {}, credentials: [] };
const away = async () => {
  throw ApplicationFailure.create({ type: 'Unavailable', message: 'away', nonRetryable: true });
};
const source = { object: { name: 'class', uid: 'class-uid' }, ...place };
const machineToTag = { uid: 'm-uid', name: 'm', providerID: 'x:///m', place: 0, removedTags: [] };
const activities = {
  observeMachine: async ({ name }: ObjectRef) => (name === 'mistake' ? {} : away()),
  observeOwner: away,
  readSweepScope: async ({ namespace }: { namespace: string }) =>
    namespace === 'held' ? { sources: [source] } : away(),
  readSource: async () => ({ version: '1', cloud: place }),
  readTagUpdate: async () => ({ tags: {}, places: [place], machines: [machineToTag], last: 'm' }),
  noteVmTags: async () => 'noted',
  listInterruptible: async () => [place],
};

const deploymentKey = defineSearchAttributeKey(searchAttributes.deployment, SearchAttributeType.KEYWORD);
const blockedOnKey = defineSearchAttributeKey(searchAttributes.blockedOn, SearchAttributeType.KEYWORD);

let client: Client;
let connection: NativeConnection;
let installation: Installation;
let end: () => Promise<void>;
let scheduled: Awaited<ReturnType<typeof startScheduled>>;

async function startWorker(workflowBundle: { code: string }): Promise<void> {
  const taskQueue = installation.name;
  const worker = await Worker.create({ connection, taskQueue, workflowBundle, sinks, activities });
  const running = worker.run();
  end = async () => {
    worker.shutdown();
    await running;
  };
}

/** Options of a workflow with an argument that the runs before it have left. */
const optionsOf = (type: string, workflowId: string, input: object, blockedOn = 'CloudApi') => ({
  taskQueue: installation.name,
  workflowId,
  workflowTaskTimeout: '1 second' as const,
  args: [input, null],
  retry: retryOfFailedRun,
  staticSummary: `the ${type}`,
  typedSearchAttributes: [
    { key: installationKey, value: installation.name },
    { key: deploymentKey, value: 'pool' },
    { key: blockedOnKey, value: blockedOn },
  ],
});

const start = (type: string, ...more: [workflowId: string, input: object, blockedOn?: string]) =>
  client.workflow.start(type, optionsOf(type, ...more));

/** Has a Schedule start a sweep. Answers both. */
async function startScheduled() {
  const scheduleId = `${installation.name}/scheduled`;
  const workflow = optionsOf('orphanSweep', scheduleId, inputs.orphanSweep);
  const schedule = await client.schedule.create({
    scheduleId,
    spec: { intervals: [{ every: '1 day' }] },
    action: { type: 'startWorkflow', workflowType: 'orphanSweep', ...workflow },
    policies: { overlap: ScheduleOverlapPolicy.SKIP },
    state: { triggerImmediately: true },
  });
  const [first = ''] = await until('it is started', async (see) => {
    const started = see(await startedBy(schedule));
    return started.length > 0 && started;
  });
  return { schedule, handle: client.workflow.getHandle(first) };
}

/** Ids of the workflows that a Schedule has started. */
async function startedBy(schedule: ScheduleHandle): Promise<string[]> {
  const { info } = await schedule.describe();
  return info.recentActions.map(({ action }) => action.workflow.workflowId);
}

const eventsOf = async (handle: WorkflowHandle) => (await handle.fetchHistory()).events ?? [];
const hasCompletedTask = async (handle: WorkflowHandle) =>
  (await eventsOf(handle)).some((event) => event.workflowTaskCompletedEventAttributes);
/** Its history has an id of the worker that it began with. */
const hasBegun = async (handle: WorkflowHandle) =>
  (await eventsOf(handle)).some(
    (event) => event.activityTaskScheduledEventAttributes ?? event.timerStartedEventAttributes,
  );
/** Only a claim asks for a workflow by its id. */
const idOf = (type: string) =>
  type === 'machineLimits' ? limitsWorkflowId(installation.name, 'n') : `${installation.name}/${type}`;
const isOf = (type: string) => (run: Pick<BrokenRun, 'workflowId'>) => run.workflowId === idOf(type);

beforeAll(async () => {
  client = new Client({ connection: await connectTemporal() });
  await ensureSearchAttributes(client.connection, 'default');
  const address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
  connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
  installation = { client, name: `broken-runs-${randomUUID()}` };
  // As the commands of a worker that has seen more than the server: with ids that no replay has.
  await startWorker(
    await bundleChanged((code) => code.replace(/timer: 1,\s+activity: 1,/, 'timer: 36, activity: 36,')),
  );
  scheduled = await startScheduled();
  const alone = await Promise.all(types.map((type) => start(type, idOf(type), inputs[type])));
  const started = [scheduled.handle, ...alone];
  // It has no worker for its provider, so nothing ends that it waits for.
  const held = await start('orphanSweep', idOf('held'), { ...scope, namespace: 'held', dryRun: false }, 'Brake');
  for (const handle of [...started, held]) await until('it has started an activity or a timer', () => hasBegun(handle));
  await end();
  await startWorker(await loadWorkflowBundle());
  for (const handle of started) await handle.signal('refresh');
});
afterAll(async () => {
  await scheduled.schedule.delete();
  for await (const { workflowId } of client.workflow.list({
    query: `${searchAttributes.installation} = '${installation.name}' AND ExecutionStatus = 'Running'`,
  }))
    await client.workflow
      .getHandle(workflowId)
      .terminate()
      .catch(() => undefined); // the list may be behind
  await end();
  await connection.close();
  await client.connection.close();
});

it('a claim of machines says that the tasks of the workflow fail which grants them', async () => {
  const claim = createClaimMachines(installation);
  const handle = client.workflow.getHandle(idOf('machineLimits'));
  await until('a claim is refused at once', async (see) => {
    const { raw } = see(await handle.describe());
    return (raw.pendingWorkflowTask?.attempt ?? 0) >= 3;
  });

  const refused = claim(scope, { kind: 'MachineDeployment', name: 'pool', uid: 'pool', names: ['m-1'] });

  await expect(refused).rejects.toMatchObject({
    type: 'Unavailable',
    message: expect.stringContaining(`${handle.workflowId} fail: \`millwright stuck\` says why`),
    details: [{ blockedOn: 'WorkflowTask' }],
  });
});

it.each(types)('a broken run of type %s is found, and the next one goes on with the reference alone', async (type) => {
  const broken = await until('it is listed', async (see) => see(await listBrokenRuns(installation)).find(isOf(type)));
  const blocked = (await listBlocked(installation)).find(isOf(type));

  expect(await replaceBrokenRun(installation, broken)).toBe(true);

  const handle = client.workflow.getHandle(broken.workflowId);
  await until('it goes on', async (see) => see(await hasCompletedTask(handle)));
  const [first] = await eventsOf(handle);
  const { input, attempt, taskQueue, retryPolicy } = first?.workflowExecutionStartedEventAttributes ?? {};
  const { runId, typedSearchAttributes, staticSummary } = await handle.describe();
  const before = client.workflow.getHandle(broken.workflowId, broken.runId);
  expect((await before.describe()).status.name).toBe('TERMINATED');
  expect(runId).not.toBe(broken.runId);
  expect(input?.payloads?.map(({ data }) => JSON.parse(Buffer.from(data ?? []).toString()))).toEqual([inputs[type]]);
  expect([attempt, taskQueue?.name, Number(retryPolicy?.maximumInterval?.seconds)]).toEqual([1, installation.name, 60]);
  expect(typedSearchAttributes.get(deploymentKey)).toBe('pool');
  expect(typedSearchAttributes.get(blockedOnKey)).not.toBe('CloudApi');
  expect(await staticSummary()).toBe(`the ${type}`);
  expect(blocked).toMatchObject({ blockedOn: 'WorkflowTask', isBroken: true });
  expect(await replaceBrokenRun(installation, broken)).toBe(false);
});

it('a sweep that waits for approval is found, although it has no workflow task that fails', async () => {
  const isHeld = isOf('held');
  const handle = client.workflow.getHandle(idOf('held'));
  const broken = await until('it is listed', async (see) => see(await listBrokenRuns(installation)).find(isHeld));
  const failed = (await eventsOf(handle)).filter((event) => event.workflowTaskFailedEventAttributes);

  expect(failed).toEqual([]);
  expect(broken).toBeDefined();
  expect(await replaceBrokenRun(installation, broken!)).toBe(true);
  await until('it goes on', async (see) => see(await hasCompletedTask(handle)));
  expect((await listBrokenRuns(installation)).some(isHeld)).toBe(false);
  expect(await replaceBrokenRun(installation, { ...broken!, runId: (await handle.describe()).runId })).toBe(false);
});

it('a broken run of a Schedule is ended, and the next one is that of the Schedule', async () => {
  const { schedule, handle } = scheduled;
  const isScheduled = ({ workflowId }: BrokenRun) => workflowId === handle.workflowId;
  const broken = await until('it is listed', async (see) => see(await listBrokenRuns(installation)).find(isScheduled));

  expect(await replaceBrokenRun(installation, broken)).toBe(true);

  const { runId, status } = await handle.describe();
  expect([runId, status.name]).toEqual([broken.runId, 'TERMINATED']);
  await until('the Schedule starts another one', async (see) => {
    await schedule.trigger();
    return see(await startedBy(schedule)).length > 1;
  });
});

it.each([
  ['has another command than a replay', 'that cancels its timer'],
  ['goes on where a replay throws', 'that throws'],
])('a run is ended whose history %s, which the SDK reports as an exception', async (_, build) => {
  const workflowsPath = fileURLToPath(new URL('timer-workflows.ts', import.meta.url));
  const interceptors = fileURLToPath(new URL('../../workflows/interceptors.ts', import.meta.url));
  const { code } = await bundleWorkflowCode({
    ...{ workflowsPath, workflowInterceptorModules: [interceptors], logger: new DefaultLogger('ERROR') },
  });
  const workflowId = idOf(`timers ${build}`);
  const taskQueue = `${installation.name} ${build}`;
  const options = optionsOf('timers', workflowId, {});
  const handle = await client.workflow.start('timers', { ...options, args: [], taskQueue });
  const workWith = async (workflowBundle: { code: string }, work: () => Promise<unknown>) => {
    const worker = await Worker.create({ connection, taskQueue, workflowBundle, sinks });
    await worker.runUntil(work());
  };
  const timersOf = async () => (await eventsOf(handle)).filter((event) => event.timerStartedEventAttributes).length;
  await workWith({ code }, async () => {
    await until('it has a timer', async (see) => see(await timersOf()) === 1);
    await handle.signal(proceedSignal);
    await until('it has another one', async (see) => see(await timersOf()) === 2);
  });

  const isOurs = isOf(`timers ${build}`);
  await workWith({ code: code.replaceAll('that starts another timer', build) }, async () => {
    await until('its task has failed five times', async (see) => {
      await handle.signal(proceedSignal);
      const failed = (await eventsOf(handle)).filter((event) => event.workflowTaskFailedEventAttributes);
      return see(failed.length) >= 5;
    });
    const broken = await until('it is listed', async (see) => see(await listBrokenRuns(installation)).find(isOurs));
    expect((await listBlocked(installation)).find(isOurs)).toMatchObject({ blockedOn: 'WorkflowTask' });
    expect(await replaceBrokenRun(installation, broken)).toBe(true);
    await until('it goes on', async (see) => see(await hasCompletedTask(client.workflow.getHandle(workflowId))));
  });
});

it('a run whose code throws is none: it goes on with a build that is correct', async () => {
  const handle = await start('machine', idOf('mistake'), { ...ref, name: 'mistake' });
  // A further failure is an event only if a signal came before that try, and not while it ran.
  await until('its task has failed five times', async (see) => {
    await handle.signal('refresh');
    const failed = (await eventsOf(handle)).filter((event) => event.workflowTaskFailedEventAttributes);
    return see(failed.length) >= 5;
  });
  const isMistaken = ({ workflowId }: { workflowId: string }) => workflowId === handle.workflowId;
  const blocked = await until('it is listed', async (see) => see(await listBlocked(installation)).find(isMistaken));

  expect(blocked.isBroken).toBeUndefined();
  expect((await listBrokenRuns(installation)).some(isMistaken)).toBe(false);
});
