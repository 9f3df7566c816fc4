/** Starts an OpenStack cloud and calls its admin API: for tests, the demo and development. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { z } from 'zod';
import type { OpenstackDocument } from '../../../activities/providers/openstack/schema.ts';
import { callAdmin, toFlags } from '../admin-api.ts';
import type { ActiveFault } from '../faults.ts';
import { freePort } from '../ports.ts';
import { startServer } from '../process.ts';
import { type Api, logIn } from './api.ts';
import { pageSize, urlOf } from './config.ts';
import type { Fault } from './faults.ts';
import type { CallRecord } from './front.ts';
import type { Seeds } from './seeds.ts';
import type { OpenstackAddress } from './services.ts';
import { leaseOpenstack } from './shared.ts';

/** How to start an OpenStack cloud. Left out: what the process takes by itself (main.ts). */
export interface OpenstackCloudOptions {
  /** Folder of its log. */
  readonly dir: string;
  /** Kubeconfig of the cluster that Nodes join. Without one there are servers and no Nodes. */
  readonly kubeconfig?: string | undefined;
  /** Default: a free one. */
  readonly port?: number;
  /** From `ACTIVE` to the registration of the Node. Default 1000. */
  readonly joinMs?: number;
  /** Default 10 000, as a kubelet. */
  readonly leaseRenewMs?: number;
  /** Default 300 000, as a kubelet. */
  readonly statusUpdateMs?: number;
  /** The longest a pod takes to end. Default 30 000. */
  readonly maxGraceMs?: number;
}

type ProviderSpec = z.input<typeof OpenstackDocument>;

/** A server as nova shows it. */
export interface Server {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly tags: readonly string[];
  readonly key_name: string | null;
  readonly config_drive: string;
  readonly 'OS-EXT-AZ:availability_zone': string;
  readonly fault?: { readonly code: number; readonly message: string };
}

/** A port as neutron shows it. */
export interface Port {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly network_id: string;
  readonly device_id: string;
  readonly tags: readonly string[];
  readonly fixed_ips: readonly { readonly subnet_id: string; readonly ip_address: string }[];
  readonly security_groups: readonly string[];
  readonly allowed_address_pairs: readonly { readonly ip_address: string }[];
}

/** A volume as cinder shows it. */
export interface Volume {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly size: number;
  readonly volume_type: string;
  readonly bootable: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** A project of its own in an OpenStack, which it may share with other clouds. */
export interface OpenstackCloud {
  /** The front; keystone is at `/identity/v3`. */
  readonly url: string;
  /** What `authURL` of a Secret is. */
  readonly authUrl: string;
  readonly pid: number;
  /** Standard error of the process. */
  readonly logFile: string;
  /** Where the OpenStack itself is. */
  readonly openstack: OpenstackAddress;
  /** What is there from the start. */
  readonly seeds: Seeds;
  /** Keys of a Secret with the application credential. */
  readonly credentials: Readonly<Record<string, string>>;
  /** Keys of a Secret with user name and password. */
  readonly passwordCredentials: Readonly<Record<string, string>>;
  /** Asks OpenStack as the user of the project, past the front: no faults, no record. */
  readonly direct: Api;
  /** A valid `providerSpec` of a class, with these fields of its `spec` instead of its own. */
  providerSpec(overrides?: Partial<ProviderSpec['spec']>): ProviderSpec;
  /** Replaces the faults that are on; none ends them all, and lets go what hangs. */
  setFaults(...faults: z.input<typeof Fault>[]): Promise<void>;
  faults(): Promise<readonly ActiveFault<Fault>[]>;
  /** Every request to the cloud's API so far. */
  calls(): Promise<CallRecord[]>;
  /** Without those that are deleted, which nova shows for a moment before it forgets them. */
  servers(): Promise<Server[]>;
  ports(): Promise<Port[]>;
  volumes(): Promise<Volume[]>;
  /** SIGKILL to the front. */
  kill(): Promise<void>;
  /** SIGTERM to the front. The OpenStack ends with the last of its clouds, or with the test run. */
  stop(): Promise<void>;
}

/** Starts the process, which ends with this one however that dies, and resolves when it serves. */
export async function startOpenstackCloud(options: OpenstackCloudOptions): Promise<OpenstackCloud> {
  const { dir, port = await freePort() } = options;
  await mkdir(dir, { recursive: true });
  const lease = await leaseOpenstack();
  const url = urlOf(port);
  const server = await startServer(
    {
      name: 'OpenStack cloud',
      executable: process.execPath,
      args: [fileURLToPath(new URL('main.ts', import.meta.url)), ...flagsOf({ ...options, port }, lease.address)],
      logFile: join(dir, 'log'),
      ready: async () => (await callAdmin(url, 'GET', '/seeds')) !== undefined,
      readyWithinMs: 300_000, // it makes a project, and others may use the OpenStack meanwhile
    },
    new AbortController().signal,
  ).catch(async (error: unknown) => {
    await lease.release();
    throw error;
  });
  const seeds = await callAdmin<Seeds>(url, 'GET', '/seeds');
  const { ports } = lease.address;
  const { username, password, projectName, projectId } = seeds;
  const direct = await logIn({ identityUrl: urlOf(ports.keystone), username, password, project: projectName });
  const [nova, neutron, cinder] = [urlOf(ports.nova), urlOf(ports.neutron), urlOf(ports.cinder)];
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    await server.kill(signal);
    await lease.release();
  };
  const authUrl = `${url}/identity/v3`;

