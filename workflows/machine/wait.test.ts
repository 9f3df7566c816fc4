/** How the workflow of a machine waits: outages, long waits, slow answers, clocks that differ. */

import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import type { MachineActivities } from '../../activities/machine/index.ts';
import type { FailureCode } from '../../api/failures.ts';
import { refuse, setUpMachine, vm } from '../../test/support/played-machine.ts';
import type { HistoryEvent } from '../../test/virtual-temporal/run.ts';
import type { VirtualHandle } from '../../test/virtual-temporal/server.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';

import { forceDeletionSignal, skipDrainSignal } from './messages.ts';
import type { PersistedState } from './state.ts';

const {
  beDown,
  sleep,
  cluster,
  cloud,
  touch,
  start,
  workflow,
  described,
  waitingFor,
  observe,
  joinNode,
  startRunning,
  startAtRest,
  untilRefused,
  advanceUntil,
  advance,
  untilCancelled,
  now,
  time,
} = setUpMachine();

const hour = 3_600_000;
const timeAgo = (ms: number) => time(-ms);
const countOf = (name: keyof MachineActivities) => cluster.steps.filter((step) => step === name).length;

/** Deletes the Machine as the API server does. The workflow has to be signalled. */
const deleteMachine = (deletingSince = time()) => touch({ deletingSince });

async function runId(): Promise<string> {
  return (await workflow().describe()).runId;
}

/** What the events of a run, default: the present one, say under a name. */
async function attributesOf<K extends keyof HistoryEvent>(name: K, run: VirtualHandle = workflow()) {
  const { events } = await run.fetchHistory();
  return (events ?? []).map((event) => event[name]).filter((attributes) => attributes != null);
}

/** How long the timers of the present run were to take, s. */
async function pauses(): Promise<number[]> {
  const timers = await attributesOf('timerStartedEventAttributes');
  return timers.map(({ startToFireTimeout }) => Math.round(Number(startToFireTimeout?.seconds ?? 0)));
}

/** Sends signals that change nothing, many more than a run takes. */
async function sendMany(send: () => Promise<void>): Promise<void> {
  const before = await runId();
  for (let isShort = true; isShort; ) {
    await Promise.all(Array.from({ length: 50 }, send));
    const { historyLength, runId: now } = await workflow().describe();
    isShort = historyLength <= 500 && now === before;
  }
}

/** Sends such signals until the next run has started. */
async function untilNextRun(send = observe): Promise<void> {
  const before = await runId();
  await sendMany(send);
  await advanceUntil(async () => (await runId()) !== before);
}

const requestRefresh = () => workflow().signal(refreshSignal);

/** What the run before this one has handed on. */
async function handedOn(): Promise<PersistedState> {
  const [started] = await attributesOf('workflowExecutionStartedEventAttributes');
  return JSON.parse(Buffer.from(started?.input?.payloads?.[2]?.data ?? []).toString()) as PersistedState;
}

/** From now on the API server does not answer these steps. */
function refuseSteps(...names: (keyof MachineActivities)[]): void {
  cluster.before = (step) => names.includes(step) && refuse('Unavailable');
}

function answerAll(): void {
  cluster.before = () => undefined;
}

async function drainNode(): Promise<void> {
  cluster.drainNode = untilCancelled;
  await startRunning();
  deleteMachine();
  await observe();
  await advanceUntil(() => cluster.drains === 1);
}

