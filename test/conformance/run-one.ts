import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { providerTaskQueue } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { connectClient, type TemporalServer } from '../../temporal/connection.ts';
import type { Case } from './case.ts';
import { leaveNothing } from './cases/deletion.ts';
import type { ClassFile } from './class-file.ts';
import { withEnds } from './ends.ts';
import { type CaseResult, runCases } from './run-cases.ts';
import { createSubject } from './subject.ts';
import { createTemporalCalls } from './temporal-calls.ts';
import { createWorkerProcess, withLog } from './worker-process.ts';
import { createWorld } from './world.ts';

export interface RunOneOptions {
  readonly provider: string;
  readonly file: ClassFile;
  readonly installation: string;
  readonly control: KubeClient;
  readonly temporal: TemporalServer;
  readonly dataConverter: DataConverter;
  /** Command line that starts the worker. Left out: it runs already. */
  readonly worker: string | undefined;
  readonly cases: readonly Case[];
  readonly signal: AbortSignal;
  onResult(provider: string, result: CaseResult): void;
}

/** After the last creation, ms: by then most clouds list a VM for which the provider has waited too little. */
const lastLookMs = 10_000;

/** Runs the cases for a provider in any cloud, which is not under the suite's control. */
export async function runOne({ provider, temporal, dataConverter, control, ...options }: RunOneOptions) {
  return withEnds(async (atEnd) => {
    const connection = await connectClient(temporal);
    atEnd(() => connection.close());
    const subject = await createSubject(control, options.file);
    atEnd(() => subject.remove());
    const worker =
      options.worker === undefined
        ? undefined
        : await createWorkerProcess({ program: 'sh', args: ['-c', options.worker] });
    atEnd(async () => worker?.stop());
    await worker?.start();

    const client = new Client({ connection, namespace: temporal.namespace, dataConverter });
    const calls = createTemporalCalls(client, providerTaskQueue(options.installation, provider));
    const world = createWorld({ subject, calls, worker, lateMs: lastLookMs });
    const { cases, signal, onResult } = options;
    const results = await withLog(worker, async () => {
      await world.checkServed();
      const report = (result: CaseResult) => onResult(provider, result);
      return runCases(world, [...cases, leaveNothing], { signal, onResult: report });
    });
    return { provider, results };
  });
}
