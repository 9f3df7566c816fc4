/** An installation whose every request to the API server is seen, with controllers that look again every second or so. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Controllers, startControllers } from '../../controllers/main.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import type { Logger } from '../../kube/logger.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { fromSetup, type InstallationOptions, startInstallation } from './installation.ts';
import { startMillwright } from './millwright.ts';

const silent = () => undefined;
const noLogger: Logger = { debug: silent, info: silent, warn: silent, error: silent };

export type WatchedInstallation = Awaited<ReturnType<typeof startWatchedInstallation>>;

interface WatchedOptions extends Omit<InstallationOptions, 'isStopped' | 'flags'> {
  /** How often controllers look again without an event, ms. Default: 1 s. */
  readonly resyncMs?: number;
}

/** Workers in a process, controllers in this one; both reach the API server through `proxy` alone. */
export async function startWatchedInstallation({ resyncMs = 1_000, ...options }: WatchedOptions = {}) {
  const installation = await startInstallation({ ...options, isStopped: true });
  const proxy: FaultProxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
  const dir = await mkdtemp(join(tmpdir(), 'millwright-proxy-'));
  const kubeconfig = join(dir, 'kubeconfig');
  await proxy.writeKubeconfig(kubeconfig);
  const { namespace, temporal } = installation;
  const { processes } = installation;

  async function startWorkers(): Promise<void> {
    processes.push(await startMillwright({ namespace, kubeconfig, command: 'worker' }));
  }
  async function stopWorkers(): Promise<void> {
    await Promise.all(processes.splice(0).map((each) => each.stop()));
  }

  let running: { client: KubeClient; controllers: Controllers } | undefined;

  async function stopControllers(): Promise<void> {
    await running?.controllers.stop();
    await running?.client.close();
    running = undefined;
  }

  function startThem(): void {
    const client = createKubeClient({ access: proxy.access, userAgent: 'millwright-test', qps: 500, burst: 1000 });
    const controllers = startControllers({
      control: client,
      target: client,
      installation: { client: temporal, name: namespace },
      namespace,
      defaults: { creationSeconds: 1200, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] },
      sweepPeriodSeconds: 0,
      leading: Promise.resolve(),
      logger: noLogger,
      resyncMs,
    });
    running = { client, controllers };
  }

  await startWorkers();
  startThem();
  return {
    ...installation,
    proxy,
    startControllers: startThem,
    stopControllers,
    startWorkers,
    stopWorkers,
    async stop(): Promise<void> {
      await stopControllers();
      await installation.stop();
      await proxy.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