describe('an outage of the API server during a refresh', () => {
  const states = [
    { state: 'rests', begin: startRunning, isBack: async () => (await described()).doing === 'running' },
    {
      state: 'waits for the cloud',
      async begin() {
        cloud.ensureVm = () => refuse('ResourceExhausted');
        await start();
        await untilRefused(1);
        await advanceUntil(async () => (await pauses()).includes(600));
      },
      isBack: async () => (await waitingFor()) === 'a change that helps, or the next try',
    },
    { state: 'drains', begin: drainNode, isBack: () => cluster.drains === 2 },
  ];

  it.each(states)(
    'makes one request at a time, with growing pauses, and one afterwards, when it $state',
    async (each) => {
      await each.begin();
      refuseSteps('observeMachine');
      const before = countOf('observeMachine');
      const pausesBefore = (await pauses()).length;
      await requestRefresh();
      await advanceUntil(() => countOf('observeMachine') === before + 1);
      for (let count = 0; count < 5; count++) await requestRefresh();
      await advanceUntil(() => countOf('observeMachine') >= before + 3);
      await advanceUntil(async () => (await pauses()).length >= pausesBefore + 3);

      const readings = countOf('observeMachine') - before;
      expect([readings, (await pauses()).slice(pausesBefore)]).toEqual([3, [1, 2, 4]]);
      expect((await workflow().describe()).raw.pendingWorkflowTask ?? undefined).toBeUndefined();
      expect(await described()).toMatchObject({ doing: 'reading the Machine', blockedOn: 'KubernetesApi' });

      const asked = cloud.asked.length;
      answerAll();
      await advanceUntil(each.isBack);
      expect(countOf('observeMachine')).toBe(before + readings + 1);
      expect(cloud.asked).toHaveLength(asked);
    },
  );

  it('ends its pause on a change, and otherwise waits as long as the API server asks for, at most 30 s', async () => {
    let retryAfterMs = 20_000;
    cluster.before = (step) => {
      if (step !== 'observeMachine' || cluster.steps.length > 2) return;
      const details = [{ retryAfterMs }];
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'later', details, nonRetryable: true });
    };
    await start();
    await advanceUntil(async () => (await pauses()).length === 1);
    retryAfterMs = hour;
    await workflow().signal(retryNowSignal);
    await advanceUntil(async () => (await pauses()).length === 2);
    expect(await pauses()).toEqual([20, 30]);
    await workflow().signal(retryNowSignal);
    await advanceUntil(() => cluster.machine.stage === 'joining');
  });
});

describe('the creation timeout', () => {
  /** Every second reading fails so. */
  function failReadings(type: FailureCode, isThrottled?: true): void {
    let readings = 0;
    cluster.before = (step) => {
      if (step !== 'observeMachine' || readings++ % 2 === 1) return;
      throw ApplicationFailure.create({ type, message: 'no', details: [{ isThrottled }], nonRetryable: true });
    };
  }
  const failedAfterMs = async () => {
    const startMs = now();
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 30 } });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');
    return now() - startMs;
  };

  it.each<[string, FailureCode, true | undefined]>([
    ['an API server asks for a pause', 'Unavailable', true],
    ['an API server refuses a request', 'PermissionDenied', undefined],
    ['a request fails for an unknown reason', 'Unknown', undefined],
  ])('goes on while %s', async (_, type, isThrottled) => {
    failReadings(type, isThrottled);
    expect(await failedAfterMs()).toBeLessThan(40_000);
  });

  it('[invariant 6 partly] starts again after each outage', async () => {
    failReadings('Unavailable');
    await expect(failedAfterMs()).rejects.toThrow();
    expect(cluster.machine.stage).toBe('joining');
  });
});

