import { randomBytes } from 'node:crypto';
import { Client } from '@temporalio/client';
import { providerTaskQueue } from '../../api/names.ts';
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces } from '../../kube/core.ts';
import { connectClient } from '../../temporal/connection.ts';
import { createCalls } from './calls.ts';
import type { Case } from './case.ts';
import { withEnds } from './ends.ts';
import type { ProviderEntry, Servers } from './providers.ts';
import { type CaseResult, runCases } from './run-cases.ts';
import { createSubject } from './subject.ts';
import { createWorkerProcess, withLog } from './worker-process.ts';
import { createWorld } from './world.ts';

export interface RunAllOptions {
  readonly servers: Servers;
  readonly providers: readonly ProviderEntry[];
  readonly cases: readonly Case[];
  readonly signal: AbortSignal;
  /** Called with each result; those of several providers come mixed. */
  onResult(provider: string, result: CaseResult): void;
}

/** Runs the cases for several providers, side by side: they wait most of the time. */
export async function runAll(options: RunAllOptions) {
  return allEnded(options.providers.map((entry) => runOne(options, entry)));
}

/** Waits for the others, too, when one has failed: they clean up. */
async function allEnded<T>(runs: readonly Promise<T>[]): Promise<T[]> {
  const ended = await Promise.allSettled(runs);
  return ended.map((run) => {
    if (run.status === 'rejected') throw run.reason;
    return run.value;
  });
}

async function runOne({ cases, ...options }: RunAllOptions, entry: ProviderEntry) {
  const left = cases.values();
  const runs = Array.from({ length: entry.clouds ?? 1 }, () => runInCloud({ ...options, cases: left }, entry));
  return { provider: entry.name, results: (await allEnded(runs)).flat() };
}

type CloudRunOptions = Omit<RunAllOptions, 'cases' | 'providers'> & { readonly cases: Iterable<Case> };

/** Runs the cases that other clouds leave. */
async function runInCloud({ servers, cases, signal, onResult }: CloudRunOptions, entry: ProviderEntry) {
  const { name } = entry;
  const installation = `conformance-${name}-${randomBytes(3).toString('hex')}`;
  return withEnds(async (atEnd) => {
    const control = createKubeClient({
      access: loadKubeconfig(servers.kubeconfig),
      userAgent: 'conformance',
      qps: 50,
      burst: 50,
    });
    atEnd(() => control.close());
    await control.create(namespaces, { metadata: { name: installation } });
    atEnd(() => control.delete(namespaces, { name: installation }));
    const connection = await connectClient({ address: servers.temporalAddress, namespace: 'default', tls: false });
    atEnd(() => connection.close());

    const cloud = await entry.startCounterpart();
    atEnd(() => cloud.stop());
    const credentials = { namespace: installation, name: 'credentials' };
    const { providerSpec } = cloud;
    const secrets = [{ ...credentials, data: cloud.credentials }];
    const subject = await createSubject(control, {
      namespace: installation,
      providerSpec,
      credentials: [credentials],
      secrets,
    });
    atEnd(() => subject.remove());
    const command = await entry.prepareWorker(servers, installation);
    atEnd(async () => command.remove?.());
    const worker = await createWorkerProcess({ ...command, env: { ...command.env, ...cloud.workerEnv } });
    atEnd(() => worker.stop());
    await worker.start();

    const calls = createCalls(new Client({ connection }), providerTaskQueue(installation, name));
    const world = createWorld({ subject, calls, cloud, worker });
    return withLog(worker, () => runCases(world, cases, { signal, onResult: (result) => onResult(name, result) }));
  });
}
