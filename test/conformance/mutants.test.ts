/** The suite finds what is wrong with a provider, and in which promise. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { createVmActivities } from '../../activities/providers/serve.ts';
import { MemoryCluster } from '../../kube/memory-cluster.ts';
import { cases } from './cases.ts';
import type { Counterpart } from './counterpart.ts';
import { startSimulatedCounterpart } from './counterparts/simulated.ts';
import { createLocalCalls } from './local-calls.ts';
import { mutants } from './mutants.ts';
import { runCases } from './run-cases.ts';
import { createSubject, type Subject } from './subject.ts';
import { createWorld } from './world.ts';

/** No provider that waits too little is saved by a slow machine. */
const lateMs = 10_000;

let cloud: Counterpart;
let subject: Subject;

beforeAll(async () => {
  cloud = await startSimulatedCounterpart();
  const credentials = { namespace: 'conformance', name: 'credentials' };
  subject = await createSubject(new MemoryCluster().client(), {
    namespace: 'conformance',
    providerSpec: cloud.providerSpec,
    credentials: [credentials],
    secrets: [{ ...credentials, data: cloud.credentials }],
  });
});
afterAll(() => cloud?.stop());

describe('the conformance suite', () => {
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
