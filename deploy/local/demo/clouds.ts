/** The clouds that the demo runs on. One that is not started loads nothing: the SDKs of clouds are large. */
import { join } from 'node:path';
import { withDatabase } from '../openstack-cloud/database.ts';
import { startSimulatedCloud } from '../simulated-cloud/admin.ts';

/** A cloud that runs, with its provider and an example for it. */
export interface DemoCloud {
  /** Of its admin API. */
  readonly url: string;
  readonly provider: string;
  /** Its provider IDs begin so. */
  readonly scheme: string;
  /** File in deploy/examples. */
  readonly example: string;
  /** Texts of the example, and what stands in their places for this cloud. */
  readonly changes: Readonly<Record<string, string>>;
  /** What Millwright needs in its environment to reach it. */
  readonly env?: Readonly<Record<string, string>>;
  faults(): Promise<readonly unknown[]>;
  stats(): Promise<{ readonly vmsNow: number; readonly vmsEver: number }>;
  stop(): Promise<void>;
}

interface Place {
  /** Folder of the demo. */
  readonly dir: string;
  readonly kubeconfig: string;
}

/** Slow enough to watch, and to kill Millwright in between. */
const pace = { bootMs: 1_000, joinMs: 2_000 };

export type CloudName = keyof typeof clouds;

/** Those that `--cloud` names. */
export const clouds = {
  simulated: { title: 'a simulated cloud', start: startSimulated },
  aws: { title: 'a simulated EC2', start: startAws },
  azure: { title: 'a simulated Azure', start: startAzure },
  openstack: { title: 'a real OpenStack whose servers do not boot', start: startOpenstack },
} satisfies Record<string, { title: string; start(place: Place): Promise<DemoCloud> }>;

async function startSimulated({ dir, kubeconfig }: Place): Promise<DemoCloud> {
  const cloud = await startSimulatedCloud({ dir: join(dir, 'cloud'), kubeconfig, ...pace });
  return {
    ...cloud,
    provider: 'simulated',
    scheme: 'simulated:///',
    example: 'simulated.yaml',
    changes: { 'endpoint: http://127.0.0.1:8081': `endpoint: ${cloud.url}` },
  };
}

async function startAws({ dir, kubeconfig }: Place): Promise<DemoCloud> {
  const { startAwsCloud } = await import('../aws-cloud/admin.ts');
  const { seeds, ...cloud } = await startAwsCloud({ dir: join(dir, 'cloud'), kubeconfig, ...pace });
  return {
    ...cloud,
    provider: 'aws',
    scheme: 'aws:///',
    example: 'aws.yaml',
    changes: {
      'providerAccessKeyId: REPLACE': 'providerAccessKeyId: letmein',
      'providerSecretAccessKey: REPLACE': 'providerSecretAccessKey: any',
      'region: eu-west-1': `region: ${seeds.region}\n  endpoint: ${cloud.url}`,
      'ami-0123456789abcdef0': seeds.ami,
      'name: REPLACE': `name: ${seeds.instanceProfile}`,
      'subnet-0123456789abcdef0': seeds.subnetId,
      'sg-0123456789abcdef0': seeds.securityGroupId,
    },
    env: { AWS_ENDPOINT_URL_STS: cloud.url },
    async stats() {
      const states = (await cloud.instances()).map(({ State }) => State?.Name);
      return { vmsNow: states.filter((state) => state !== 'terminated').length, vmsEver: states.length };
    },
  };
}

async function startOpenstack({ dir, kubeconfig }: Place): Promise<DemoCloud> {
  const { startOpenstackCloud } = await import('../openstack-cloud/admin.ts');
  const { joinMs } = pace;
  const cloud = await startOpenstackCloud({ dir: join(dir, 'cloud'), kubeconfig, joinMs });
  const { seeds, openstack, url, faults, stop } = cloud;
  return {
    ...{ url, faults, stop },
    provider: 'openstack',
    scheme: 'openstack:///',
    example: 'openstack.yaml',
    changes: {
      'authURL: https://keystone.example.com:5000/v3': `authURL: ${cloud.authUrl}`,
      'applicationCredentialID: REPLACE': `applicationCredentialID: ${seeds.applicationCredentialId}`,
      'applicationCredentialSecret: REPLACE': `applicationCredentialSecret: ${seeds.applicationCredentialSecret}`,
      'availabilityZone: nova': `availabilityZone: ${seeds.zone}`,
      'flavorName: m1.large': `flavorName: ${seeds.flavorName}`,
      'keyName: REPLACE': `keyName: ${seeds.keyName}`,
      'networkID: 00000000-0000-4000-8000-000000000001': `networkID: ${seeds.networkId}`,
      'cluster-REPLACE': 'cluster-demo',
    },
    // Nova keeps deleted servers. One that no host had room for was never launched.
    stats: async () =>
      withDatabase(openstack.dir, 'nova', (database) => {
        const counts = `select count(*) as vmsEver, count(*) filter (where deleted = 0) as vmsNow
          from instances where launched_at is not null and project_id = ?`;
        return database.prepare(counts).get(seeds.projectId) as { vmsNow: number; vmsEver: number };
      }),
  };
}

const isVm = /\/virtualMachines\/[^/?]+\?/;

async function startAzure({ dir, kubeconfig }: Place): Promise<DemoCloud> {
  const { startAzureCloud } = await import('../azure-cloud/admin.ts');
  const options = { dir: join(dir, 'cloud'), kubeconfig, ...pace };
  const { adminUrl, seeds, credentials, ...cloud } = await startAzureCloud(options);
  return {
    ...cloud,
    url: adminUrl,
    provider: 'azure',
    scheme: 'azure:///',
    example: 'azure.yaml',
    changes: {
      'clientID: REPLACE': `clientID: ${credentials.clientID}`,
      'clientSecret: REPLACE': `clientSecret: ${credentials.clientSecret}`,
      'tenantID: REPLACE': `tenantID: ${credentials.tenantID}`,
      'subscriptionID: REPLACE': `subscriptionID: ${credentials.subscriptionID}`,
      'location: westeurope': `location: ${seeds.location}`,
      'resourceGroup: machines': `resourceGroup: ${seeds.resourceGroup}`,
      'vnetName: nodes': `vnetName: ${seeds.vnetName}`,
      'subnetName: nodes': `subnetName: ${seeds.subnetName}`,
      'cluster-REPLACE': 'cluster-demo',
    },
    async stats() {
      const [vms, calls] = await Promise.all([cloud.vms(), cloud.calls()]);
      const made = calls.filter(({ effect, method, path }) => effect && method === 'PUT' && isVm.test(path));
      return { vmsNow: vms.length, vmsEver: made.length };
    },
  };
}
