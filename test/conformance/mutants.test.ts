/** The suite finds what is wrong with a provider, and in which promise: with a cloud that it asks over HTTP. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createProvider } from '../../activities/providers/kit/provider.ts';
import type { Provider } from '../../activities/providers/provider.ts';
import { createVmActivities } from '../../activities/providers/serve.ts';
import { MemoryCluster } from '../../kube/memory-cluster.ts';
import { serveCounterpart } from '../support/serve-counterpart.ts';
import { leaveNothing } from './cases/deletion.ts';
import { cases } from './cases.ts';
import type { Counterpart } from './counterpart.ts';
import { startSimulatedCounterpart } from './counterparts/simulated.ts';
import { connectCounterpart } from './http-counterpart.ts';
import { createLocalCalls } from './local-calls.ts';
import { cloud as goodCloud, mutants, mutantsFromOutside } from './mutants.ts';
import { runCases } from './run-cases.ts';
import { createSubject, type Subject } from './subject.ts';
import { createWorld } from './world.ts';

/** No provider that waits too little is saved by a slow machine. */
const lateMs = 10_000;
/** Less than `settleSeconds` of a good provider, ms. */
const listedLateMs = 150;

let counterpart: Counterpart;
let served: Awaited<ReturnType<typeof serveCounterpart>>;
let cloud: Counterpart;
let subject: Subject;

beforeAll(async () => {
  counterpart = await startSimulatedCounterpart();
  served = await serveCounterpart(counterpart, listedLateMs);
  ({ cloud } = await connectCounterpart(served.url));
  const credentials = { namespace: 'conformance', name: 'credentials' };
  subject = await createSubject(new MemoryCluster().client(), {
    namespace: 'conformance',
    providerSpec: cloud.providerSpec,
    credentials: [credentials],
    secrets: [{ ...credentials, data: cloud.credentials }],
  });
});
afterAll(async () => {
  await served?.stop();
  await counterpart?.stop();
});

describe('the conformance suite', () => {
  it('passes a provider that keeps every promise', async () => {
    const provider = createProvider(goodCloud, { readSecret: subject.readSecret });
    const calls = createLocalCalls(createVmActivities(provider));
    const all = cases.filter(({ usesWorker }) => !usesWorker);

    const results = await runCases(createWorld({ subject, cloud, lateMs: listedLateMs, calls }), all);

    expect(results.filter(({ state }) => state !== 'ok')).toMatchObject([{ title: 'change tags', state: 'not run' }]);
    expect(results.length).toBe(all.length);
  });

  it.each(mutants)('fails a provider that $title in "$caughtBy"', async ({ caughtBy, seen, make }) => {
    const provider = make({ readSecret: subject.readSecret });
    const world = createWorld({ subject, cloud, lateMs, calls: createLocalCalls(createVmActivities(provider)) });

    const results = await runCases(
      world,
      cases.filter(({ title }) => title === caughtBy),
    );

    expect(results).toMatchObject([{ state: 'failed', why: expect.stringMatching(seen) }]);
  });
});

describe('the conformance suite from outside', () => {
  const all = [...cases.filter(({ needs, usesWorker }) => needs.length === 0 && !usesWorker), leaveNothing];

  /** Runs cases for a provider in a cloud that lists a new VM late. */
  async function runOutside(provider: Provider, chosen = all) {
    await cloud.reset();
    await cloud.setFault({ kind: 'listedLate', ms: listedLateMs });
    const calls = createLocalCalls(createVmActivities(provider));
    return runCases(createWorld({ subject, calls, lateMs: 2 * listedLateMs }), chosen);
  }

  it('passes a provider whose cloud lists a VM late, and leaves nothing in the cloud', async () => {
    const results = await runOutside(createProvider(goodCloud, { readSecret: subject.readSecret }));

    expect(results.filter(({ state }) => state !== 'ok')).toMatchObject([{ title: 'change tags', state: 'not run' }]);
    expect(await cloud.things()).toEqual([]);
  });

  it.each(mutantsFromOutside)('fails a provider that $title in "$caughtBy"', async ({ caughtBy, seen, make }) => {
    const provider = make({ readSecret: subject.readSecret });
    const results = await runOutside(
      provider,
      all.filter(({ title }) => ['create', caughtBy].includes(title)),
    );

    expect(results.find(({ title }) => title === caughtBy)).toMatchObject({
      state: 'failed',
      why: expect.stringMatching(seen),
      calls: expect.arrayContaining([expect.stringMatching(/^(ensureVm|listVms) \{/)]),
    });
  });

  it('deletes what a deletion has left that came too early', async () => {
    const early = mutantsFromOutside.find(({ caughtBy }) => caughtBy === leaveNothing.title);
    await runOutside(early?.make({ readSecret: subject.readSecret }) as Provider);

    expect(await cloud.things()).toEqual([]);
  });
});
