import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Client } from '@temporalio/client';
import { createVmActivities } from '../../activities/providers/serve.ts';
import { providerTaskQueue } from '../../api/names.ts';
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces } from '../../kube/core.ts';
import { connectClient } from '../../temporal/connection.ts';
import type { Case } from './case.ts';
import { withEnds } from './ends.ts';
import { createLocalCalls } from './local-calls.ts';
import { hurry, type ProviderEntry, type Servers } from './providers.ts';
import type { ProviderResults } from './report.ts';
import { type CaseResult, runCases } from './run-cases.ts';
import { createSubject } from './subject.ts';
import { createTemporalCalls } from './temporal-calls.ts';
import { baseEnvironment, createWorkerProcess, withLog } from './worker-process.ts';
import { createWorld } from './world.ts';

export interface RunAllOptions {
  readonly servers: Servers;
  readonly providers: readonly ProviderEntry[];
  readonly cases: readonly Case[];
  readonly signal: AbortSignal;
  /** Called with each result; those of several providers come mixed. */
  onResult(provider: string, result: CaseResult): void;
}

/**
 * Runs the cases for several providers, side by side: they wait most of the time. When one has failed, the others still
 * end.
 */
export async function runAll({ providers, ...options }: RunAllOptions): Promise<ProviderResults[]> {
  const ended = await Promise.allSettled(providers.map((entry) => runOne(options, entry)));
  return ended.map((run) => {
    if (run.status === 'rejected') throw run.reason;
    return run.value;
  });
}

/** Runs the cases in this process where they and the provider allow it, and then the others through a worker. */
async function runOne({ servers, cases, signal, onResult }: Omit<RunAllOptions, 'providers'>, entry: ProviderEntry) {
  const { name, lateMs, make } = entry;
  const installation = `conformance-${randomBytes(6).toString('hex')}`;
  const options = { signal, onResult: (result: CaseResult) => onResult(name, result) };
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

    const ofWorker = make === undefined ? cases : cases.filter(({ usesWorker }) => usesWorker);
    const results: CaseResult[] = [];
    if (make !== undefined) {
      setEnvironment(cloud.env);
      const calls = createLocalCalls(createVmActivities(await make({ readSecret: subject.readSecret })));
      const world = createWorld({ subject, calls, cloud, lateMs: lateMs / hurry });
      results.push(
        ...(await runCases(
          world,
          cases.filter((each) => !ofWorker.includes(each)),
          options,
        )),
      );
    }
    if (ofWorker.length === 0) return { provider: name, results };

    const connection = await connectClient({ address: servers.temporalAddress, namespace: 'default', tls: false });
    atEnd(() => connection.close());
    const command = await entry.prepareWorker(servers, installation);
    atEnd(async () => command.remove?.());
    const env = { ...baseEnvironment(), ...command.env, ...cloud.env };
    const worker = await createWorkerProcess({ ...command, env });
    atEnd(() => worker.stop());
    await worker.start();
    const calls = createTemporalCalls(new Client({ connection }), providerTaskQueue(installation, name));
    const world = createWorld({ subject, calls, cloud, lateMs, worker });
    results.push(...(await withLog(worker, () => runCases(world, ofWorker, options))));
    return { provider: name, results };
  });
}

/** Sets variables of this process, which has read that of the certificates already. */
function setEnvironment(env: Readonly<Record<string, string>> = {}): void {
  Object.assign(process.env, env);
  const { NODE_EXTRA_CA_CERTS: file } = env;
  if (file !== undefined) setDefaultCACertificates([...getCACertificates(), readFileSync(file, 'utf8')]);
}
