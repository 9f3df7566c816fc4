/**
 * machine-controller-manager (MCM) itself on the simulated cloud: test/mcm/controllers, which is built with Go once.
 */
import { fileURLToPath } from 'node:url';
import { leases as leaseNames } from '../../api/gardener/names.ts';
import { freePort } from '../../deploy/local/ports.ts';
import { findOwnProgram } from '../../deploy/local/servers.ts';
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { leases } from '../../kube/core.ts';
import { type Process, startProcess } from './millwright.ts';
import { until } from './until.ts';

const module = fileURLToPath(new URL('../mcm/', import.meta.url));

/** The path of the program. Builds it at the first call on a machine. */
export function findMcm(): Promise<string> {
  return findOwnProgram({ name: 'machine-controller-manager', module, folder: 'controllers', minutes: 2 });
}

interface McmOptions {
  readonly namespace: string;
  /** Of both clusters. */
  readonly kubeconfig: string;
  /** Flags by the name of the process, beside those that say where everything is. */
  readonly flags: Readonly<Record<keyof typeof leaseNames, readonly string[]>>;
}

/** The two processes of MCM. */
export interface McmProcesses {
  /** Ends them as a kubelet does, and resolves when they have exited. They leave their Leases. */
  stop(): Promise<void>;
  logs(): string;
}

/** Starts both processes of MCM, and resolves when they lead. */
export async function startMcm({ namespace, kubeconfig, flags }: McmOptions): Promise<McmProcesses> {
  const program = await findMcm();
  const start = async (name: keyof typeof leaseNames): Promise<Process> => {
    const where = ['--namespace', namespace, '--control-kubeconfig', kubeconfig, '--target-kubeconfig', kubeconfig];
    const served = ['--address', '127.0.0.1', '--port', String(await freePort())];
    return startProcess([leaseNames[name], ...where, ...served, ...flags[name]], {}, [program]);
  };
  const processes = [await start('machineControllerManager'), await start('machineController')];
  let hasExited = false;
  for (const { exited } of processes) void exited.then(() => (hasExited = true));
  const logs = () => processes.map((each) => each.logs()).join('\n');
  const stop = async () => {
    await Promise.all(processes.map((each) => each.kill('SIGTERM')));
  };
  const client = createKubeClient({
    access: loadKubeconfig(kubeconfig),
    userAgent: 'millwright-test',
    qps: 50,
    burst: 100,
  });
  const since = new Date().toISOString();
  try {
    await until('MCM leads', async (see) => {
      if (hasExited) return true;
      const keys = Object.values(leaseNames).map((name) => ({ namespace, name }));
      const specs = see(await Promise.all(keys.map(async (key) => (await client.get(leases, key)).spec)));
      return specs.every((spec) => !spec?.holderIdentity?.endsWith('_millwright') && (spec?.renewTime ?? '') > since);
    });
    if (hasExited) throw new Error(`MCM has exited:\n${logs().slice(-3_000)}`);
  } catch (error) {
    await stop();
    throw error;
  } finally {
    await client.close();
  }
  return { stop, logs };
}
