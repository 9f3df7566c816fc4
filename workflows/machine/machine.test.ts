/** The life of a machine on a real Temporal server, with a Kubernetes and a cloud that the tests play. */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { Client, type WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import type { DrainActivities } from '../../activities/drain.ts';
import type { MachineActivities } from '../../activities/machines.ts';
import type { FailureCode } from '../../api/failures.ts';
import type { ClassReading, MachineSnapshot, NodeView, StatusChange } from '../../api/model.ts';
import { providerTaskQueue } from '../../api/names.ts';
import type { DeleteVmRequest, EnsureVmRequest, ProviderActivities, Vm, VmDeletion } from '../../api/provider.ts';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { connectWorkers } from '../../temporal/connection.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { recordingLogger, eventually as within } from '../../test/kube/setup.ts';
import { sinks } from '../../test/support/sinks.ts';
import { describeQuery, lookSignal, observedSignal, retryNowSignal } from './messages.ts';

const patienceMs = 60_000;
jest.setTimeout(4 * patienceMs);
const eventually = (condition: () => boolean | Promise<boolean>) => within(condition, patienceMs);

const userData = { namespace: 'n', name: 'pool', key: 'userData' };
const vm: Vm = { state: 'running', providerID: 'played:///vm-1', nodeName: 'node-1', addresses: [] };

let connection: NativeConnection;
let client: Client;
let bundle: { code: string };

beforeAll(async () => {
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
  connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
  bundle = await loadWorkflowBundle();
});
afterAll(() => connection.close());

/** The objects as their API servers have them. */
let machine: MachineSnapshot;
let node: NodeView;
let reading: ClassReading;
/** What the cloud does when it is asked for the VM, and what it was asked. */
let ensureVm: (request: EnsureVmRequest) => Vm | Promise<Vm>;
let asked: EnsureVmRequest[];
let deletions: DeleteVmRequest[];
/** What the cloud does when it is told to delete. */
let deleteVm: () => VmDeletion;
/** Whether a drain ends by itself, and how many have begun. */
let isDrainable: boolean;
let drains: number;
/** Names of the steps in Kubernetes, and what was written into the status. */
let steps: (keyof MachineActivities)[];
let written: StatusChange[];
/** Whether the name of the node is that of another VM's. */
let isNodeTaken: boolean;
/** What adding the finalizer finds. */
let onFinalizer: () => Partial<MachineSnapshot>;

let handle: WorkflowHandleWithFirstExecutionRunId;
let taskQueue: string;
let end: () => Promise<void>;

/** Changes the Machine as a write to the API server does. */
function touch(change: Partial<MachineSnapshot>): MachineSnapshot {
  machine = { ...machine, ...change, resourceVersion: String(Number(machine.resourceVersion) + 1) };
  return machine;
}

function refuse(type: FailureCode): never {
  throw ApplicationFailure.create({ type, message: `the cloud says ${type}`, nonRetryable: true });
}

beforeEach(async () => {
  machine = {
    uid: randomUUID(),
    resourceVersion: '100',
    createdAt: new Date().toISOString(),
    managed: false,
    finalizers: [],
    prioritized: false,
    phase: '',
    class: { kind: 'MachineClass', name: 'small' },
    forceDeletion: false,
    limits: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] },
    conditions: {},
  };
  node = { state: 'absent' };
  reading = {
    version: '1',
    cloud: {
      provider: 'played',
      class: { namespace: 'n', name: 'small', generation: 1 },
      providerSpec: { zone: 'a' },
      credentials: [],
    },
    userData: { ...userData, personal: false },
  };
  ensureVm = () => vm;
  isNodeTaken = false;
  onFinalizer = () => ({ managed: true, finalizers: [...machine.finalizers, 'ours'] });
  asked = [];
  deletions = [];
  deleteVm = () => ({ state: 'gone', nodeNames: [] });
  isDrainable = true;
  drains = 0;
  steps = [];
  written = [];
  taskQueue = `machine-test-${randomUUID()}`;
  const workers = await Promise.all([
    Worker.create({ connection, taskQueue, workflowBundle: bundle, sinks, activities: playKubernetes() }),
    Worker.create({ connection, taskQueue: providerTaskQueue(taskQueue, 'played'), activities: playCloud() }),
  ]);
  const runs = workers.map((worker) => worker.run());
  end = async () => {
    await client.workflow
      .getHandle(handle.workflowId)
      .terminate()
      .catch(() => undefined); // most have ended
    for (const worker of workers) worker.shutdown();
    await Promise.all(runs);
  };
});
afterEach(() => end());

