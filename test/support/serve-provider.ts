/** A provider of a test's own, in the process of the test. */
import { Worker, type WorkerOptions } from '@temporalio/worker';
import { providerTaskQueue } from '../../api/names.ts';
import type { ProviderActivities } from '../../api/provider.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { fromSetup, type Installation } from './installation.ts';
import { recordingLogger } from './kube.ts';

/** Serves these activities as the provider of this name. Answers what ends it. */
export async function serveProvider(
  { namespace }: Installation,
  name: string,
  activities: Partial<ProviderActivities>,
  interceptors: WorkerOptions['interceptors'] = {},
): Promise<() => Promise<void>> {
  const address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
  const connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
  const taskQueue = providerTaskQueue(namespace, name);
  const worker = await Worker.create({ connection, taskQueue, activities, interceptors });
  const run = worker.run();
  return async () => {
    worker.shutdown();
    await run;
    await connection.close();
  };
}