describe('a long wait', () => {
  it('at rest goes on in a new run after many signals that change nothing, without a timer, and still sees a deletion', async () => {
    await startAtRest();
    cluster.node = { ...cluster.node, conditions: { Ready: 'Unknown' }, resourceVersion: '2' } as typeof cluster.node;
    await observe();
    await advanceUntil(async () => (await described()).blockedOn === 'NodeHealth');
    expect(await pauses()).toEqual([]);
    const steps = cluster.steps.length;

    await untilNextRun();

    expect((await described()).blockedOn).toBe('NodeHealth');
    expect([cluster.steps.length, await pauses()]).toEqual([steps, []]);
    deleteMachine();
    await observe();
    await workflow().result();
    expect(cluster.steps.at(-1)).toBe('tearDown');
  });

  it('[invariant 6 partly] that ends late has everything read again, as Temporal may have been restored from a backup', async () => {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    const before = countOf('observeMachine');
    await beDown(120_000);
    await advanceUntil(() => countOf('observeMachine') > before);
  });

  it('stays in its run while its history is short', async () => {
    await startAtRest();
    const before = await runId();
    for (let sent = 0; sent < 50; sent++) await observe();
    await requestRefresh();
    await advanceUntil(() => cluster.steps.at(-1) === 'observeMachine');
    expect([await described(), await runId(), await pauses()]).toMatchObject([{ doing: 'running' }, before, []]);
  });

  it('for the first reading hands on that nothing was read, and the earlier signals', async () => {
    touch({ managed: true, finalizers: ['ours'], stage: 'running', providerID: vm.providerID, nodeName: 'node-1' });
    deleteMachine();
    cluster.node = {
      ...{ state: 'present', uid: 'u', resourceVersion: '1', name: 'node-1', deleting: false, managed: true },
      ...{ conditions: { Ready: 'True' }, startingUp: false },
    };
    refuseSteps('observeMachine');
    await start();
    await advanceUntil(() => countOf('observeMachine') > 0);
    await workflow().signal(forceDeletionSignal);
    await untilNextRun(requestRefresh);

    answerAll();
    await workflow().signal(retryNowSignal);
    await workflow().result();
    expect(cluster.drainRequest).toMatchObject({ force: true });
    expect(cluster.steps.at(-1)).toBe('tearDown');
  });

  it('for the first reading is followed by the wait for calls of a run that was lost', async () => {
    touch({ managed: true, finalizers: ['ours'] });
    refuseSteps('observeMachine');
    await start();
    await advanceUntil(() => countOf('observeMachine') > 0);
    await untilNextRun(requestRefresh);

    answerAll();
    await workflow().signal(retryNowSignal);
    await advanceUntil(async () => (await described()).doing.startsWith('waiting until calls of an earlier run'));
    expect(cloud.asked).toEqual([]);
    await advanceUntil(() => cluster.machine.stage === 'joining');
    expect(cloud.asked).toMatchObject([{ outcomeUnknown: true }]);
  });

  it('to uncordon the node is not forgotten by the next run', async () => {
    await drainNode();
    const { deletingSince: _, ...restored } = cluster.machine;
    let uncordoned = 0;
    refuseSteps('uncordonNode');
    cluster.after = (step) => {
      if (step === 'uncordonNode') uncordoned++;
    };
    cluster.machine = { ...restored, stage: 'running', resourceVersion: '50' }; // its cluster was restored from a backup
    await requestRefresh();
    await advanceUntil(() => countOf('uncordonNode') > 0);

    await untilNextRun();
    answerAll();
    await workflow().signal(retryNowSignal);

    await advanceUntil(async () => (await described()).doing === 'running');
    expect(uncordoned).toBe(1);
    expect((await handedOn()).mayBeCordoned).toBe(true);
  });
});

describe('a slow answer', () => {
  it.each([
    { step: 'writeStatus', creationSeconds: 1200 },
    { step: 'observeMachine', creationSeconds: 0 },
  ] as const)('to $step does not undo a deletion that was signalled meanwhile', async ({ step, creationSeconds }) => {
    cluster.reading = { version: '2', problem: 'MachineClass "small" does not exist' };
    touch({ limits: { ...cluster.machine.limits, creationSeconds } });
    // A workflow task in the middle of a step hears of signals only when it is prolonged, which is after 8 s.
    const firstSteps = ['observeMachine', 'begin', 'observeMachine', 'begin']; // somebody else changes the Machine first
    cluster.before = (next) => next === 'begin' && cluster.steps.length === 2 && touch({});
    let tasksBefore: number | undefined;
    const tasks = async () => (await attributesOf('workflowTaskStartedEventAttributes')).length;
    cluster.after = async (done) => {
      if (cluster.steps.length <= firstSteps.length) {
        await sleep(1_850);
      } else if (tasksBefore === undefined && done === step) {
        tasksBefore = await tasks();
        deleteMachine();
        await observe();
        await sleep(1_000);
        expect(await tasks()).toBe(tasksBefore + 1);
      }
    };
    await start();

    await workflow().result(); // for which no class is needed, as no VM was ever asked for

    expect(tasksBefore).toBe(1);
    expect(cluster.steps.slice(0, 6)).toEqual([...firstSteps, step, 'observeMachine']); // what was overtaken is read again
    expect(cluster.steps.at(-1)).toBe('tearDown');
    expect(cloud.deletions).toEqual([]);
  });

  it('that has a correction of the Machine already has it tried at once: the signal brings nothing new', async () => {
    touch({ problem: 'spec.class.kind is empty' });
    cluster.before = (step) => {
      if (step !== 'writeStatus' || cluster.machine.problem === undefined) return;
      const { problem: _, ...corrected } = cluster.machine;
      cluster.machine = corrected;
      touch({});
    };
    const startMs = now();
    await start();
    await observe();

    await advanceUntil(() => cluster.machine.stage === 'joining');
    expect(now() - startMs).toBeLessThan(60_000);
    expect(cluster.written[0]?.step?.message).toBe('spec.class.kind is empty');
  });

  it('is distinguished from an answer of a cluster that was restored from a backup, which counts', async () => {
    cloud.ensureVm = () => {
      cluster.machine = { ...cluster.machine, resourceVersion: '50', stage: 'new' };
      return vm;
    };
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    await joinNode();
    await advanceUntil(() => cluster.machine.stage === 'running');

    expect(cluster.machine).toMatchObject({ providerID: vm.providerID });
    expect(Number(cluster.machine.resourceVersion)).toBeLessThan(100);
  });
});

