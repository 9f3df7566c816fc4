/** The suite finds what is wrong with a provider, and in which promise. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, type Connection } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import { boundary } from '../../activities/boundary.ts';
import type { Provider, ProviderDeps } from '../../activities/providers/provider.ts';
import { createVmActivities } from '../../activities/providers/serve.ts';
import { providerTaskQueue } from '../../api/names.ts';
import { secrets } from '../../api/secret.ts';
import type { KubeClient } from '../../kube/client.ts';
import { connectClient } from '../../temporal/connection.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { fromSetup } from '../support/installation.ts';
import { newNamespace, recordingLogger, testClient } from '../support/kube.ts';
import { createCalls } from './calls.ts';
import { cases } from './cases.ts';
import type { Counterpart } from './counterpart.ts';
import { startSimulatedCounterpart } from './counterparts/simulated.ts';
import { mutants } from './mutants.ts';
import { type CaseResult, runCases } from './run-cases.ts';
import { createSubject, type Subject } from './subject.ts';
import { createWorld } from './world.ts';

/** No provider that waits too little is saved by a slow machine. */
const lateMs = 10_000;

let control: KubeClient;
let namespace: string;
let cloud: Counterpart;
let subject: Subject;
let connection: Connection;
let native: NativeConnection;
let number = 0;

beforeAll(async () => {
  const server = { address: fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS'), namespace: 'default', tls: false } as const;
  control = testClient();
  namespace = await newNamespace(control);
  cloud = await startSimulatedCounterpart(lateMs);
  connection = await connectClient(server);
  native = await connectWorkers(server, recordingLogger());
  const credentials = { namespace, name: 'credentials' };
  const { providerSpec } = cloud;
  const file = { namespace, providerSpec, credentials: [credentials] };
  subject = await createSubject(control, { ...file, secrets: [{ ...credentials, data: cloud.credentials }] });
});

afterAll(async () => {
  await subject?.remove();
  await connection?.close();
  await native?.close();
  await cloud?.stop();
  await control?.close();
});

/** Runs the case of this title against a provider. */
async function run(title: string, make: (deps: ProviderDeps) => Provider): Promise<CaseResult | undefined> {
  number += 1;
  const taskQueue = providerTaskQueue(namespace, `mutant-${number}`);
  const provider = make({
    async readSecret(ref) {
      const secret = await control.find(secrets, ref);
      const entries = Object.entries(secret?.data ?? {});
      return secret && Object.fromEntries(entries.map(([key, value]) => [key, Buffer.from(value, 'base64')]));
    },
  });
  const worker = await Worker.create({
    connection: native,
    taskQueue,
    activities: createVmActivities(provider),
    interceptors: { activity: [boundary] },
  });
  const world = createWorld({ subject, cloud, calls: createCalls(new Client({ connection }), taskQueue) });
  return worker.runUntil(async () => {
    const [result] = await runCases(
      world,
      cases.filter((each) => each.title === title),
    );
    return result;
  });
}

describe('the conformance suite', () => {
  it.each(mutants)('fails a provider that $title in "$caughtBy"', async ({ caughtBy, seen, make }) => {
    expect(await run(caughtBy, make)).toMatchObject({ state: 'failed', why: expect.stringMatching(seen) });
  });
});
