/** Starts the simulated cloud and calls its admin API: for tests, the demo and development. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { z } from 'zod';
import type { PartKind } from '../../../activities/providers/simulated/schema.ts';
import { callAdmin, toFlags } from '../admin-api.ts';
import type { ActiveFault } from '../faults.ts';
import { freePort } from '../ports.ts';
import { startServer } from '../process.ts';
import type { toAnswer } from './api.ts';
import type { Fault } from './faults.ts';
import type { CallRecord, Stats, StoredVm } from './state.ts';

/** How to start a simulated cloud. Left out: what the process takes by itself (main.ts). */
export interface SimulatedCloudOptions {
  /** Folder of its state, which stays; a cloud started on it again continues with its VMs, calls and faults. */
  readonly dir: string;
  /** Kubeconfig of the cluster that Nodes join. Without one there are VMs and no Nodes. */
  readonly kubeconfig?: string | undefined;
  /** Default: a free one. */
  readonly port?: number;
  /** Bearer tokens that it accepts. Default: `letmein`. */
  readonly tokens?: readonly string[];
  /** From the create call to `running`. Default 1000. */
  readonly bootMs?: number;
  /** From `running` to the registration of the Node. Default 1000. */
  readonly joinMs?: number;
  /** From the delete call to the VM's end. Default 500. */
  readonly deleteMs?: number;
  /** Default 10 000, as a kubelet. */
  readonly leaseRenewMs?: number;
  /** Default 300 000, as a kubelet. */
  readonly statusUpdateMs?: number;
  /** The longest a pod takes to end. Default 30 000. */
  readonly maxGraceMs?: number;
  /** What the name of a Node has before that of its VM. Default: nothing. */
  readonly nodePrefix?: string;
}

/** A VM as the admin API shows it: everything that is known, its user data too. */
export type SimulatedVm = Omit<StoredVm, 'createdAt'> & ReturnType<typeof toAnswer> & { readonly alive: boolean };

/** Anything that exists in the cloud: a VM, disk, NIC or address. */
export interface SimulatedResource {
  readonly id: string;
  readonly kind: 'vm' | PartKind;
  readonly tags: Readonly<Record<string, string>>;
  /** Of a disk, NIC or address: id of the VM that has it. */
  readonly vm?: string;
}

/** A running simulated cloud, by its admin API. */
export interface CloudAdmin {
  readonly url: string;
  /** Replaces the faults that are on; none ends them all, and lets go what hangs. */
  setFaults(...faults: z.input<typeof Fault>[]): Promise<void>;
  faults(): Promise<readonly ActiveFault<Fault>[]>;
  stats(): Promise<Stats>;
  /** VMs oldest first; with `all` those that are gone, too. */
  vms(options?: { all: boolean }): Promise<SimulatedVm[]>;
  /** All VMs, disks, NICs and addresses that exist, whatever their tags. */
  resources(): Promise<SimulatedResource[]>;
  /** Every request to the cloud's API so far. */
  calls(): Promise<CallRecord[]>;
  /** The VM goes on as `running` while its kubelet falls silent. */
  killVm(id: string): Promise<void>;
  /** Says that the VM will be taken away, and takes it so many ms later. */
  interruptVm(id: string, afterMs: number): Promise<void>;
  /** Boots the VM again: its kubelet reports again, and registers its Node if that is gone or has never joined. */
  restartVm(id: string): Promise<void>;
  /** Takes everything away that exists, at once. */
  reset(): Promise<void>;
}

/** A process with a simulated cloud. */
export interface SimulatedCloud extends CloudAdmin {
  /** Changes with `restart`. */
  readonly pid: number;
  /** Standard error of the process. */
  readonly logFile: string;
  /** SIGKILL to the process. Its state stays. */
  kill(): Promise<void>;
  /** Starts the process again on the same port and state. */
  restart(): Promise<void>;
  /** SIGTERM to the process. */
  stop(): Promise<void>;
}

/** Starts the process, which ends with this one however that dies, and resolves when it serves. */
export async function startSimulatedCloud(options: SimulatedCloudOptions): Promise<SimulatedCloud> {
  const { dir, port = await freePort() } = options;
  await mkdir(dir, { recursive: true });
  const url = `http://127.0.0.1:${port}`;
  const server = await startServer(
    {
      name: 'simulated cloud',
      executable: process.execPath,
      args: [fileURLToPath(new URL('main.ts', import.meta.url)), ...flagsOf({ ...options, port })],
      logFile: join(dir, 'log'),
      ready: async () => (await callAdmin(url, 'GET', '/stats')) !== undefined,
    },
    new AbortController().signal,
  );
  return {
    ...adminOf(url),
    get pid() {
      return server.pid;
    },
    logFile: server.logFile,
    kill: () => server.kill('SIGKILL'),
    restart: () => server.restart(),
    stop: () => server.kill(),
  };
}

/** The admin API of the cloud at a URL. */
export function adminOf(url: string): CloudAdmin {
  return {
    url,
    setFaults: async (...faults) => void (await callAdmin(url, 'PUT', '/faults', { faults })),
    faults: async () => (await callAdmin<{ faults: ActiveFault<Fault>[] }>(url, 'GET', '/faults')).faults,
    stats: () => callAdmin(url, 'GET', '/stats'),
    vms: ({ all } = { all: false }) => callAdmin(url, 'GET', `/vms?all=${all}`),
    resources: () => callAdmin(url, 'GET', '/resources'),
    calls: () => callAdmin(url, 'GET', '/calls'),
    killVm: async (id) => void (await callAdmin(url, 'POST', `/vms/${id}/kill`)),
    interruptVm: async (id, afterMs) => void (await callAdmin(url, 'POST', `/vms/${id}/interrupt`, { afterMs })),
    restartVm: async (id) => void (await callAdmin(url, 'POST', `/vms/${id}/restart`)),
    reset: async () => void (await callAdmin(url, 'POST', '/reset')),
  };
}

/** The command line of a cloud's process. */
export function flagsOf(options: SimulatedCloudOptions): string[] {
  const flags = {
    data: options.dir,
    kubeconfig: options.kubeconfig,
    port: options.port,
    'boot-ms': options.bootMs,
    'join-ms': options.joinMs,
    'delete-ms': options.deleteMs,
    'lease-renew-ms': options.leaseRenewMs,
    'status-update-ms': options.statusUpdateMs,
    'max-grace-ms': options.maxGraceMs,
    'node-prefix': options.nodePrefix,
  };
  return [...toFlags(flags), ...(options.tokens ?? []).map((token) => `--token=${token}`)];
}