describe('a machine that has Failed', () => {
  beforeEach(() => {
    const { reading } = cluster;
    cluster.reading = { ...reading, userData: { ...reading.userData!, personal: true } };
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 2 } });
  });

  it('ends its creation when its node joins after all: nothing that was made for it is kept', async () => {
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');
    expect(cluster.steps).not.toContain('removeUserData');

    await joinNode();
    await advanceUntil(() => countOf('removeUserData') === 1);

    expect(cluster.machine.stage).toBe('running');
    await untilNextRun();
    expect(await handedOn()).toMatchObject({ mayHaveUserData: false });
    expect((await handedOn()).creation).toEqual({ state: 'named', hasJoined: true });
  });
});

describe('user data with a token', () => {
  beforeEach(() => {
    const { reading } = cluster;
    cluster.reading = { ...reading, userData: { ...reading.userData!, personal: true } };
  });

  it('is removed again with the next join where a backup from before the first one was restored', async () => {
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    const backup = cluster.machine;
    await joinNode();
    await advanceUntil(() => countOf('removeUserData') === 1);

    cluster.machine = backup;
    cluster.node = { state: 'absent' };
    await workflow().signal(refreshSignal);
    await advanceUntil(() => cluster.machine.stage === 'unhealthy');
    await joinNode();

    await advanceUntil(() => countOf('removeUserData') === 2);
  });

  it.each(['joining', 'failed'] as const)(
    'is removed before a Machine that is %s says that its node has joined, so no backup of a joined one has any',
    async (stage) => {
      if (stage === 'failed') touch({ limits: { ...cluster.machine.limits, creationSeconds: 2 } });
      let stageAtRemoval: string | undefined;
      cluster.before = (step) => {
        if (step === 'removeUserData') stageAtRemoval ??= cluster.machine.stage;
      };
      await start();
      await advanceUntil(() => cluster.machine.stage === stage);
      await joinNode();
      await advanceUntil(async () => (await described()).doing === 'running');

      expect([stageAtRemoval, countOf('removeUserData')]).toEqual([stage, 1]);
    },
  );

  it('is removed again where a backup in which the machine had Failed was restored', async () => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 2 } });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');
    const backup = cluster.machine;
    await joinNode();
    await advanceUntil(async () => (await described()).doing === 'running');

    cluster.machine = backup;
    await workflow().signal(refreshSignal);

    await advanceUntil(() => countOf('removeUserData') === 2);
  });

  it('is removed again where it was renewed because the Machine did not say that its node had joined', async () => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 30 } });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'joining');
    cluster.drops = ['stage'];
    await joinNode();
    await advanceUntil(() => countOf('removeUserData') === 1);
    cluster.drops = [];
    cloud.ensureVm = () => refuse('Unavailable');
    cluster.node = { state: 'absent' };
    await observe();
    await advanceUntil(() => cluster.tokenEnds.length === 2);
    await joinNode();

    await advanceUntil(() => cluster.machine.stage === 'running');
    expect(countOf('removeUserData')).toBe(2);
  });

  it('is removed with its Machine, which a restored backup does not have, and its source gets a note', async () => {
    cloud.ensureVm = () => refuse('Internal');
    await start();
    await untilRefused(1);
    cluster.isGone = true;
    await workflow().signal(refreshSignal);
    await workflow().result();

    expect(cluster.steps.slice(-2)).toEqual(['noteLostMachine', 'removeUserData']);
  });

  it('[invariant 6 partly] is renewed for as long as the cloud makes no VM, and the request stays the same', async () => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 3 } });
    let isOut = true;
    cloud.ensureVm = () => (isOut ? refuse('Unavailable') : vm);
    const startMs = now();
    await start();
    await advanceUntil(() => cloud.asked.length >= 2 && countOf('ensureUserData') >= 2);
    isOut = false;
    await advanceUntil(() => cluster.machine.stage === 'joining');

    expect(cluster.steps.lastIndexOf('ensureUserData')).toBeLessThan(cluster.steps.lastIndexOf('storeIdentity'));
    const [first, second] = cluster.tokenEnds.map((end) => Date.parse(end) - startMs);
    expect(first).toBe(6_000); // twice the creation timeout from now on, by the clock of Temporal
    expect(second).toBeGreaterThanOrEqual(9_000);
    const requests = cloud.asked.map((request) => JSON.stringify({ ...request, outcomeUnknown: true }));
    expect(new Set(requests).size).toBe(1);
  });
});

