/**
 * A Millwright that serves the fleet API, in the process of the test, with a cloud whose Nodes have names of their own.
 */
import { boundary } from '../../../activities/boundary.ts';
import { createVmActivities } from '../../../activities/providers/serve.ts';
import { createSimulatedProvider } from '../../../activities/providers/simulated/index.ts';
import { registerDialect } from '../../../api/dialects.ts';
import type { ObjectRef } from '../../../api/model/ref.ts';
import { startControllers } from '../../../controllers/main.ts';
import { installCrd } from '../../../deploy/local/crds.ts';
import { secrets } from '../../../kube/core.ts';
import { startWorkers } from '../../../temporal/worker.ts';
import { connectWorkers } from '../../../temporal/worker-connection.ts';
import { fromSetup, startInstallation } from '../installation.ts';
import { recordingLogger } from '../kube.ts';
import { serveProvider } from '../serve-provider.ts';
import { fleet } from './dialect.ts';
import { fleetCrds, fleetMachines } from './resources.ts';

const defaults = { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] };

export type Fleet = Awaited<ReturnType<typeof startFleet>>;

/** Starts the cloud, workers and controllers for a new namespace. */
export async function startFleet() {
  registerDialect(fleet);
  const installation = await startInstallation({
    isStopped: true,
    cloud: { nodePrefix: 'node-of-', statusUpdateMs: 2 ** 31 - 1 },
  });
  const { namespace, control, target, cloud, temporal } = installation;
  for (const crd of fleetCrds) await installCrd(control, crd);

  const logger = recordingLogger();
  const address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
  const connection = await connectWorkers({ address, namespace: 'default', tls: false }, logger);
  const workers = await startWorkers({
    ...{ connection, namespace: 'default', installation: namespace, control, target, defaults, providers: [] },
    machineNamespace: namespace,
    ...{ maxCachedWorkflows: 2_000, bootstrapTokenExtraGroups: '', logger },
    ...{ mostReplacing: { count: 1 }, outagePercent: 55 },
    volumes: { detachMs: 1_000, reattachMs: 1_000, isSerial: false },
    drainStuckAfterMs: 600_000,
    sweep: {
      ...{ confirmAfterSeconds: 1, minimumAgeSeconds: 1 },
      ...{ brakeCount: 3, brakeRate: 10, approvalSeconds: 86_400 },
    },
    onFailedRun: () => undefined,
    refusal: () => undefined,
  });
  const stopProvider = await serveProvider(installation, 'nameless', nameless(installation), {
    activity: [boundary],
  });
  const controllers = startControllers({
    ...{ control, target, dialect: fleet.name, namespace, defaults, logger },
    installation: { client: temporal, name: namespace },
    sweepPeriodSeconds: 0,
    interruptionPeriodSeconds: 0,
    leading: Promise.resolve(),
    resyncMs: 1_000,
  });

  const spec = {
    provider: 'nameless',
    secretName: 'pool',
    providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags: { cluster: namespace } },
  };
  return {
    ...installation,
    /** What the VMs of its Machines are made from. */
    spec,
    async createFleetMachine(name: string): Promise<ObjectRef> {
      const { metadata } = await control.create(fleetMachines, { metadata: { namespace, name }, spec });
      return { dialect: fleet.name, namespace, name, uid: metadata.uid };
    },
    async stop() {
      await controllers.stop();
      await stopProvider();
      await workers.stop();
      await connection.close();
      await installation.stop();
    },
  };
}

/** The simulated cloud's provider, which does not know the names of Nodes. */
function nameless({ control }: Awaited<ReturnType<typeof startInstallation>>) {
  const provider = createSimulatedProvider({
    async readSecret(ref) {
      const { data = {} } = (await control.find(secrets, ref)) ?? {};
      return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64')]));
    },
  });
  return createVmActivities({
    ...provider,
    async ensureVm(request, call) {
      const { nodeName: _, ...vm } = await provider.ensureVm(request, call);
      return vm;
    },
  });
}
