/** An installation whose every request to the API server is seen, with a resync of the controllers every second. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { startControllersHere } from './controllers.ts';
import { fromSetup, type InstallationOptions, startInstallation } from './installation.ts';
import { startMillwright } from './millwright.ts';

export type WatchedInstallation = Awaited<ReturnType<typeof startWatchedInstallation>>;

interface WatchedOptions extends Omit<InstallationOptions, 'isStopped' | 'flags'> {
  /** Time between two resyncs of the controllers, ms. Default: 1 s. */
  readonly resyncMs?: number;
  /** Flags of the workers. */
  readonly workerFlags?: readonly string[];
}

/** Workers in a process, controllers in this one; both reach the API server through `proxy` alone. */
export async function startWatchedInstallation({
  resyncMs = 1_000,
  workerFlags = [],
  ...options
}: WatchedOptions = {}) {
  const installation = await startInstallation({ ...options, isStopped: true });
  const proxy: FaultProxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
  const dir = await mkdtemp(join(tmpdir(), 'millwright-proxy-'));
  const kubeconfig = join(dir, 'kubeconfig');
  await proxy.writeKubeconfig(kubeconfig);
  const { namespace, processes } = installation;

  async function startWorkers(): Promise<void> {
    processes.push(await startMillwright({ namespace, kubeconfig, command: 'worker', flags: workerFlags }));
  }
  async function stopWorkers(): Promise<void> {
    await Promise.all(processes.splice(0).map((each) => each.stop()));
  }

  let stopThem: (() => Promise<void>) | undefined;

  function startControllers(): void {
    stopThem = startControllersHere(installation, proxy.access, resyncMs);
  }
  async function stopControllers(): Promise<void> {
    await stopThem?.();
    stopThem = undefined;
  }

  await startWorkers();
  startControllers();
  return {
    ...installation,
    proxy,
    startControllers,
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