describe('an order for a deletion', () => {
  it.each([forceDeletionSignal, skipDrainSignal])(
    'to a machine that is not being deleted is not kept: $name',
    async (signal) => {
      await startRunning();
      const before = countOf('observeMachine');
      await workflow().signal(signal);
      await advanceUntil(() => countOf('observeMachine') > before);
      expect(await described()).toMatchObject({ doing: 'running' });

      deleteMachine();
      await observe();
      await workflow().result();
      expect(cluster.drainRequest).toMatchObject({ force: false });
    },
  );

  it('is kept when it arrives before the workflow knows of the deletion', async () => {
    await startRunning();
    deleteMachine();
    await workflow().signal(forceDeletionSignal);
    await workflow().result();
    expect(cluster.drainRequest).toMatchObject({ force: true });
  });
});

describe('a clock of the API server', () => {
  it('that is a day behind fails no machine at once', async () => {
    touch({ createdAt: timeAgo(24 * hour) });
    cloud.ensureVm = () => refuse('ResourceExhausted');
    await start();
    await untilRefused(1);
    expect(cluster.machine.stage).toBe('creating');
  });

  it('that is a day ahead keeps no machine from failing', async () => {
    touch({ createdAt: timeAgo(-24 * hour), limits: { ...cluster.machine.limits, creationSeconds: 2 } });
    await start();
    await advanceUntil(() => cluster.machine.stage === 'failed');
  });

  it.each([24, -24])('that is %i h behind moves no drain timeout, nor does another run', async (hours) => {
    cluster.drainNode = untilCancelled;
    await startRunning();
    const before = now();
    deleteMachine(timeAgo(hours * hour));
    await observe();
    await advanceUntil(() => cluster.drains === 1);
    const deadline = Date.parse(cluster.drainRequest?.deadline ?? '');
    expect(deadline).toBeGreaterThanOrEqual(before + 2 * hour);
    expect(deadline).toBeLessThanOrEqual(now() + 2 * hour);

    await sendMany(observe);
    const run = await runId();
    await requestRefresh();
    await advanceUntil(() => cluster.drains === 2);
    expect(await runId()).not.toBe(run);
    expect(Date.parse(cluster.drainRequest?.deadline ?? '')).toBe(deadline);
  });
});

describe('the creation in the history of a machine', () => {
  it('is left behind by a new run that begins one to two creation timeouts later, without a request', async () => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 4 } });
    await startRunning();
    const [first, steps] = [await runId(), cluster.steps.length];
    const pause = (await pauses()).at(-1);
    expect(pause).toBeGreaterThanOrEqual(4);
    expect(pause).toBeLessThanOrEqual(8);

    await advanceUntil(async () => (await runId()) !== first);

    expect(await described()).toMatchObject({ doing: 'running', providerID: vm.providerID });
    expect([cluster.steps.length, await pauses()]).toEqual([steps, []]);
  });

  it('stays for twenty minutes at least, so that many new machines do not start new runs at once', async () => {
    await startRunning();
    const pause = (await pauses()).at(-1);
    expect(pause).toBeGreaterThanOrEqual(20 * 60);
    expect(pause).toBeLessThanOrEqual(40 * 60);
  });
});

