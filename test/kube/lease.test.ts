import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { KubeClient } from '../../kube/client.ts';
import { leases, namespaces } from '../../kube/core.ts';
import { toMicroTime } from '../../kube/events.ts';
import { foreignHolderFinder } from '../../kube/foreign-holder.ts';
import { createLeaseLock, type LeaseLock } from '../../kube/lease-lock.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type FaultProxy, type SeenRequest, startFaultProxy } from '../faults/proxy.ts';
import { newNamespace, testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

const script = fileURLToPath(new URL('lease-process.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'millwright-lease-test-'));
const names = ['machine-controller-manager', 'machine-controller'] as const;
const [first, second] = names;
let client: KubeClient;
let proxy: FaultProxy;
let proxied: string;
let namespace: string;
const candidates: { kill(): Promise<unknown> }[] = [];

beforeAll(async () => {
  client = testClient();
  proxy = await startFaultProxy(testKubeconfig());
  proxied = join(folder, 'proxy.kubeconfig');
  await proxy.writeKubeconfig(proxied);
});

beforeEach(async () => {
  namespace = await newNamespace(client);
});

afterEach(async () => {
  jest.restoreAllMocks();
  proxy.setRule();
  for (const candidate of candidates.splice(0)) await candidate.kill();
});

afterAll(async () => {
  await Promise.all([client.close(), proxy.close()]);
  rmSync(folder, { recursive: true });
});

interface Line {
  readonly message: string;
  readonly [field: string]: unknown;
}

type Candidate = Awaited<ReturnType<typeof start>>;

/** For a test that awaits no expiry: a busy machine may keep a leader from renewing for some seconds. */
const lasting = { leaseMs: 600_000, renewDeadlineMs: 500_000 };

/** Starts a candidate as a process of its own. */
async function start(options: object = {}) {
  const election = {
    ...{ kubeconfig: testKubeconfig(), userAgent: 'millwright-test/0', namespace, names },
    ...{ leaseMs: 4_000, renewDeadlineMs: 3_000, retryMs: 200, ...options },
  };
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(
    process.execPath,
    [script, JSON.stringify(election)],
    { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, NODE_OPTIONS: '' } },
  );
  const lines: Line[] = [];
  let errors = '';
  createInterface(child.stdout).on('line', (line) => lines.push(JSON.parse(line)));
  child.stderr.on('data', (data) => {
    errors += data;
  });
  child.stdin.on('error', () => undefined);
  const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
  const has = (message: string) => lines.some((line) => line.message.startsWith(message));
  const candidate = {
    exited,
    lines,
    errors: () => errors,
    isLeader: () => has('holding'),
    isStandby: () => has('standing by'),
    identity: () => String(lines[0]?.identity),
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
    send: (command: string) => child.stdin.write(`${command}\n`),
    has,
    async stop() {
      child.stdin.write('stop\n');
      return exited;
    },
    async kill() {
      child.kill('SIGKILL');
      return exited;
    },
  };
  candidates.push(candidate);
  await until('the candidate has started', () => lines.length > 0, { describe: () => errors });
  return candidate;
}

const untilLeading = ({ lines, isLeader }: Candidate) => until('it leads', (see) => see(lines) && isLeader());
const untilStandingBy = ({ lines, isStandby }: Candidate) => until('it stands by', (see) => see(lines) && isStandby());

async function startLeader(options: object = {}): Promise<Candidate> {
  const leader = await start(options);
  await untilLeading(leader);
  return leader;
}

async function startStandby(options: object = {}): Promise<Candidate> {
  const standby = await start(options);
  await untilStandingBy(standby);
  return standby;
}

/** Stops the clock by which this process lets Leases expire. */
function stopClock() {
  let nowNs = process.hrtime.bigint();
  jest.spyOn(process.hrtime, 'bigint').mockImplementation(() => nowNs);
  return {
    advance(ms: number): void {
      nowNs += BigInt(ms) * 1_000_000n;
    },
  };
}

/** By the clock of a holder that is behind. */
function hourAgo(): string {
  return toMicroTime(new Date(Date.now() - 3_600_000));
}

async function spec(name: string = first) {
  const { spec: present } = await client.get(leases, { namespace, name });
  return {
    ...present,
    renewedAtMs: Date.parse(`${present?.renewTime}`),
    acquiredAtMs: Date.parse(`${present?.acquireTime}`),
  };
}

async function untilHeld(name: string, holder: string): Promise<void> {
  await until(
    `the Lease ${name} is held by '${holder}'`,
    async (see) => see(await spec(name)).holderIdentity === holder,
  );
}

describe('an election', () => {
  it('has one leader, whose Leases look like those of machine-controller-manager', async () => {
    const leader = await startLeader(lasting);
    const standby = await startStandby(lasting);

    const before = await spec();
    await until('the Lease is renewed', async (see) => see(await spec()).renewedAtMs > before.renewedAtMs);
    const after = await spec();
    const other = await spec(second);

    const microTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    const held = { holderIdentity: leader.identity(), leaseDurationSeconds: 600, leaseTransitions: 0 };
    expect(leader.identity()).toMatch(/^.+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_millwright$/);
    expect(before).toMatchObject({ ...held, acquireTime: microTime, renewTime: microTime });
    expect(after).toMatchObject({ ...held, acquireTime: before.acquireTime });
    expect(other).toMatchObject(held);
    expect(standby.isLeader()).toBe(false);
    expect(standby.lines.at(-1)).toMatchObject({ lease: first, holder: leader.identity() });
  });

  it('hands over at once when the leader stops', async () => {
    const leader = await startLeader(lasting);
    const standby = await startStandby(lasting);

    expect(await leader.stop()).toEqual({ code: 0, signal: null });
    await untilLeading(standby);
    const taken = await spec();
    await standby.stop();

    expect(taken).toMatchObject({ holderIdentity: standby.identity(), leaseDurationSeconds: 600, leaseTransitions: 1 });
    for (const name of names) {
      expect(await spec(name)).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1, leaseTransitions: 1 });
    }
  });

  it('elects another leader after kill -9, once the Leases have expired', async () => {
    const leader = await startLeader();
    const standby = await startStandby();

    const before = await spec();
    await leader.kill();
    const after = await spec();
    // On a busy machine the standby may have it already.
    const last = after.holderIdentity === leader.identity() ? after : before;
    await untilLeading(standby);

    const { acquiredAtMs, holderIdentity } = await spec();
    expect(holderIdentity).toBe(standby.identity());
    expect(acquiredAtMs - last.renewedAtMs).toBeGreaterThanOrEqual(4_000);
  });

  it('lets each of many candidates that start at once lead in turn', async () => {
    const waiting = await Promise.all(Array.from({ length: 5 }, async () => start(lasting)));

    while (waiting.length > 0) {
      await until('one of them leads', () => waiting.some((candidate) => candidate.isLeader()));
      const leaders = waiting.filter((candidate) => candidate.isLeader());
      expect(leaders.length).toBe(1);
      for (const leader of leaders) {
        expect([(await spec(first)).holderIdentity, (await spec(second)).holderIdentity]).toEqual([
          leader.identity(),
          leader.identity(),
        ]);
        expect(await leader.stop()).toEqual({ code: 0, signal: null });
        waiting.splice(waiting.indexOf(leader), 1);
      }
    }
  });

  it('waits for a foreign holder of one Lease, whatever its clock says, and takes none meanwhile', async () => {
    const foreign = { holderIdentity: 'mcm-0_a', leaseDurationSeconds: 600, leaseTransitions: 7, renewTime: hourAgo() };
    await client.create(leases, { metadata: { namespace, name: second }, spec: foreign });
    const before = proxy.seen.length;
    const candidate = await startStandby({ kubeconfig: proxied, ...lasting });
    const requests = () => proxy.seen.slice(before);
    const isOfSecond = ({ url }: SeenRequest) => url.pathname.endsWith(`/leases/${second}`);
    await until('it has read the Lease again and again', (see) => see(requests().filter(isOfSecond).length) > 3);
    expect(requests().filter(({ method }) => method !== 'GET')).toEqual([]);
    expect(candidate.isLeader()).toBe(false);

    await client.patch(leases, { namespace, name: second }, mergePatch({ spec: { leaseDurationSeconds: 1 } }));
    await untilLeading(candidate);

    expect(candidate.lines[1]).toMatchObject({ lease: second, holder: 'mcm-0_a' });
    expect(await spec(second)).toMatchObject({ holderIdentity: candidate.identity(), leaseTransitions: 8 });
  });
});

