/**
 * API servers that do not keep what the workflow of a machine writes: a webhook, a policy or a controller removes it
 * again.
 */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { MachineActivities } from '../../activities/machine/index.ts';
import { refuse, setUpMachine, vm } from '../../test/support/played-machine.ts';
import { retryNowSignal } from '../messages.ts';

const {
  advance,
  cluster,
  cloud,
  described,
  joinNode,
  now,
  observe,
  sleep,
  start,
  startAtRest,
  time,
  touch,
  advanceUntil,
  waitingFor,
  workflow,
} = setUpMachine();

/** What makes the workflow make a write that is not kept. */
interface Row {
  /** What the API server does not keep: see `drops` of the played cluster. */
  readonly what: string;
  readonly begin: () => Promise<unknown>;
  /** The status of the Machine follows its Node meanwhile. */
  readonly goesOn?: true;
}

/** Such fields are not kept from now on. */
const drop = (...fields: string[]) => {
  cluster.drops = fields;
};
const dropPhase = () => drop('stage', 'phase');

const seeNode = (change: object) => {
  cluster.node = { ...cluster.node, ...change, resourceVersion: '2' } as typeof cluster.node;
  return observe();
};

/** A machine at rest whose Node changes. */
const atRest = (what: string, change: object): Row => ({
  what,
  async begin() {
    await startAtRest();
    drop(what);
    await seeNode(change);
  },
  goesOn: true,
});

/** A machine whose Node joins, while no phase is kept. */
const joins = (more: Parameters<typeof joinNode>[0] = {}): Row => ({
  what: 'stage',
  async begin() {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    dropPhase();
    await joinNode(more);
  },
});

/** A machine without an owner that is unhealthy for longer than it may be. */
const isUnhealthy = (...drops: string[]): Row => ({
  what: drops[0] ?? '',
  async begin() {
    touch({ limits: { ...cluster.machine.limits, healthSeconds: 1 }, alone: true });
    await startAtRest();
    drop(...drops);
    await seeNode({ conditions: { Ready: 'Unknown' } });
  },
});

/** A machine whose VM is replaced, as somebody deletes its Node. */
const isReplaced = (what: string): Row => ({
  what,
  async begin() {
    touch({ onNodeDeleted: 'replaceVm' });
    await startAtRest();
    drop(what);
    await seeNode({ deleting: true });
  },
});

async function beginDeletion(): Promise<void> {
  touch({ deletingSince: time() });
  await observe();
}

const readOnly = 'writes nothing';
const isNotReadBack = 'is not read back: the workflow goes on';

/** Every step of the workflow in Kubernetes: the compiler asks for a new one. */
const writes: Record<keyof MachineActivities, readonly Row[] | typeof readOnly | typeof isNotReadBack> = {
  observeMachine: readOnly,
  readSource: readOnly,
  readPlaces: readOnly,
  isNodeTaken: readOnly,
  findVmOwner: readOnly,
  viewOutage: readOnly,
  rememberPlace: isNotReadBack,
  rememberNodes: isNotReadBack,
  ensureUserData: isNotReadBack,
  removeUserData: isNotReadBack,
  uncordonNode: isNotReadBack,
  removeNode: isNotReadBack,
  noteLostMachine: isNotReadBack,
  markInterrupted: isNotReadBack,
  begin: [
    {
      what: 'managed',
      async begin() {
        drop('managed');
        await start();
      },
    },
  ],
  addFinalizer: [
    {
      what: 'managed',
      async begin() {
        await startAtRest();
        touch({ managed: false });
        drop('managed');
        await observe();
      },
      goesOn: true,
    },
  ],
  storeIdentity: [
    {
      what: 'providerID',
      async begin() {
        drop('providerID');
        await start();
      },
    },
  ],
  writeStatus: [
    isUnhealthy('request'),
    {
      what: 'stage',
      async begin() {
        await startAtRest();
        dropPhase();
        await beginDeletion();
      },
    },
  ],
  syncNode: [
    atRest('node.managed', { managed: false }),
    atRest('node.outdated', { outdated: true }),
    atRest('conditions', { conditions: { Ready: 'True', Other: 'True' } }),
    isUnhealthy('stage', 'phase'),
    joins(),
    joins({ interruption: 'the taint a' }),
  ],
  maintain: [
    {
      what: 'maintenance',
      async begin() {
        await startAtRest();
        drop('maintenance');
        cluster.maintenance = 'write';
        // Each write gives the objects other versions, of which a watcher hears.
        cluster.after = (step) => {
          if (step === 'maintain') void observe();
        };
        await observe();
      },
      goesOn: true,
    },
  ],
  deleteMachine: [
    {
      what: 'deletingSince',
      async begin() {
        await startAtRest();
        drop('deletingSince');
        await seeNode({ deleting: true });
      },
    },
  ],
  announceDeletion: [
    {
      what: 'announced deletion',
      async begin() {
        await startAtRest();
        drop('announced deletion');
        const { before } = cluster;
        cluster.before = (step) => {
          before(step);
          const isDropped = step === 'announceDeletion' && cluster.drops.length > 0;
          if (isDropped) cluster.machine = { ...cluster.machine, stage: 'running' };
        };
        await beginDeletion();
      },
    },
  ],
  tearDown: [
    {
      what: 'release',
      async begin() {
        await startAtRest();
        drop('release');
        await beginDeletion();
      },
    },
  ],
  forgetVm: [isReplaced('providerID')],
  finishReplacement: [isReplaced('end of a replacement')],
};