describe('the search attributes', () => {
  const writes = async (run?: VirtualHandle) =>
    (await attributesOf('upsertWorkflowSearchAttributesEventAttributes', run)).map(({ searchAttributes }) => {
      const { MillwrightPhase, MillwrightBlockedOn } = searchAttributes?.indexedFields ?? {};
      const [phase, blockedOn] = [MillwrightPhase, MillwrightBlockedOn].map(
        (payload) => JSON.parse(Buffer.from(payload?.data ?? []).toString() || 'null') as string | null,
      );
      return [phase, blockedOn];
    });

  it('are written once for each change of phase, with what it is blocked on', async () => {
    await startRunning();
    const report = async (Ready: string, resourceVersion: string) => {
      cluster.node = { ...cluster.node, conditions: { Ready }, resourceVersion } as typeof cluster.node;
      await observe();
    };
    await report('Unknown', '2');
    await advanceUntil(async () => (await described()).blockedOn === 'NodeHealth');
    await report('True', '3');
    await advanceUntil(() => cluster.machine.stage === 'running');
    await advanceUntil(async () => (await writes()).length >= 4);
    await advanceUntil(async () => (await described()).doing === 'running');
    expect(await writes()).toEqual([
      ['is joining', null],
      ['is running', null],
      ['is unhealthy', 'NodeHealth'],
      ['is running', null],
    ]);
  });

  it('name an outage of a Kubernetes API server that lasts, and what they said before as soon as it is over', async () => {
    await startRunning();
    const before = (await writes()).length;
    const failure = { type: 'Unavailable', message: 'out of order', nonRetryable: true } as const;
    let isDown = true;
    cluster.before = () => {
      if (isDown) throw ApplicationFailure.create({ ...failure, details: [{ retryAfterMs: 30_000 }] });
    };
    await requestRefresh();
    await advanceUntil(async () => (await writes()).length > before);
    isDown = false;
    await observe();
    await workflow().signal(retryNowSignal); // ends the pause
    await advanceUntil(async () => (await writes()).length > before + 1);
    expect((await writes()).slice(before)).toEqual([
      ['is running', 'KubernetesApi'],
      ['is running', null],
    ]);
    expect(await described()).toMatchObject({ doing: 'running' });
  });

  it('are written once when a VM cannot be set up', async () => {
    cloud.ensureVm = () => ({ ...vm, state: 'uninitialized', message: 'no route yet' });
    const run = await start();
    await advanceUntil(async () => (await described()).blockedOn === 'CloudApi');
    expect(await writes(run)).toEqual([['is creating', 'CloudApi']]);
  });
});

describe('the time since when a machine waits', () => {
  /** What `describe` says of it in the next three minutes: while the cloud is asked, and in between. */
  async function timesShown(): Promise<string[]> {
    const { ensureVm } = cloud;
    const times: string[] = [];
    const look = async () => times.push((await described()).since);
    cloud.ensureVm = async (request) => {
      await look();
      return ensureVm(request);
    };
    for (let steps = 0; steps < 18; steps++) {
      await advance(10_000);
      await look();
    }
    return times;
  }

  it.each([
    ['for its node', 'NodeJoin', vm],
    ['for a VM that is not set up', 'CloudApi', { ...vm, state: 'uninitialized', message: 'no route yet' }],
  ] as const)('is that of its first wait %s, however often the cloud is asked', async (_, blockedOn, answer) => {
    cloud.ensureVm = () => answer;
    await start();
    await advanceUntil(async () => (await described()).doing === 'waiting for the node to join');
    const { since } = await described();
    await advanceUntil(async () => (await described()).blockedOn === blockedOn);
    const asked = cloud.asked.length;

    expect(new Set(await timesShown())).toEqual(new Set([since]));
    expect(cloud.asked.length).toBeGreaterThan(asked + 1);
  });
});