describe('a leader whose main thread is stuck', () => {
  it('stays leader for less than the renew deadline: the Leases are renewed meanwhile', async () => {
    const leader = await startLeader({ leaseMs: 35_000, renewDeadlineMs: 30_000 });
    const end = join(folder, 'end-of-stall');
    leader.send(`stall 600000 ${end}`);
    await until('it is stuck', () => leader.has('stuck'));
    const before = await spec();
    await until('the Lease is renewed', async (see) => see(await spec()).renewedAtMs > before.renewedAtMs + 4_000);
    expect(leader.has('moved again')).toBe(false);
    writeFileSync(end, '');
    await until('it moves again', () => leader.has('moved again'));

    expect(leader.has('lost')).toBe(false);
    expect(await leader.stop()).toEqual({ code: 0, signal: null });
  });

  it('is killed after the renew deadline, and another one leads', async () => {
    // Long enough to tell a stuck thread from a process that a busy machine does not let run.
    const leader = await startLeader({ leaseMs: 9_000, renewDeadlineMs: 8_000 });
    const standby = await startStandby();

    leader.send('stall 600000');

    expect(await leader.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(leader.errors()).toBe('millwright: ending at once: its main thread has been stuck for 8000 ms\n');
    await untilLeading(standby);
  });
});

describe('a leader whose whole process was frozen', () => {
  it('ends when it continues after another one has become leader', async () => {
    const leader = await startLeader();
    const standby = await startStandby();

    leader.freeze();
    await untilLeading(standby);
    leader.thaw();

    expect([3, 'SIGKILL']).toContain((await leader.exited).code ?? (await leader.exited).signal);
    expect(leader.has('lost') || leader.errors().includes('ending at once')).toBe(true);
  });
});

describe('a leader', () => {
  it('ends when the API server does not answer for the renew deadline', async () => {
    const leader = await startLeader({ kubeconfig: proxied, leaseMs: 600_000 });

    await proxy.goDown();
    const exit = await leader.exited;
    await proxy.comeUp();

    expect(exit).toEqual({ code: 3, signal: null });
    expect(leader.lines.at(-1)?.reason).toMatch(/^the Leases were not renewed (within 3000 ms|in time)$/);
    expect(leader.has('renewing the Leases failed')).toBe(true);
  });

  it('survives connections that died silently', async () => {
    const leader = await startLeader({ kubeconfig: proxied, leaseMs: 21_000, renewDeadlineMs: 18_000 });

    proxy.silenceConnections();
    await until('a renewal has failed', (see) => see(leader).has('renewing the Leases failed'));
    const before = await spec();
    await until('the Lease is renewed', async (see) => see(await spec()).renewedAtMs > before.renewedAtMs);

    expect(await leader.stop()).toEqual({ code: 0, signal: null });
  });

  it('ends when somebody has taken one of its Leases', async () => {
    const leader = await startLeader(lasting);

    await client.patch(leases, { namespace, name: second }, mergePatch({ spec: { holderIdentity: 'thief' } }));

    expect(await leader.exited).toEqual({ code: 3, signal: null });
    expect(leader.lines.at(-1)?.reason).toBe(`thief has taken the Lease ${second}`);
    expect((await spec(first)).holderIdentity).toBe(leader.identity());
  });

  it('leads on in a namespace that is being deleted, and takes no Lease any more', async () => {
    const leader = await startLeader({ kubeconfig: proxied });
    let refused = 0;
    proxy.setRule(({ method }) => {
      if (method === 'POST') refused += 1;
      return undefined;
    });

    await client.delete(namespaces, { name: namespace });
    for (const name of names) await client.delete(leases, { namespace, name });
    // Each 200 ms both are refused: the renew deadline of 3 s is over long before.
    await until('it has asked in vain for long', (see) => see(refused) > 60);

    expect(leader.has('leading without the Leases')).toBe(true);
    expect(await leader.stop()).toEqual({ code: 0, signal: null });
  });

  it('creates its Leases again when somebody has deleted them', async () => {
    const leader = await startLeader(lasting);

    for (const name of names) await client.delete(leases, { namespace, name });
    for (const name of names) await untilHeld(name, leader.identity());

    expect(await leader.stop()).toEqual({ code: 0, signal: null });
  });
});

describe('a candidate', () => {
  it('leads in a namespace that is being deleted once nobody can have had a Lease for the lease duration', async () => {
    await client.delete(namespaces, { name: namespace });
    const candidate = await start();
    await until('it leads', (see) => see(candidate.lines) && candidate.has('leading without the Leases'));

    expect(candidate.lines.slice(1).map(({ message }) => message)).toEqual([
      'asking for the Leases failed',
      'leading without the Leases',
    ]);
    expect(await candidate.stop()).toEqual({ code: 0, signal: null });
  });

  it('waits for an API server that does not answer', async () => {
    proxy.setRule(() => ({ kind: 'reset' }));
    const candidate = await start({ kubeconfig: proxied });
    await until('it has asked in vain', (see) => see(candidate).has('asking for the Leases failed'));

    proxy.setRule();

    await untilLeading(candidate);
  });

  it('releases the first Lease when somebody else holds the second, so that two never wait for each other', async () => {
    proxy.setRule(() => ({ kind: 'reset' }));
    const candidate = await start({ kubeconfig: proxied });
    const record = { leaseDurationSeconds: 600, leaseTransitions: 0, renewTime: toMicroTime(new Date()) };
    const own = { ...record, holderIdentity: candidate.identity() };
    await client.create(leases, { metadata: { namespace, name: first }, spec: own });
    await client.create(leases, { metadata: { namespace, name: second }, spec: { ...record, holderIdentity: 'mcm' } });

    proxy.setRule();

    await untilHeld(first, '');
    expect(candidate.isLeader()).toBe(false);
    expect((await spec(second)).holderIdentity).toBe('mcm');
  });

  it('finds out that it holds a Lease whose answer was lost', async () => {
    let isLost = false;
    const isCreate = ({ method, url }: SeenRequest) => method === 'POST' && url.pathname.endsWith('/leases');
    proxy.setRule((request) => {
      if (isLost || !isCreate(request)) return undefined;
      isLost = true;
      return { kind: 'lose-answer' };
    });
    const candidate = await startLeader({ kubeconfig: proxied, ...lasting });

    expect(isLost).toBe(true);
    expect(await spec(first)).toMatchObject({ holderIdentity: candidate.identity(), leaseTransitions: 0 });
    expect(await candidate.stop()).toEqual({ code: 0, signal: null });
  });
});

describe('foreignHolderFinder', () => {
  it('finds a holder other than Millwright, for as long as the Lease is renewed', async () => {
    const find = foreignHolderFinder({ client, namespace, names, timeoutMs: 60_000 });
    const renew = (change: object = {}) =>
      client.patch(leases, { namespace, name: second }, mergePatch({ spec: { renewTime: hourAgo(), ...change } }));
    const before = await find();
    const leader = await startLeader();
    const led = await find();
    await leader.kill();
    const killed = await find();

    await renew({ holderIdentity: 'mcm-0_a', leaseDurationSeconds: 2 });
    const held = { lease: second, holder: 'mcm-0_a' };
    const clock = stopClock();
    for (let renewals = 0; renewals < 3; renewals += 1) {
      await renew();
      expect(await find()).toEqual(held);
      clock.advance(1_999);
      expect(await find()).toEqual(held);
    }
    clock.advance(1);
    expect(await find()).toBeUndefined();

    expect([before, led, killed]).toEqual([undefined, undefined, undefined]);
  });
});

describe('createLeaseLock', () => {
  const lockOf = (identity: string = randomUUID()): LeaseLock =>
    createLeaseLock({ client, namespace, name: first, identity, leaseMs: 500, timeoutMs: 60_000 });

  it('has one winner in every round of a storm', async () => {
    const locks = Array.from({ length: 12 }, () => lockOf());

    for (let round = 0; round < 20; round += 1) {
      const won = await Promise.all(locks.map((lock) => lock.tryAcquireOrRenew()));
      const winners = locks.filter((_, index) => won[index]);
      expect(winners.length).toBe(1);
      expect(await spec()).toMatchObject({ holderIdentity: winners[0]?.holder(), leaseTransitions: round });
      await winners[0]?.release();
    }
  });

  it('renews with one request each', async () => {
    const seen: string[] = [];
    const counted = testClient(undefined, { onRequest: ({ verb }) => seen.push(verb) });
    const lock = createLeaseLock({
      client: counted,
      namespace,
      name: first,
      identity: 'a',
      leaseMs: 500,
      timeoutMs: 60_000,
    });
    await lock.tryAcquireOrRenew();
    seen.length = 0;

    for (let renewals = 0; renewals < 3; renewals += 1) expect(await lock.tryAcquireOrRenew()).toBe(true);
    await counted.close();

    expect(seen).toEqual(['patch', 'patch', 'patch']);
  });

  it('waits for a holder for as long as it renews the Lease', async () => {
    const clock = stopClock();
    const [holder, other] = [lockOf('a'), lockOf('b')];

    for (let renewals = 0; renewals < 3; renewals += 1) {
      expect(await holder.tryAcquireOrRenew()).toBe(true);
      expect(await other.tryAcquireOrRenew()).toBe(false);
      clock.advance(999);
      expect(await other.tryAcquireOrRenew()).toBe(false);
    }
    clock.advance(1);

    expect(await other.tryAcquireOrRenew()).toBe(true);
  });

  it('does not take an annotation for a renewal', async () => {
    await lockOf('a').tryAcquireOrRenew();
    const other = lockOf('b');
    await other.read();
    expect(other.isHeldByOther()).toBe(true);

    await until('the Lease has expired', async () => {
      const annotations = { at: `${Date.now()}` };
      await client.patch(leases, { namespace, name: first }, mergePatch({ metadata: { annotations } }));
      await other.read();
      return !other.isHeldByOther();
    });

    expect(await other.tryAcquireOrRenew()).toBe(true);
  });

  it('releases nothing that is not its own', async () => {
    const [a, b] = [lockOf('a'), lockOf('b')];
    await a.tryAcquireOrRenew();
    await b.read();

    await b.release();

    expect(await spec()).toMatchObject({ holderIdentity: 'a' });
  });
});