function playKubernetes(): MachineActivities & DrainActivities {
  const noted = <A extends unknown[], R>(name: keyof MachineActivities, step: (...args: A) => R) => {
    return async (...args: A): Promise<R> => {
      steps.push(name);
      return step(...args);
    };
  };
  return {
    observeMachine: noted('observeMachine', () => ({ machine, node })),
    addFinalizer: noted('addFinalizer', () => touch(onFinalizer())),
    storeIdentity: noted('storeIdentity', (_ref, { providerID, nodeName }) =>
      touch({ providerID, prioritized: true, ...(nodeName !== undefined && { nodeName }) }),
    ),
    isNodeTaken: noted('isNodeTaken', () => isNodeTaken),
    writeStatus: noted('writeStatus', (_ref, _known, change) => {
      written.push(change);
      const { phase, lastKnownState } = change;
      return touch({ phase, ...(lastKnownState !== undefined && { lastKnownState }) });
    }),
    syncNode: noted('syncNode', (_ref, _seen, { phase }) => {
      const conditions = node.state === 'present' ? node.conditions : machine.conditions;
      return { machine: touch({ phase, conditions }), node };
    }),
    deleteMachine: noted('deleteMachine', () => touch({ deletingSince: new Date().toISOString() })),
    removeNode: noted('removeNode', () => true),
    uncordonNode: noted('uncordonNode', () => true),
    removeFinalizer: noted('removeFinalizer', () => true),
    readClass: noted('readClass', () => reading),
    ensureUserData: noted('ensureUserData', () => userData),
    removeUserData: noted('removeUserData', () => true),
    async drainNode() {
      drains++;
      if (!isDrainable) await untilCancelled();
      return { kind: 'drained' };
    },
  };
}

/** Rejects when the activity is cancelled, which only its heartbeats hear of. */
async function untilCancelled(): Promise<never> {
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), 100);
  return context.cancelled.finally(() => clearInterval(beat));
}

function playCloud(): Pick<ProviderActivities, 'ensureVm' | 'deleteVm'> {
  return {
    async ensureVm(request) {
      asked.push(request);
      return ensureVm(request);
    },
    async deleteVm(request) {
      deletions.push(request);
      return deleteVm();
    },
  };
}

async function start(): Promise<void> {
  const ref = { dialect: 'gardener', namespace: 'n', name: 'm', uid: machine.uid };
  handle = await client.workflow.start('machine', { taskQueue, workflowId: `${taskQueue}/m`, args: [ref] });
}

/** Tells the workflow what a watcher would. */
async function observe(): Promise<void> {
  await latest().signal(observedSignal, { machine, node });
}

/** Lets the Node of the VM register, healthy. */
async function joinNode(): Promise<void> {
  node = {
    ...{ state: 'present', uid: 'node-uid', resourceVersion: '1', name: 'node-1', deleting: false, managed: true },
    ...{ conditions: { Ready: 'True' }, startingUp: false },
  };
  await observe();
}

/** How long each timer of the first run was set for, ms. */
async function firstTimers(): Promise<number[]> {
  const { workflowId, firstExecutionRunId } = handle;
  const { events } = await client.workflow.getHandle(workflowId, firstExecutionRunId).fetchHistory();
  return (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => {
    const { seconds, nanos } = timer?.startToFireTimeout ?? {};
    return timer ? [Number(seconds ?? 0) * 1_000 + (nanos ?? 0) / 1e6] : [];
  });
}