  /** All pages of a list. */
  async function all<T>(first: string, key: string, headers = {}): Promise<T[]> {
    const found: T[] = [];
    for (let page: string | undefined = first; page !== undefined; ) {
      const answer: Record<string, unknown> = await direct.call('GET', page, undefined, headers);
      found.push(...(answer[key] as T[]));
      const links = (answer[`${key}_links`] ?? []) as { rel: string; href: string }[];
      page = links.find(({ rel }) => rel === 'next')?.href;
    }
    return found;
  }

  return {
    ...{ url, authUrl, pid: server.pid, logFile: server.logFile, openstack: lease.address, seeds, direct },
    credentials: {
      ...{ authURL: authUrl, domainName: seeds.domainName, tenantName: projectName },
      applicationCredentialID: seeds.applicationCredentialId,
      applicationCredentialName: seeds.applicationCredentialName,
      applicationCredentialSecret: seeds.applicationCredentialSecret,
    },
    passwordCredentials: {
      ...{ authURL: authUrl, domainName: seeds.domainName, tenantName: projectName, username, password },
    },
    providerSpec: (overrides = {}) => ({
      ...{ apiVersion: 'openstack.machine.gardener.cloud/v1alpha1', kind: 'MachineProviderConfig' },
      spec: { ...specOf(seeds), ...overrides },
    }),
    setFaults: async (...faults) => void (await callAdmin(url, 'PUT', '/faults', { faults })),
    faults: async () => (await callAdmin<{ faults: ActiveFault<Fault>[] }>(url, 'GET', '/faults')).faults,
    calls: () => callAdmin(url, 'GET', '/calls'),
    async servers() {
      const microversion = { 'openstack-api-version': 'compute 2.90' };
      const servers = await all<Server>(`${nova}/v2.1/servers/detail`, 'servers', microversion);
      return servers.filter(({ status }) => status !== 'DELETED');
    },
    ports: () => all(`${neutron}/v2.0/ports?limit=${pageSize}`, 'ports'),
    volumes: () => all(`${cinder}/v3/${projectId}/volumes/detail`, 'volumes'),
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
  };
}

function specOf(seeds: Seeds): ProviderSpec['spec'] {
  return {
    region: seeds.region,
    availabilityZone: seeds.zone,
    imageID: seeds.imageId,
    flavorName: seeds.flavorName,
    keyName: seeds.keyName,
    securityGroups: [seeds.securityGroup],
    networkID: seeds.networkId,
    subnetIDs: [...seeds.subnetIds],
    podNetworkCIDRs: ['10.96.0.0/11', '10.128.0.0/11'],
    rootDiskSize: 20,
    tags: { 'kubernetes.io-cluster-local': '1', 'kubernetes.io-role-node': '1' },
  };
}

function flagsOf(options: OpenstackCloudOptions, address: OpenstackAddress): string[] {
  return toFlags({
    openstack: JSON.stringify(address),
    kubeconfig: options.kubeconfig,
    port: options.port,
    'join-ms': options.joinMs,
    'lease-renew-ms': options.leaseRenewMs,
    'status-update-ms': options.statusUpdateMs,
    'max-grace-ms': options.maxGraceMs,
  });
}
