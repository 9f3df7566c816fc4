/**
 * A cloud that answers every call as if it had been done, and keeps nothing of one of them. Each row has a cloud of its
 * own.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { boundary } from '../../activities/boundary.ts';
import type { Cloud, Session, Tags } from '../../activities/providers/kit/cloud.ts';
import { createProvider, deletionPatienceMs, nextLookPauseMs } from '../../activities/providers/kit/provider.ts';
import { createVmActivities } from '../../activities/providers/serve.ts';
import { simulatedCloud } from '../../activities/providers/simulated/index.ts';
import { partKinds } from '../../activities/providers/simulated/schema.ts';
import { machineClasses, machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { ProviderActivities } from '../../api/provider.ts';
import type { CloudAdmin } from '../../deploy/local/simulated-cloud/admin.ts';
import { secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import type { MachineDescription } from '../../workflows/machine/messages.ts';
import {
  deletionPollMs,
  firstPollIntervalMs,
  nextPollIntervalMs,
  nextSetUpPauseMs,
} from '../../workflows/machine/outcome.ts';
import type { Fault } from '../support/cloud-faults.ts';
import { serveSimulatedCloud } from '../support/cloud-here.ts';
import { fromSetup } from '../support/from-setup.ts';
import { serveProvider } from '../support/serve-provider.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

type AnyCloud = Required<Cloud<{ tags: Tags }, string, string, string>>;
/** The functions of a cloud that send requests. */
type CloudCall = {
  [K in keyof AnyCloud]: AnyCloud[K] extends (session: Session<string>, ...rest: never[]) => Promise<unknown>
    ? K
    : never;
}[keyof AnyCloud];

/** Whether a call of a cloud changes something. The compiler asks for a new one. */
const cloudCalls: Record<CloudCall, boolean> = {
  ...{ list: false, findOwn: false, findByName: false, findVm: false, findPart: false, failureOf: false },
  ...{ create: true, setUp: true, setTags: true, delete: true },
};
/** The same of a provider. */
const providerCalls: Record<keyof ProviderActivities, boolean> = {
  ...{ listVms: false, validateClass: false, volumeIds: false, listInterruptions: false },
  ...{ ensureVm: true, deleteVm: true, updateVm: true },
};

const minuteMs = 60_000;

/** How often something is done within a time, at once and then after pauses, ms. */
function timesIn(timeMs: number, firstPauseMs: number, next: (pauseMs: number, atMs: number) => number): number {
  let times = 0;
  for (let atMs = 0, pauseMs = firstPauseMs; atMs < timeMs; times++) {
    atMs += pauseMs;
    pauseMs = next(pauseMs, atMs);
  }
  return times;
}

const polls = timesIn(minuteMs, firstPollIntervalMs, nextPollIntervalMs);
/** Of one call of `deleteVm`. The last look comes when its patience is over. */
const looks = timesIn(deletionPatienceMs, simulatedCloud.deletionPollMs, nextLookPauseMs) + 1;
const deletions = timesIn(minuteMs, deletionPatienceMs + deletionPollMs(0), (_pauseMs, atMs) => {
  return deletionPatienceMs + deletionPollMs(atMs);
});
/** The pauses before a set gets the next machines, of record 48. */
const ownersTries = timesIn(minuteMs, 20_000, (pauseMs) => 2 * pauseMs);
/** What a machine writes in its life, with its deletion. */
const writesOfLife = 12;

interface Row {
  /** The activity of the provider that makes the call. */
  readonly by: keyof ProviderActivities;
  readonly call: CloudCall;
  /** Of the cloud of the row. */
  readonly faults: readonly Fault[];
  /** What makes the call. Default: the creation of a machine. */
  readonly begin?: (row: string) => Promise<unknown>;
  /** How often the workflow tries in a minute at most. Default: once. */
  readonly tries?: number;
  /** How often a try makes the call at most. Default: once. */
  readonly calls?: number;
  /**
   * Requests to the API server that a try makes at most, to change something. Default: the Machine, its status and an
   * Event.
   */
  readonly writes?: number;
  /** VMs that are made in a minute at most. Default: 1. */
  readonly mostVms?: number;
  /** What the Machine shows meanwhile. */
  readonly shows?: Partial<Record<keyof MachineDescription, unknown>>;
  /** What becomes of the machine once the cloud keeps everything. Default: it runs. */
  readonly ends?: 'gone' | 'waits';
  /** Of its class. Default: `simulated`. */
  readonly provider?: 'extended';
}

let millwright: WatchedInstallation;
let dir: string;
let stopProvider: () => Promise<void>;
const clouds = new Map<string, CloudAdmin & { stop(): Promise<void> }>();
const refs = new Map<string, ObjectRef>();
/** Calls that the simulated cloud does not have, by the row. */
const extended: { readonly row: string; readonly call: CloudCall }[] = [];
let isMended = false;

const cloudOf = (row: string) => clouds.get(row)!;
const refOf = (row: string) => refs.get(row)!;
const nameOf = (row: string) => `cloud-${row}-${millwright.namespace.slice(5)}`;
const classOf = (row: string) => ({ kind: 'MachineClass', name: row });

