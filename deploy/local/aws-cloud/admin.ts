/** Starts the AWS cloud and calls its admin API: for tests, the demo and development. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  DescribeInstancesCommand,
  DescribeNetworkInterfacesCommand,
  DescribeVolumesCommand,
  EC2Client,
  type Instance,
  type NetworkInterface,
  type Volume,
} from '@aws-sdk/client-ec2';
import type { z } from 'zod';
import type { AwsProviderSpec } from '../../../activities/providers/aws/schema.ts';
import { callAdmin, toFlags } from '../admin-api.ts';
import type { ActiveFault } from '../faults.ts';
import { freePort } from '../ports.ts';
import { startServer } from '../process.ts';
import type { Fault } from './faults.ts';
import { findPython } from './moto.ts';
import type { Seeds } from './seeds.ts';
import type { CallRecord } from './server.ts';

/** How to start an AWS cloud. Left out: what the process takes by itself (main.ts). */
export interface AwsCloudOptions {
  /** Folder of its log. */
  readonly dir: string;
  /** Kubeconfig of the cluster that Nodes join. Without one there are instances and no Nodes. */
  readonly kubeconfig?: string | undefined;
  /** Default: a free one. */
  readonly port?: number;
  /** Access key ids that it accepts, with any secret access key. Default: `letmein`. */
  readonly accessKeys?: readonly string[];
  /** From RunInstances to `running`. Default 1000. */
  readonly bootMs?: number;
  /** From `running` to the registration of the Node. Default 1000. */
  readonly joinMs?: number;
  /** From TerminateInstances to `terminated`. Default 500. */
  readonly deleteMs?: number;
  /** The most resources in a page of a list. Default 1000. */
  readonly pageSize?: number;
  /** Default 10 000, as a kubelet. */
  readonly leaseRenewMs?: number;
  /** Default 300 000, as a kubelet. */
  readonly statusUpdateMs?: number;
  /** The longest a pod takes to end. Default 30 000. */
  readonly maxGraceMs?: number;
}

type ProviderSpec = z.input<typeof AwsProviderSpec>;

/** A running AWS cloud. Everything in it ends with its process. */
export interface AwsCloud {
  /** The endpoint of EC2 and STS: `AWS_ENDPOINT_URL` of a process that uses an SDK. */
  readonly url: string;
  readonly pid: number;
  /** Standard error of the process and of moto. */
  readonly logFile: string;
  /** What is there from the start. */
  readonly seeds: Seeds;
  /** A client that needs no credentials, meets no faults, sees everything and leaves no record. */
  readonly direct: EC2Client;
  /** A valid `providerSpec` of a class, with these fields instead of its own. */
  providerSpec(overrides?: Partial<ProviderSpec>): ProviderSpec;
  /** Replaces the faults that are on; none ends them all, and lets go what hangs. */
  setFaults(...faults: z.input<typeof Fault>[]): Promise<void>;
  faults(): Promise<readonly ActiveFault<Fault>[]>;
  /** Every request to the cloud's API so far. */
  calls(): Promise<CallRecord[]>;
  /** All instances, the terminated ones too. */
  instances(): Promise<Instance[]>;
  volumes(): Promise<Volume[]>;
  interfaces(): Promise<NetworkInterface[]>;
  /** SIGKILL to the process: moto ends with it. */
  kill(): Promise<void>;
  /** SIGTERM to the process. */
  stop(): Promise<void>;
}

/** Starts the process, which ends with this one however that dies, and resolves when it serves. */
export async function startAwsCloud(options: AwsCloudOptions): Promise<AwsCloud> {
  const { dir, port = await freePort() } = options;
  await mkdir(dir, { recursive: true });
  await findPython(); // May take longer than a server may to start.
  const url = `http://127.0.0.1:${port}`;
  const server = await startServer(
    {
      name: 'AWS cloud',
      executable: process.execPath,
      args: [fileURLToPath(new URL('main.ts', import.meta.url)), ...flagsOf({ ...options, port })],
      logFile: join(dir, 'log'),
      ready: async () => (await callAdmin(url, 'GET', '/seeds')) !== undefined,
    },
    new AbortController().signal,
  );
  const seeds = await callAdmin<Seeds>(url, 'GET', '/seeds');
  const credentials = { accessKeyId: 'direct', secretAccessKey: 'any' };
  const direct = new EC2Client({ region: seeds.region, endpoint: `${url}/direct`, credentials });
  return {
    url,
    pid: server.pid,
    logFile: server.logFile,
    seeds,
    direct,
    providerSpec: (overrides = {}) => ({ ...providerSpecOf(seeds), endpoint: url, ...overrides }),
    setFaults: async (...faults) => void (await callAdmin(url, 'PUT', '/faults', { faults })),
    faults: async () => (await callAdmin<{ faults: ActiveFault<Fault>[] }>(url, 'GET', '/faults')).faults,
    calls: () => callAdmin(url, 'GET', '/calls'),
    async instances() {
      const { Reservations = [] } = await direct.send(new DescribeInstancesCommand({}));
      return Reservations.flatMap(({ Instances = [] }) => Instances);
    },
    volumes: async () => (await direct.send(new DescribeVolumesCommand({}))).Volumes ?? [],
    interfaces: async () => (await direct.send(new DescribeNetworkInterfacesCommand({}))).NetworkInterfaces ?? [],
    async kill() {
      direct.destroy();
      await server.kill('SIGKILL');
    },
    async stop() {
      direct.destroy();
      await server.kill();
    },
  };
}

function providerSpecOf(seeds: Seeds): ProviderSpec {
  return {
    region: seeds.region,
    ami: seeds.ami,
    machineType: 't3.large',
    keyName: seeds.keyName,
    iam: { name: seeds.instanceProfile },
    blockDevices: [{ ebs: { volumeSize: 20, volumeType: 'gp3' } }],
    networkInterfaces: [{ subnetID: seeds.subnetId, securityGroupIDs: [seeds.securityGroupId] }],
    tags: { 'kubernetes.io/cluster/local': '1', 'kubernetes.io/role/node': '1' },
  };
}

function flagsOf(options: AwsCloudOptions): string[] {
  const flags = {
    kubeconfig: options.kubeconfig,
    port: options.port,
    'boot-ms': options.bootMs,
    'join-ms': options.joinMs,
    'delete-ms': options.deleteMs,
    'page-size': options.pageSize,
    'lease-renew-ms': options.leaseRenewMs,
    'status-update-ms': options.statusUpdateMs,
    'max-grace-ms': options.maxGraceMs,
  };
  return [...toFlags(flags), ...(options.accessKeys ?? []).map((key) => `--access-key=${key}`)];
}
