/** Starts the Azure cloud and calls its admin API: for tests, the demo and development. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ComputeManagementClient, type Disk, type VirtualMachine } from '@azure/arm-compute';
import { type NetworkInterface, NetworkManagementClient, type PublicIPAddress } from '@azure/arm-network';
import type { TokenCredential } from '@azure/core-auth';
import type { z } from 'zod';
import { callAdmin, toFlags } from '../admin-api.ts';
import type { ActiveFault } from '../faults.ts';
import { freePort } from '../ports.ts';
import { startServer } from '../process.ts';
import { findArm } from './arm.ts';
import type { Fault } from './faults.ts';
import type { Seeds } from './seeds.ts';
import type { CallRecord } from './server.ts';

/** How to start an Azure cloud. Left out: what the process takes by itself (main.ts). */
export interface AzureCloudOptions {
  /** Folder of its log and its certificate. */
  readonly dir: string;
  /** Kubeconfig of the cluster that Nodes join. Without one there are VMs and no Nodes. */
  readonly kubeconfig?: string | undefined;
  /** Default: a free one. */
  readonly port?: number;
  readonly tenantId?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** How long a token is valid. Default: an hour. */
  readonly tokenMs?: number;
  /** From the creation of a VM to `Succeeded`. Default 1000. */
  readonly bootMs?: number;
  /** From `Succeeded` to the registration of the Node. Default 1000. */
  readonly joinMs?: number;
  /** From the deletion of a VM to its end. Default 500. */
  readonly deleteMs?: number;
  /** How long every other operation takes. Default 100. */
  readonly changeMs?: number;
  /** How long a NIC is kept for its VM when the creation of that has failed. Default 180 000. */
  readonly nicReservationMs?: number;
  /** How long clients are asked to wait between two looks at an operation. Default 1. */
  readonly retryAfterSeconds?: number;
  /** Resources in a page of a list. Default 50. */
  readonly pageSize?: number;
  /** Default 10 000, as a kubelet. */
  readonly leaseRenewMs?: number;
  /** Default 300 000, as a kubelet. */
  readonly statusUpdateMs?: number;
  /** The longest a pod takes to end. Default 30 000. */
  readonly maxGraceMs?: number;
}

interface Clients {
  readonly compute: ComputeManagementClient;
  readonly network: NetworkManagementClient;
}

/** A running Azure cloud. Everything in it ends with its process. */
export interface AzureCloud {
  /** Endpoint of Azure Resource Manager, and authority host of Entra ID, with TLS. */
  readonly url: string;
  /** Admin API and metadata service, without TLS. */
  readonly adminUrl: string;
  readonly pid: number;
  /** Standard error of the processes. */
  readonly logFile: string;
  /** What is there from the start. */
  readonly seeds: Seeds;
  /** File with the certificate that a client has to trust, PEM. */
  readonly caFile: string;
  /** Keys of the Secret of a class. */
  readonly credentials: Readonly<Record<'clientID' | 'clientSecret' | 'subscriptionID' | 'tenantID', string>>;
  /** What a process needs in its environment to reach the cloud. */
  readonly env: Readonly<Record<string, string>>;
  /** Clients that meet no faults, see everything and leave no record. */
  readonly direct: Clients;
  /** A valid `providerSpec` of a class, with these fields instead of its own. */
  providerSpec(overrides?: object): ReturnType<typeof providerSpecOf>;
  /** Replaces the faults that are on; none ends them all, and lets go what hangs. */
  setFaults(...faults: z.input<typeof Fault>[]): Promise<void>;
  faults(): Promise<readonly ActiveFault<Fault>[]>;
  /** Every request to the cloud so far. */
  calls(): Promise<CallRecord[]>;
  vms(): Promise<VirtualMachine[]>;
  disks(): Promise<Disk[]>;
  interfaces(): Promise<NetworkInterface[]>;
  addresses(): Promise<PublicIPAddress[]>;
  /** Makes a VM with its NIC and disk as the provider would, but with these tags alone, and waits until it runs. */
  makeVm(name: string, tags?: Readonly<Record<string, string>>): Promise<VirtualMachine>;
  /** Takes away everything that was made, at once. */
  reset(): Promise<void>;
  /** SIGKILL to the process. */
  kill(): Promise<void>;
  /** SIGTERM to the process. */
  stop(): Promise<void>;
}