/** The workflow in whichever run it is. */
const latest = () => client.workflow.getHandle(handle.workflowId);
const waitingFor = async () => (await latest().query(describeQuery)).waitingFor;

/** Waits until so many calls for the VM have come to nothing. */
async function untilRefused(calls: number): Promise<void> {
  await eventually(() => asked.length >= calls);
  await eventually(async () => (await waitingFor()) === 'a change that helps, or the next try');
}

async function tryAgain(): Promise<void> {
  const before = asked.length;
  await latest().signal(retryNowSignal);
  await untilRefused(before + 1);
}

describe('a Machine that is deleted before its finalizer is on', () => {
  it.each([
    {
      when: 'is left to others when it is seen so',
      prepare: () => touch({ deletingSince: new Date().toISOString(), finalizers: ['foregroundDeletion'] }),
      looks: ['observeMachine'],
    },
    {
      when: 'is left to others when the finalizer comes too late',
      prepare: () => {
        onFinalizer = () => ({ deletingSince: new Date().toISOString(), finalizers: ['foregroundDeletion'] });
      },
      looks: ['observeMachine', 'addFinalizer'],
    },
  ])('$when', async ({ prepare, looks }) => {
    prepare();
    await start();
    await handle.result();
    expect(steps).toEqual(looks);
    expect([asked, deletions, written]).toEqual([[], [], []]);
  });
});

describe('a refusal', () => {
  it('[mcm 28] is written once, and again when it says something else', async () => {
    let words = 'no room in request 1a';
    ensureVm = () => {
      throw ApplicationFailure.create({ type: 'ResourceExhausted', message: words, nonRetryable: true });
    };
    await start();
    await untilRefused(1);
    words = 'no room in request 2b';
    await tryAgain();
    words = 'no quota in request 3c';
    await tryAgain();

    const note = (text: string) => ({
      reason: 'FailedCreate',
      note: expect.stringMatching(`^ResourceExhausted: ${text}\\. Raise the quota`),
    });
    expect(written.map(({ event }) => event)).toEqual([
      note('no room in request 1a'),
      note('no room in request 1a'),
      note('no quota in request 3c'),
    ]);
    expect(written.map(({ operation }) => operation !== undefined)).toEqual([true, false, true]);
    expect((await latest().query(describeQuery)).lastError).toMatchObject({ times: 1, message: words });
  });

  it('is not tried again because the workflow is told to look, as after every restart, unless it finds news', async () => {
    ensureVm = () => refuse('ResourceExhausted');
    await start();
    await untilRefused(1);
    const looks = () => steps.filter((step) => step === 'observeMachine').length;
    const before = looks();
    await latest().signal(lookSignal);
    await eventually(() => looks() > before);
    expect(await waitingFor()).toBe('a change that helps, or the next try');
    expect(asked).toHaveLength(1);

    touch({ class: { kind: 'MachineClass', name: 'large' } });
    await latest().signal(lookSignal);
    await untilRefused(2);
  });

  it('[mcm 57] that says NotFound to a deletion means that there is nothing to delete', async () => {
    deleteVm = () => refuse('NotFound');
    await start();
    await eventually(() => machine.phase === 'Pending');
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await handle.result();

    expect(deletions).toHaveLength(1);
    expect(steps.at(-1)).toBe('removeFinalizer');
  });
});

