/** The providers of this repository: what `--all` runs, each against its counterpart. */
import { fileURLToPath } from 'node:url';
import type { Cloud, Tags } from '../../activities/providers/kit/cloud.ts';
import { createProvider } from '../../activities/providers/kit/provider.ts';
import type { Provider, ProviderDeps } from '../../activities/providers/provider.ts';
import { hurried } from '../support/hurried.ts';
import type { Counterpart } from './counterpart.ts';
import { startSimulatedCounterpart } from './counterparts/simulated.ts';
import type { WorkerCommand } from './worker-process.ts';

/** The servers that a worker needs. */
export interface Servers {
  readonly kubeconfig: string;
  readonly temporalAddress: string;
}

/** A provider, with a cloud and a worker of the suite's own. */
export interface ProviderEntry {
  readonly name: string;
  /** How late its cloud lists a VM where that is the fault, ms: a little less than `settleSeconds` of the provider. */
  readonly lateMs: number;
  /** Makes it in this process, with waits that are shorter by `hurry`. Left out: it is of somebody else. */
  readonly make?: (deps: ProviderDeps) => Promise<Provider>;
  startCounterpart(): Promise<Counterpart>;
  /**
   * How its worker is started for an installation, which has the name of its namespace. `env` is added to
   * `baseEnvironment`. `remove` what that needs later.
   */
  prepareWorker(servers: Servers, installation: string): Promise<WorkerCommand & { remove?(): Promise<void> }>;
}

/** How much faster time passes for a provider in this process, and for the late lists of its cloud. */
export const hurry = 5;

/** One entry for each provider. One that is not checked loads nothing. */
export const providers: readonly ProviderEntry[] = [
  {
    ...ofKit('simulated', async () => (await import('../../activities/providers/simulated/index.ts')).simulatedCloud),
    lateMs: 1_500,
    startCounterpart: startSimulatedCounterpart,
  },
  {
    ...ofKit('aws', async () => (await import('../../activities/providers/aws/index.ts')).awsCloud),
    lateMs: 9_000,
    startCounterpart: async () => (await import('./counterparts/aws.ts')).startAwsCounterpart(),
  },
  {
    ...ofKit('azure', async () => (await import('../../activities/providers/azure/index.ts')).azureCloud),
    lateMs: 9_000,
    startCounterpart: async () => (await import('./counterparts/azure.ts')).startAzureCounterpart(),
  },
  {
    ...ofKit('openstack', async () => (await import('../../activities/providers/openstack/index.ts')).openstackCloud),
    lateMs: 9_000,
    startCounterpart: async () => (await import('./counterparts/openstack.ts')).startOpenstackCounterpart(),
  },
];

const main = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

/** A provider that ships with Millwright. */
function ofKit<Spec extends { tags: Tags }, Reach, Credentials, Client>(
  name: string,
  load: () => Promise<Cloud<Spec, Reach, Credentials, Client>>,
): Pick<ProviderEntry, 'name' | 'make' | 'prepareWorker'> {
  return {
    name,
    async make(deps) {
      return createProvider(hurried(await load(), hurry), deps);
    },
    prepareWorker: async ({ kubeconfig, temporalAddress }, installation) => ({
      program: process.execPath,
      args: [
        ...[main, 'worker', '--providers', name, '--namespace', installation, '--target-kubeconfig', kubeconfig],
        ...['--temporal-address', temporalAddress, '--address', '127.0.0.1', '--port', '0', '--log-format', 'json'],
      ],
    }),
  };
}
