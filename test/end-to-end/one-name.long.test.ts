import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { NativeConnection } from '@temporalio/worker';
import { workflowId } from '../../api/workflow-id.ts';
import type { KubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces } from '../../kube/core.ts';
import { type Workers } from '../../temporal/pausable-workers.ts';
import { startSweep } from '../../temporal/schedules.ts';
import { startWorkers } from '../../temporal/worker.ts';
import { connectWorkers } from '../../temporal/worker-connection.ts';
import { startWorkflow } from '../../temporal/workflows.ts';
import { progressQuery } from '../../workflows/orphansweep/messages.ts';
import { startControllersHere } from '../support/controllers.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { recordingLogger, testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

/** Each passed its check at the start: both started at the same moment. */
describe('two clusters that serve one installation at the same time', () => {
  let one: Installation;
  let connection: NativeConnection;
  let control: KubeClient;
  let own: string;
  const started: Workers[] = [];

  beforeAll(async () => {
    one = await startInstallation({ alone: 'its process is killed' });
    const address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
    connection = await connectWorkers({ address, namespace: 'default', tls: false }, recordingLogger());
    control = testClient(loadKubeconfig(fromSetup('MILLWRIGHT_TEST_KUBECONFIG_2')));
    own = await uidOf(one.control);
  });
  afterAll(async () => {
    await Promise.all(started.map((each) => each.stop()));
    await one?.stop();
    await control?.close();
    await connection?.close();
  });

  const uidOf = async (cluster: KubeClient) => (await cluster.get(namespaces, { name: one.namespace })).metadata.uid;

  /** Workers in this process, which nobody has kept from starting. */
  async function startWorkersOf(cluster: KubeClient, clusterId: string): Promise<Workers> {
    const workers = await startWorkers({
      ...{
        connection,
        namespace: 'default',
        installation: one.namespace,
        clusterId,
        control: cluster,
        machineNamespace: one.namespace,
        target: cluster,
      },
      defaults: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] },
      ...{ mostReplacing: { count: 1 }, outagePercent: 55 },
      volumes: { detachMs: 1_000, reattachMs: 1_000, isSerial: false },
      drainStuckAfterMs: 600_000,
      ...{ maxCachedWorkflows: 2_000, bootstrapTokenExtraGroups: '', providers: ['simulated'] },
      sweep: {
        ...{ confirmAfterSeconds: 1, minimumAgeSeconds: 1 },
        ...{ brakeCount: 3, brakeRate: 10, approvalSeconds: 86_400 },
      },
      onFailedRun: () => undefined,
      refusal: () => undefined,
      logger: recordingLogger(),
    });
    started.push(workers);
    return workers;
  }

  it('[invariant 1] ends a process of one, and ends no workflow, loses no VM and makes none twice', async () => {
    const { namespace, temporal, cloud, processes } = one;
    const to = { client: temporal, name: namespace, cluster: own };
    const refs = [await one.createMachine(`first-${namespace}`)];
    await one.untilMachines(1, 'Running');
    await control.create(namespaces, { metadata: { name: namespace } });
    const others = await startWorkersOf(control, await uidOf(control));
    for (const name of ['second', 'third', 'fourth']) refs.push(await one.createMachine(`${name}-${namespace}`));

    const [process] = processes;
    const exit = await process?.exited;
    expect(exit).toEqual({ code: 1, signal: null });
    expect(process?.logs()).toMatch(
      /installation '.*' .* is served by another cluster: process '.*' with namespace UID .* was seen/,
    );

    const late = await one.createMachine(`late-${namespace}`);
    refs.push(late);
    await startWorkflow(to, 'Machine', late);
    const sweepId = await startSweep(to, { dialect: 'gardener', namespace, dryRun: false }, 'person');
    const said = expect.stringMatching(
      /this worker serves the cluster with namespace UID .*, but the call is for UID .* --installation/,
    );
    const waiting = await until('the machine waits', async (see) => {
      const described = see(await one.describe(late));
      return described.lastError && described;
    });
    expect(waiting).toMatchObject({ lastError: { code: 'Unavailable', message: said }, blockedOn: 'KubernetesApi' });
    const waitingSweep = await until('the sweep waits', async (see) => {
      const progress = see(await temporal.workflow.getHandle(sweepId).query(progressQuery));
      return progress.lastError;
    });
    expect(waitingSweep).toMatchObject({ code: 'Unavailable', message: said });
    await others.stop();
    for (const ref of refs) {
      const { status } = await temporal.workflow.getHandle(workflowId(namespace, 'Machine', ref)).describe();
      expect([ref.name, status.name]).toEqual([ref.name, 'RUNNING']);
    }

    const workers = await startWorkersOf(one.control, own);
    const stopControllers = startControllersHere(one, loadKubeconfig(testKubeconfig()), 1_000);
    await one.untilMachines(refs.length, 'Running');
    const swept = await temporal.workflow.getHandle(sweepId).result();
    await stopControllers();
    await workers.stop();

    expect(swept).toMatchObject({ groups: [{ deleted: { count: 0 } }] });
    expect(await cloud.stats()).toMatchObject({ vmsEver: refs.length, vmsNow: refs.length, deletes: 0 });
  }, 400_000);
});