describe('a creation', () => {
  it('knows the outcome of a refusal, although its provider calls that worth another try', async () => {
    ensureVm = () => {
      throw ApplicationFailure.create({ type: 'ResourceExhausted', message: 'sold out' });
    };
    await start();
    await untilRefused(1);
    await tryAgain();
    expect(asked.map(({ token, outcomeUnknown }) => [token, outcomeUnknown])).toEqual([
      [`${machine.uid}-0`, false],
      [`${machine.uid}-1`, false],
    ]);
  });

  it('can be tried again at once, however long the cloud asks to be left alone', async () => {
    ensureVm = () => {
      if (asked.length > 1) return vm;
      const details = [{ retryAfterMs: 300_000 }];
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'throttled', details });
    };
    await start();
    await untilRefused(1);
    await latest().signal(retryNowSignal);
    await eventually(() => asked.length === 2);
    expect(asked[1]).toMatchObject({ outcomeUnknown: true });
  });

  it('that fails leaves the identity of its VM for the deletion, as the cloud may not list it yet', async () => {
    ensureVm = () => ({ ...vm, state: 'failed', message: 'no host' });
    await start();
    await eventually(() => machine.phase === 'Failed');

    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await handle.result();

    expect(written.find(({ phase }) => phase === 'Failed')?.operation?.description).toContain('no host');
    expect(deletions).toMatchObject([{ providerID: vm.providerID, outcomeUnknown: false }]);
    expect(steps.at(-1)).toBe('removeFinalizer');
  });

  it('[mcm 23] ends at its timeout although the cloud never names the node', async () => {
    touch({ limits: { ...machine.limits, creationSeconds: 3 } });
    ensureVm = () => ({ state: 'creating', providerID: vm.providerID, addresses: [] });
    await start();
    await eventually(() => machine.phase === 'Failed');

    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(machine.createdAt) + 3_000);
    expect(written.at(-1)?.operation).toMatchObject({
      state: 'Failed',
      errorCode: 'DeadlineExceeded',
      description: 'node (not named yet) did not become healthy within 3 s',
    });
  });

  it('[invariant 1] asks for the same under the same token in a new run, while a VM may have come of it', async () => {
    ensureVm = () => refuse(asked.length <= 2 ? 'ResourceExhausted' : 'Internal');
    await start();
    await untilRefused(1);
    await tryAgain();
    await tryAgain();
    reading = { ...reading, version: '2', cloud: { ...reading.cloud!, providerSpec: { zone: 'b' } } };

    const first = (await handle.describe()).runId;
    for (let count = 0; count < 500; count++) await observe();
    await latest().signal(retryNowSignal);
    await eventually(async () => (await latest().describe()).runId !== first);
    await untilRefused(5);
    expect(asked.map(({ token }) => token)).toEqual([0, 1, 2, 2, 2].map((ordinal) => `${machine.uid}-${ordinal}`));
    expect(asked.map(({ outcomeUnknown }) => outcomeUnknown)).toEqual([false, false, false, true, true]);
    expect(new Set(asked.map(({ providerSpec }) => JSON.stringify(providerSpec)))).toEqual(new Set(['{"zone":"a"}']));

    // Once that is refused, too, the next creation has a token that none had before.
    ensureVm = () => refuse('ResourceExhausted');
    await tryAgain();
    await tryAgain();
    expect(asked.at(-1)).toMatchObject({ token: `${machine.uid}-3`, providerSpec: { zone: 'b' } });
  });

  it('[invariant 1] takes a corrected class after a lost answer, under another token, and remembers the loss', async () => {
    ensureVm = () => refuse(asked.length === 1 ? 'Internal' : 'ResourceExhausted');
    await start();
    await untilRefused(1);
    await tryAgain();

    reading = { ...reading, version: '2', cloud: { ...reading.cloud!, providerSpec: { zone: 'b' } } };
    await tryAgain();

    expect(asked).toMatchObject([
      { token: `${machine.uid}-0`, providerSpec: { zone: 'a' }, outcomeUnknown: false },
      { token: `${machine.uid}-0`, providerSpec: { zone: 'a' }, outcomeUnknown: true },
      { token: `${machine.uid}-1`, providerSpec: { zone: 'b' }, outcomeUnknown: true },
    ]);
  });

  it('[mcm 13] makes no other VM when the provider cannot look up the one that the Machine names', async () => {
    ensureVm = ({ providerID }) => (providerID === undefined ? vm : refuse('Unimplemented'));
    await start();
    await eventually(() => machine.phase === 'Pending');

    // Asked anew, as when a workflow was lost: the identity is all that there is.
    await handle.terminate();
    await start();
    await eventually(async () => (await waitingFor()) === 'node node-1 to register');

    expect(asked.map(({ providerID }) => providerID)).toEqual([undefined, vm.providerID]);
    expect(written.map(({ event }) => event?.reason)).toEqual(['VmCreated']);
    expect((await latest().query(describeQuery)).lastError).toBeUndefined();
    await joinNode();
    await eventually(() => machine.phase === 'Running');
  });

  it('[mcm 15] asks every 5 s until the VM is set up, says why it is not, and takes no node before', async () => {
    let message = '';
    let isSetUp = false;
    ensureVm = () => {
      if (isSetUp) return vm;
      return { ...vm, state: 'uninitialized', ...(message !== '' && { message, lastKnownState: 'half' }) };
    };
    await start();
    await eventually(() => machine.phase === 'Pending');
    await joinNode();
    await eventually(async () => (await waitingFor()) === 'the cloud to set up the VM');
    message = 'no route yet';
    await eventually(() => machine.phase === 'CrashLoopBackOff');
    await eventually(async () => (await latest().query(describeQuery)).blockedOn === 'CloudApi');
    expect((await latest().query(describeQuery)).lastError).toMatchObject({ code: 'Uninitialized', message });
    isSetUp = true;
    await eventually(() => machine.phase === 'Running');

    expect(asked.length).toBeGreaterThanOrEqual(3);
    expect(asked.at(-1)?.lastKnownState).toBe('half');
    const operations = written.flatMap(({ phase, operation }) => (operation ? [[phase, operation.description]] : []));
    expect(operations).toEqual([
      ['Pending', 'Creating machine on cloud provider'],
      ['CrashLoopBackOff', 'Initialize VM Instance: no route yet'],
      ['Pending', 'Creating machine on cloud provider'],
    ]);
    const pauses = await firstTimers();
    expect(pauses.length).toBeGreaterThanOrEqual(2);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(5_000);
  });

  it('[mcm 15] [invariant 1] goes on with the VM whose set-up was refused before it was known', async () => {
    ensureVm = () => (asked.length === 1 ? refuse('Uninitialized') : vm);
    await start();
    await untilRefused(1);
    await latest().signal(retryNowSignal);
    await eventually(() => machine.phase === 'Pending');
    expect(new Set(asked.map(({ token }) => token)).size).toBe(1);
    expect(asked.map(({ outcomeUnknown }) => outcomeUnknown)).toEqual([false, true]);
  });

  it('[mcm 19] fails and deletes its VM when the name of its node is that of another VM', async () => {
    isNodeTaken = true;
    await start();
    await eventually(() => machine.phase === 'Failed');

    expect(machine).toMatchObject({ providerID: vm.providerID });
    expect(machine.nodeName).toBeUndefined();
    expect(deletions).toMatchObject([{ providerID: vm.providerID, outcomeUnknown: false }]);
    expect(written).toMatchObject([
      {
        operation: {
          type: 'Create',
          state: 'Failed',
          description: expect.stringMatching(/^VM using old node obj.*node-1/),
        },
        event: { reason: 'StaleNode' },
      },
    ]);
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await handle.result();
    expect(steps.at(-1)).toBe('removeFinalizer');
    expect(steps).not.toContain('removeNode');
  });

  it('[mcm 19] takes a node of its own name for its own, as it may have joined already', async () => {
    isNodeTaken = true;
    ensureVm = () => ({ ...vm, nodeName: 'm' });
    await start();
    await eventually(() => machine.phase === 'Pending');
    expect(machine.nodeName).toBe('m');
    expect(deletions).toEqual([]);
  });
});