async function createMachine(row: string): Promise<void> {
  refs.set(row, await millwright.createMachine(nameOf(row), { class: classOf(row) }));
}

/** The cloud keeps everything until the machine is deleted. */
async function deleteMachine(row: string): Promise<void> {
  await cloudOf(row).setFaults();
  await createMachine(row);
  await millwright.untilPhase(refOf(row), 'Running');
  await cloudOf(row).setFaults(...rows[row]!.faults);
  await millwright.control.delete(machines, refOf(row));
}

async function createDeployment(row: string): Promise<void> {
  const template = { metadata: { labels: { name: nameOf(row) } }, spec: { class: classOf(row) } };
  await millwright.createDeployment(nameOf(row), 2, { template });
}

async function editTags(row: string): Promise<void> {
  await createMachine(row);
  await millwright.untilPhase(refOf(row), 'Running');
  const patch = mergePatch({ providerSpec: { tags: { edited: 'yes' } } });
  await millwright.control.patch(machineClasses, { namespace: millwright.namespace, name: row }, patch);
}

const ofCreation = { by: 'ensureVm', call: 'create', faults: [{ kind: 'notKept', operation: 'create' }] } as const;
const leak = (kind: 'vm' | (typeof partKinds)[number]): Fault[] =>
  kind === 'vm' ? [] : [{ kind: 'leak', parts: [kind], operation: 'delete' }];
const deletion = (kind: 'vm' | (typeof partKinds)[number]): Row => ({
  ...{ by: 'deleteVm', call: 'delete', begin: deleteMachine, tries: deletions, calls: looks, ends: 'gone' },
  faults: [{ kind: 'notKept', resource: kind, operation: 'delete' }, ...leak(kind)],
  shows: { waitingFor: expect.stringMatching(/^the cloud to finish since /), phase: 'Terminating' },
});

const rows: Readonly<Record<string, Row>> = {
  vm: {
    ...{ ...ofCreation, tries: polls, mostVms: 0 },
    shows: { waitingFor: expect.stringMatching(/^node .* to register$/), blockedOn: 'NodeJoin' },
  },
  tags: { ...ofCreation, faults: [{ kind: 'notKept', field: 'tags' }] },
  'part-tags': { ...ofCreation, faults: [{ kind: 'notKept', field: 'partTags' }] },
  surplus: {
    by: 'ensureVm',
    call: 'delete',
    faults: [
      { kind: 'lostAnswer', effect: 'done', operation: 'create', times: 1 },
      ...([{ kind: 'invisible', ms: 8_000 }, { kind: 'ignoreTokens' }, { kind: 'neverJoin' }] as const),
      { kind: 'notKept', operation: 'delete' },
    ],
    ...{ tries: polls, mostVms: 2, ends: 'waits' },
  },
  'refused-parts': {
    by: 'ensureVm',
    call: 'delete',
    faults: [
      { kind: 'leak', operation: 'create' },
      { kind: 'notKept', operation: 'delete' },
    ],
    calls: 3 * partKinds.length,
    mostVms: 0,
    shows: { blockedOn: 'CloudCapacity' },
    ends: 'waits',
  },
  'set-up': {
    ...{ by: 'ensureVm', call: 'setUp', faults: [], provider: 'extended' },
    tries: timesIn(minuteMs, nextSetUpPauseMs(0), nextSetUpPauseMs),
    shows: { waitingFor: 'the cloud to set up the VM', blockedOn: 'CloudApi' },
  },
  'edited-tags': {
    ...{ by: 'updateVm', call: 'setTags', faults: [], provider: 'extended', begin: editTags },
  },
  'deleted-vm': deletion('vm'),
  ...Object.fromEntries(partKinds.map((kind) => [`deleted-${kind}`, deletion(kind)])),
  vanishing: {
    ...{ by: 'ensureVm', call: 'create', begin: createDeployment },
    faults: [{ kind: 'vanish', afterMs: 0 }, { kind: 'neverJoin' }],
    ...{ tries: ownersTries, calls: 2, mostVms: 2 * ownersTries, writes: 3 * writesOfLife, ends: 'waits' },
  },
};

/** How often the call of a row was made; of deletions only those that were not kept. */
async function countCalls(row: string): Promise<number> {
  const { call } = rows[row]!;
  if (call === 'setUp' || call === 'setTags')
    return extended.filter((each) => each.row === row && each.call === call).length;
  const calls = await cloudOf(row).calls();
  return calls.filter(({ operation, effect }) => operation === call && (call === 'create' || !effect)).length;
}

/** The kit's provider of the simulated cloud, with the calls that this cloud does not have. They come to nothing. */
function createExtended() {
  const rowOf = (name: string) => Object.keys(rows).find((row) => nameOf(row) === name) ?? '';
  const cloud: typeof simulatedCloud = {
    ...simulatedCloud,
    async setUp(_session, _spec, { name }) {
      const row = rowOf(name);
      extended.push({ row, call: 'setUp' });
      return row === 'set-up' && !isMended ? 'the route is missing' : undefined;
    },
    async setTags(_session, items) {
      for (const { kind, name } of items) if (kind === 'vm') extended.push({ row: rowOf(name), call: 'setTags' });
    },
  };
  return createProvider(cloud, {
    async readSecret(ref) {
      const { data = {} } = (await millwright.control.find(secrets, ref)) ?? {};
      return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64')]));
    },
  });
}