const rows = Object.entries(writes).flatMap(([step, list]) =>
  typeof list === 'string' ? [] : list.map((row) => ({ ...row, step })),
);

/** Of a write in a minute. It makes the first four at once. */
const most = 16;

/** A controller empties the status of the Machine a moment after it was written. */
async function resetPhase(): Promise<void> {
  await sleep(10);
  touch({ stage: 'new', phase: '' });
  await observe();
}

const countOf = (name: string) => cluster.steps.filter((step) => step === name).length;

beforeEach(() => {
  // A workflow that spins lets no time pass.
  cluster.before = () => {
    if (cluster.steps.length > 50 * most) refuse('Unavailable');
  };
});

describe('what an API server does not keep', () => {
  it.each(rows)('is written again with growing pauses, and the machine says so: $what, by $step', async (row) => {
    const { step, begin, goesOn } = row;
    await begin();
    await advance(60_000);
    expect(countOf(step)).toBeGreaterThan(4);
    expect(countOf(step)).toBeLessThanOrEqual(most);
    expect(cloud.asked.length + cloud.deletions.length).toBeLessThanOrEqual(most);
    expect(await described()).toMatchObject({
      waitingFor: 'the API server to keep what is written',
      blockedOn: 'KubernetesApi',
    });

    if (goesOn) {
      const nowMs = now();
      await seeNode({ conditions: { Ready: 'Unknown' } });
      await advanceUntil(() => cluster.machine.stage === 'unhealthy');
      expect(now()).toBe(nowMs);
      await seeNode({ conditions: { Ready: 'True' } });
    }
    drop();
    await workflow().signal(retryNowSignal);
    await advanceUntil(async () => (await described()).blockedOn !== 'KubernetesApi');
  });

  it.each(rows)('is shown no more once the next try is kept: $what, by $step', async ({ step, begin }) => {
    await begin();
    await advance(60_000);
    drop();
    const before = countOf(step);
    await advanceUntil(() => countOf(step) > before);
    const nowMs = now();
    await advanceUntil(async () => (await described()).blockedOn !== 'KubernetesApi');
    expect(now()).toBe(nowMs);
  });

  it.each([
    ['the finalizer of the Node', { managed: false }],
    ['something of its template', { outdated: true }],
  ])('is written again with growing pauses where a controller removes it a moment later: %s', async (_, change) => {
    await startAtRest();
    cluster.after = async (step) => {
      if (step === 'syncNode') await seeNode(change);
    };
    await seeNode(change);
    await advance(60_000);
    expect(countOf('syncNode')).toBeGreaterThan(4);
    expect(countOf('syncNode')).toBeLessThanOrEqual(most);
  });

  it.each<[string, () => Promise<void>]>([
    [
      'of a machine that is refused its VM',
      async () => {
        cloud.ensureVm = () => refuse('ResourceExhausted');
        await start();
      },
    ],
    [
      'of a machine whose VM has failed',
      async () => {
        cloud.ensureVm = () => ({ ...vm, state: 'failed' });
        await start();
      },
    ],
    [
      'of a machine that was restored without status',
      async () => {
        touch({ managed: true, finalizers: ['ours'], providerID: vm.providerID, nodeName: 'node-1' });
        await start();
      },
    ],
    [
      'of a machine that is deleted',
      async () => {
        await startAtRest();
        cloud.deleteVm = () => ({ state: 'deleting', nodeNames: [] });
        await beginDeletion();
      },
    ],
  ])(
    'has growing pauses, as what a cloud is asked, where a controller changes the phase back: %s',
    async (_, begin) => {
      cluster.after = (step) => {
        if (step === 'writeStatus') void resetPhase();
      };
      await begin();
      await advance(60_000);
      expect(countOf('writeStatus')).toBeGreaterThan(4);
      expect(countOf('writeStatus')).toBeLessThanOrEqual(most);
      expect(cloud.asked.length + cloud.deletions.length).toBeLessThanOrEqual(most);
      expect(await described()).toMatchObject({
        waitingFor: 'the API server to keep what is written',
        blockedOn: 'KubernetesApi',
      });

      cluster.after = () => undefined;
      await workflow().signal(retryNowSignal);
      await advanceUntil(async () => (await described()).blockedOn !== 'KubernetesApi');
    },
  );

  it.each([
    ['which VM it has', 'providerID', 'create', 'the API server does not keep spec.providerID "played:///vm-1"'],
    ['what its Node is called', 'nodeName', 'join', 'did not keep within 600 s that the node is called node-1'],
  ])('fails a machine at its creation timeout, with the cause: %s', async (_, field, kind, says) => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 600 } });
    drop(field);
    await start();
    await advance(590_000);
    expect(cluster.written.map(({ stage }) => stage)).not.toContain('failed');
    expect(await described()).toMatchObject({
      waitingFor: expect.stringContaining('the API server to keep'),
      blockedOn: 'KubernetesApi',
    });
    await advance(600_000); // a try may have to wait so long
    expect(cluster.machine.stage).toBe('failed');
    const message = expect.stringContaining(says);
    expect(cluster.written.at(-1)?.step).toMatchObject({ kind, code: 'FailedPrecondition', message });
  });

  it('fails a machine at its creation timeout that names another VM than its own, whatever is written', async () => {
    touch({ limits: { ...cluster.machine.limits, creationSeconds: 600 } });
    cluster.before = (step) => {
      if (step !== 'storeIdentity') return;
      touch({ providerID: 'played:///other' });
      drop('providerID');
    };
    await start();
    await advance(590_000);
    expect(cluster.machine.stage).not.toBe('failed');
    await advance(600_000);
    expect(cluster.machine.stage).toBe('failed');
    const message = expect.stringContaining('keeps spec.providerID "played:///other" instead of "played:///vm-1"');
    expect(cluster.written.at(-1)?.step).toMatchObject({ kind: 'create', code: 'FailedPrecondition', message });
  });

  it('is written again and shown although a watcher says only once that it is due: what `maintain` writes', async () => {
    await startAtRest();
    drop('maintenance');
    cluster.maintenance = 'write';
    await observe();
    for (let minutes = 1; minutes <= 5; minutes++) {
      await advance(60_000);
      expect(await described()).toMatchObject({ blockedOn: 'KubernetesApi' });
    }
    expect(countOf('maintain')).toBeGreaterThan(8);
    expect(countOf('maintain')).toBeLessThanOrEqual(most);
  });

  it('is written again with growing pauses where a controller removes it a moment later: what `maintain` writes', async () => {
    await startAtRest();
    const remove = async () => {
      cluster.maintenance = 'write';
      await observe();
    };
    cluster.after = async (step) => {
      if (step === 'maintain') await remove();
    };
    await remove();
    await advance(60_000);
    expect(countOf('maintain')).toBeGreaterThan(4);
    expect(countOf('maintain')).toBeLessThanOrEqual(most);
  });

  it('is written again with growing pauses, shown, and made at once by force: that the Node of a preserved machine is drained', async () => {
    await startAtRest();
    drop('drained');
    touch({ stage: 'failed', stageSince: new Date(0).toISOString(), conditions: { Ready: 'False' } });
    cluster.maintenance = 'drain';
    await seeNode({ conditions: { Ready: 'False' } });
    await advance(120_000);
    expect(cluster.drains).toBeGreaterThan(4);
    expect(cluster.drains).toBeLessThanOrEqual(most);
    expect(await described()).toMatchObject({ blockedOn: 'KubernetesApi' });
    drop();
    const nowMs = now();
    touch({ forceDrain: true });
    await observe();
    await advanceUntil(() => cluster.maintenance === undefined);
    expect(now()).toBe(nowMs);
    await advanceUntil(async () => (await described()).blockedOn !== 'KubernetesApi');
  });

  it('has growing pauses where a controller takes it back a moment later: that the Node of a preserved machine is drained', async () => {
    await startAtRest();
    const fail = async () => {
      cluster.maintenance = 'drain';
      await seeNode({ conditions: { Ready: 'False' } });
    };
    cluster.after = async (step) => {
      if (step === 'maintain' && cluster.preserved.at(-1)?.isDrained) await fail();
    };
    touch({ stage: 'failed', stageSince: new Date(0).toISOString(), conditions: { Ready: 'False' } });
    await fail();
    await advance(60_000);
    expect(cluster.drains).toBeGreaterThan(4);
    expect(cluster.drains).toBeLessThanOrEqual(most);
  });

  it('does not keep a preservation from ending: a drain that waits', async () => {
    await startAtRest();
    drop('drained');
    const preservedUntil = time(300_000);
    const failed = { stageSince: new Date(0).toISOString(), conditions: { Ready: 'False' }, preservedUntil };
    touch({ stage: 'failed', ...failed });
    cluster.maintenance = 'drain';
    await seeNode({ conditions: { Ready: 'False' } });
    await advance(290_000);
    const before = countOf('maintain');
    cluster.before = (step) => {
      if (step === 'maintain' && now() >= Date.parse(preservedUntil)) cluster.maintenance = undefined;
    };
    await advance(12_000);
    expect(countOf('maintain')).toBeGreaterThan(before);
    expect(cluster.maintenance).toBeUndefined();
  });

  it('ends the pause of a creation only when a watcher says that it is due: what `maintain` writes', async () => {
    cloud.ensureVm = () => refuse('ResourceExhausted');
    await start();
    await advance(60_000);
    const before = cloud.asked.length;
    drop('maintenance');
    cluster.maintenance = 'write';
    await observe();
    await advance(60_000);
    expect(countOf('maintain')).toBeGreaterThan(0);
    expect(cloud.asked.length).toBeLessThanOrEqual(before + 1);
  });

  it('does not wait because of writes before that were not kept: what `maintain` writes for another state', async () => {
    await startAtRest();
    drop('maintenance');
    cluster.maintenance = 'write';
    await observe();
    await advance(300_000);
    drop();
    const nowMs = now();
    const before = countOf('maintain');
    touch({ stage: 'failed' });
    await observe();
    await advanceUntil(() => countOf('maintain') > before);
    expect(now()).toBe(nowMs);
  });

  it('is asked of the cloud at once with a retry: what the Node of a machine is called', async () => {
    drop('nodeName');
    await start();
    await advance(60_000);
    drop();
    const nowMs = now();
    await workflow().signal(retryNowSignal);
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    expect(now()).toBe(nowMs);
  });

  it('is written at once where the Node has become something else', async () => {
    await startAtRest();
    const nowMs = now();
    for (let changes = 0; changes < 20; changes++) {
      await seeNode({ conditions: { Ready: 'True', Other: changes % 2 === 0 ? 'True' : 'False' } });
      await advanceUntil(() => countOf('syncNode') === changes + 1);
    }
    expect(now()).toBe(nowMs);
  });
});