describe('a machine at rest', () => {
  it('puts the phase right that somebody else has written', async () => {
    await start();
    await eventually(async () => (await waitingFor()) === 'node node-1 to register');
    await joinNode();
    await eventually(async () => (await latest().query(describeQuery)).doing === 'running');

    touch({ phase: 'Pending' });
    await observe();

    await eventually(() => machine.phase === 'Running');
  });
});

describe('the deletion of a machine', () => {
  async function run(): Promise<void> {
    await start();
    await eventually(async () => (await waitingFor()) === 'node node-1 to register');
    await joinNode();
    await eventually(async () => (await latest().query(describeQuery)).doing === 'running');
  }

  it('drains its node although a watcher that is behind has not seen the node', async () => {
    await run();
    touch({ deletingSince: new Date().toISOString() });
    await latest().signal(observedSignal, { machine, node: { state: 'absent' } });
    await latest().result();

    expect(drains).toBe(1);
  });

  it('stops in the middle of a drain when all it hears is to look, and the Machine is not deleted any more', async () => {
    await run();
    const { deletingSince: _, ...before } = machine;
    isDrainable = false;
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await eventually(() => drains === 1);

    machine = before; // its cluster was set back
    await latest().signal(lookSignal);

    await eventually(async () => (await latest().query(describeQuery)).doing === 'running');
    expect(steps).toContain('uncordonNode');
    expect(written.filter(({ phase }) => phase === 'Terminating')).toHaveLength(1);
    expect([drains, deletions]).toEqual([1, []]);
  });
});