describe('what a cloud does not keep', () => {
  const counts = new Map<string, { readonly calls: number; readonly writes: number; readonly vms: number }>();

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'millwright-clouds-'));
    millwright = await startWatchedInstallation();
    stopProvider = await serveProvider(millwright, 'extended', createVmActivities(createExtended()), {
      activity: [boundary],
    });
    const fast = { bootMs: 50, joinMs: 100, deleteMs: 50, leaseRenewMs: 2 ** 31 - 1 };
    const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    for (const [row, { faults, provider = 'simulated' }] of Object.entries(rows)) {
      const cloud = await serveSimulatedCloud({ dir: join(dir, row), kubeconfig, ...fast });
      clouds.set(row, cloud);
      await cloud.setFaults(...faults);
      const tags = { cluster: millwright.namespace };
      const providerSpec = { endpoint: cloud.url, machineType: 'small', region: 'here', tags };
      await millwright.createClass(row, { provider, providerSpec });
    }
    await Promise.all(
      Object.entries(rows).map(async ([row, { begin = createMachine }]) => {
        await begin(row);
        await until(`${row} is called`, async (see) => see(await countCalls(row)) > 0);
        const sinceMs = performance.now();
        await until('a minute is over', async (see) => see(performance.now() - sinceMs) > minuteMs);
        const writes = millwright.proxy.seen.filter(
          ({ method, url }) => method !== 'GET' && url.pathname.includes(`/${nameOf(row)}`),
        );
        counts.set(row, {
          calls: await countCalls(row),
          writes: writes.length,
          vms: (await cloudOf(row).vms({ all: true })).length,
        });
      }),
    );
  }, 300_000);
  afterAll(async () => {
    await stopProvider?.();
    await millwright?.stop();
    await Promise.all([...clouds.values()].map((cloud) => cloud.stop()));
    await rm(dir, { recursive: true, force: true });
  });

  it.each(Object.keys(rows))(
    'is asked for a few times in a minute, and shown where a machine waits for it: %s',
    async (row) => {
      const { tries = 1, calls = 1, writes = 3, mostVms = 1, shows } = rows[row]!;
      const counted = counts.get(row)!;
      expect(counted.calls).toBeGreaterThan(0);
      expect(counted.calls).toBeLessThanOrEqual(tries * calls);
      expect(counted.writes).toBeLessThanOrEqual(writesOfLife + tries * writes);
      expect(counted.vms).toBeLessThanOrEqual(mostVms);
      if (shows !== undefined) {
        await until('the workflow says so', async () => {
          expect(await millwright.describe(refOf(row))).toMatchObject(shows);
          return true;
        });
      }
    },
  );

  it('is there once the cloud keeps it, and no VM more', async () => {
    isMended = true;
    for (const cloud of clouds.values()) await cloud.setFaults();
    for (const [row, { ends }] of Object.entries(rows)) {
      if (ends === 'waits') continue;
      if (ends === 'gone') {
        await millwright.untilGone(refOf(row));
        expect(await cloudOf(row).resources()).toEqual([]);
      } else {
        await millwright.untilPhase(refOf(row), 'Running');
        expect(await cloudOf(row).vms()).toHaveLength(1);
      }
    }
  });

  it('leaves nothing when the Machines are deleted', async () => {
    const { control, namespace } = millwright;
    await control.delete(machineDeployments, { namespace, name: nameOf('vanishing') });
    await Promise.all(
      (await millwright.machines()).map(({ metadata }) => control.delete(machines, metadata).catch(() => undefined)),
    );
    // A VM without the tags of its class may be anybody's, and so a person deletes it.
    await until('it says whose VM it does not delete', async (see) => {
      const { lastError } = see(await millwright.describe(refOf('tags')));
      return lastError?.message.includes('is neither used nor deleted') === true;
    });
    const [untagged] = await cloudOf('tags').vms();
    const headers = { authorization: 'Bearer letmein' };
    const { status } = await fetch(`${cloudOf('tags').url}/v1/vms/${untagged!.id}`, { method: 'DELETE', headers });
    expect(status).toBe(202);
    expect(await millwright.command('retry', nameOf('tags'))).toMatchObject({ code: 0 });
    await until('no machine is left', async (see) => see(await millwright.machines()).length === 0);
    for (const row of Object.keys(rows)) expect([row, await cloudOf(row).resources()]).toEqual([row, []]);
  });

  it('has a row for each call that changes something', () => {
    const changing = (calls: Readonly<Record<string, boolean>>) =>
      Object.keys(calls)
        .filter((each) => calls[each])
        .toSorted();
    const all = Object.values(rows);
    expect([...new Set(all.map(({ call }) => call))].toSorted()).toEqual(changing(cloudCalls));
    expect([...new Set(all.map(({ by }) => by))].toSorted()).toEqual(changing(providerCalls));
  });
});