/** Starts the process, which ends with this one however that dies, and resolves when it serves. */
export async function startAzureCloud(options: AzureCloudOptions): Promise<AzureCloud> {
  const { dir, port = await freePort() } = options;
  const adminPort = await freePort();
  await mkdir(dir, { recursive: true });
  await findArm(); // may take longer than a server may to start
  const url = `https://127.0.0.1:${port}`;
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  const server = await startServer(
    {
      name: 'Azure cloud',
      executable: process.execPath,
      args: [fileURLToPath(new URL('main.ts', import.meta.url)), ...flagsOf({ ...options, port }, adminPort)],
      logFile: join(dir, 'log'),
      ready: async () => (await callAdmin(adminUrl, 'GET', '/seeds')) !== undefined,
    },
    new AbortController().signal,
  );
  const seeds = await callAdmin<Seeds>(adminUrl, 'GET', '/seeds');
  const caFile = join(dir, 'ca.pem');
  await writeFile(caFile, seeds.ca);
  const { subscriptionId, resourceGroup } = seeds;
  const client = { endpoint: `${url}/direct`, tlsOptions: { ca: seeds.ca }, retryOptions: { maxRetries: 0 } };
  const direct = {
    compute: new ComputeManagementClient(anybody, subscriptionId, client),
    network: new NetworkManagementClient(anybody, subscriptionId, client),
  };
  return {
    url,
    adminUrl,
    pid: server.pid,
    logFile: server.logFile,
    seeds,
    caFile,
    credentials: {
      clientID: seeds.clientId,
      clientSecret: seeds.clientSecret,
      subscriptionID: subscriptionId,
      tenantID: seeds.tenantId,
    },
    env: {
      NODE_EXTRA_CA_CERTS: caFile,
      AZURE_RESOURCE_MANAGER_ENDPOINT: url,
      AZURE_AUTHORITY_HOST: url,
      AZURE_POD_IDENTITY_AUTHORITY_HOST: adminUrl,
    },
    direct,
    providerSpec: (overrides = {}) => ({ ...providerSpecOf(seeds), ...overrides }),
    setFaults: async (...faults) => void (await callAdmin(adminUrl, 'PUT', '/faults', { faults })),
    faults: async () => (await callAdmin<{ faults: ActiveFault<Fault>[] }>(adminUrl, 'GET', '/faults')).faults,
    calls: () => callAdmin(adminUrl, 'GET', '/calls'),
    vms: () => all(direct.compute.virtualMachines.list(resourceGroup)),
    disks: () => all(direct.compute.disks.listByResourceGroup(resourceGroup)),
    interfaces: () => all(direct.network.networkInterfaces.list(resourceGroup)),
    addresses: () => all(direct.network.publicIPAddresses.list(resourceGroup)),
    makeVm: (name, tags = {}) => makeVm(direct, seeds, name, tags),
    reset: async () => void (await callAdmin(adminUrl, 'POST', '/reset')),
    kill: () => server.kill('SIGKILL'),
    stop: () => server.kill(),
  };
}

/** Direct access asks for no credentials; the SDK has to have some. */
const anybody: TokenCredential = {
  getToken: async () => ({ token: 'anybody', expiresOnTimestamp: Date.now() + 3_600_000 }),
};

async function all<T>(pages: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of pages) items.push(item);
  return items;
}

async function makeVm(
  { compute, network }: Clients,
  seeds: Seeds,
  name: string,
  given: Readonly<Record<string, string>>,
) {
  const { subscriptionId, resourceGroup, location, vnetName, subnetName } = seeds;
  const networks = `/subscriptions/${subscriptionId}/resourceGroups/${resourceGroup}/providers/Microsoft.Network`;
  const subnet = { id: `${networks}/virtualNetworks/${vnetName}/subnets/${subnetName}` };
  const common = { location, tags: { ...given } };
  const settings = { updateIntervalInMs: 50 };
  const nic = await network.networkInterfaces.createOrUpdate(
    resourceGroup,
    `${name}-nic`,
    { ...common, ipConfigurations: [{ name: 'ipconfig', subnet }] },
    settings,
  );
  const [publisher = '', offer = '', sku = '', version = ''] = image.split(':');
  return compute.virtualMachines.createOrUpdate(
    resourceGroup,
    name,
    {
      ...common,
      hardwareProfile: { vmSize },
      storageProfile: {
        imageReference: { publisher, offer, sku, version },
        osDisk: { name: `${name}-os-disk`, createOption: 'FromImage', deleteOption: 'Delete' },
      },
      osProfile: { computerName: name, adminUsername: 'core', adminPassword: 'of a VM that nobody logs in to' },
      networkProfile: { networkInterfaces: [{ id: nic.id ?? '', deleteOption: 'Delete' }] },
    },
    settings,
  );
}

const vmSize = 'Standard_D2s_v5';
const image = 'Canonical:ubuntu-24_04-lts:server:24.04.202501010';

function providerSpecOf({ location, resourceGroup, vnetName, subnetName }: Seeds) {
  return {
    location,
    resourceGroup,
    subnetInfo: { vnetName, subnetName },
    tags: { 'kubernetes.io-cluster-local': '1', 'kubernetes.io-role-node': '1' },
    properties: {
      hardwareProfile: { vmSize },
      storageProfile: {
        imageReference: { urn: image },
        osDisk: {
          caching: 'None',
          createOption: 'FromImage',
          diskSizeGB: 50,
          managedDisk: { storageAccountType: 'StandardSSD_LRS' },
        },
      },
      osProfile: {
        adminUsername: 'core',
        linuxConfiguration: { disablePasswordAuthentication: true },
      },
      zone: 1,
    },
  };
}

function flagsOf(options: AzureCloudOptions, adminPort: number): string[] {
  return toFlags({
    kubeconfig: options.kubeconfig,
    port: options.port,
    'admin-port': adminPort,
    'tenant-id': options.tenantId,
    'client-id': options.clientId,
    'client-secret': options.clientSecret,
    'token-ms': options.tokenMs,
    'boot-ms': options.bootMs,
    'join-ms': options.joinMs,
    'delete-ms': options.deleteMs,
    'change-ms': options.changeMs,
    'nic-reservation-ms': options.nicReservationMs,
    'retry-after-seconds': options.retryAfterSeconds,
    'page-size': options.pageSize,
    'lease-renew-ms': options.leaseRenewMs,
    'status-update-ms': options.statusUpdateMs,
    'max-grace-ms': options.maxGraceMs,
  });
}