describe('the deletion of a machine without a VM', () => {
  /** Deletes the Machine when its class cannot be used any more. */
  async function deleteWithoutClass(): Promise<void> {
    reading = { version: '2', problem: 'MachineClass "small" does not exist' };
    touch({ deletingSince: new Date().toISOString() });
    await observe();
  }

  async function expectDoubt(): Promise<void> {
    await deleteWithoutClass();
    await eventually(async () => {
      const { blockedOn, lastError } = await latest().query(describeQuery);
      return blockedOn === 'Class' && lastError?.message.includes('cannot be found without it') === true;
    });
    expect(steps).not.toContain('removeFinalizer');
  }

  it.each(['InvalidArgument', 'Unauthenticated', 'PermissionDenied', 'Unimplemented'] as const)(
    'needs neither its class nor a cloud after refusals that made nothing (%s)',
    async (code) => {
      ensureVm = () => refuse(code);
      await start();
      await untilRefused(1);
      await tryAgain();

      await deleteWithoutClass();
      await handle.result();

      expect(deletions).toEqual([]);
      expect(steps.at(-1)).toBe('removeFinalizer');
    },
  );

  it.each(['Internal', 'ResourceExhausted', 'NotFound'] as const)(
    '[invariant 2] waits for its class when one of the refusals may have left something (%s)',
    async (code) => {
      ensureVm = () => refuse(asked.length === 2 ? code : 'InvalidArgument');
      await start();
      await untilRefused(1);
      await tryAgain();
      await tryAgain();

      await expectDoubt();
    },
  );

  it('[invariant 1] [invariant 2] hears of a try that was lost, although the next one was refused', async () => {
    ensureVm = () => {
      if (asked.length > 1) refuse('InvalidArgument');
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer' });
    };
    await start();
    await untilRefused(2);

    expect(asked).toMatchObject([
      { token: `${machine.uid}-0`, outcomeUnknown: false },
      { token: `${machine.uid}-0`, outcomeUnknown: true },
    ]);
    expect(written).toMatchObject([{ operation: { errorCode: 'InvalidArgument' } }]);
    await expectDoubt();
  });

  it('[invariant 2] waits for its class when a worker was killed in the middle of a call', async () => {
    ensureVm = () => (asked.length > 1 ? refuse('InvalidArgument') : Context.current().cancelled);
    await start();
    await untilRefused(2);

    expect(asked[1]).toMatchObject({ outcomeUnknown: true });
    await expectDoubt();
  });

  it('[invariant 2] asks the cloud when it interrupts a call', async () => {
    ensureVm = () => untilCancelled();
    await start();
    await eventually(() => asked.length === 1);
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await handle.result();

    expect(deletions).toMatchObject([{ outcomeUnknown: true }]);
  });

  it('needs nothing when no worker has ever taken the call', async () => {
    reading = { ...reading, cloud: { ...reading.cloud!, provider: 'misspelt' } };
    await start();
    await eventually(async () => (await latest().query(describeQuery)).doing === 'creating the VM');
    await eventually(async () => ((await latest().describe()).raw.pendingActivities ?? []).length > 0);

    await deleteWithoutClass();
    await handle.result();

    expect(deletions).toEqual([]);
  });
});
