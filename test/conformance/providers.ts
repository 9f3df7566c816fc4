/** The providers of this repository: what `--all` runs, each against its counterpart. */
import { fileURLToPath } from 'node:url';
import { preparePythonProvider } from '../support/python-provider.ts';
import type { Counterpart } from './counterpart.ts';
import { startAwsCounterpart } from './counterparts/aws.ts';
import { startAzureCounterpart } from './counterparts/azure.ts';
import { startOpenstackCounterpart } from './counterparts/openstack.ts';
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
  /** Clouds with a worker each that share the cases, because these wait for long. Default: 1. */
  readonly clouds?: number;
  startCounterpart(): Promise<Counterpart>;
  /** How its worker is started for an installation, which has the name of its namespace. `remove` what that needs later. */
  prepareWorker(servers: Servers, installation: string): Promise<WorkerCommand & { remove?(): Promise<void> }>;
}

/** One entry for each provider. */
export const providers: readonly ProviderEntry[] = [
  { name: 'simulated', startCounterpart: startSimulatedCounterpart, prepareWorker: ownWorker('simulated') },
  { name: 'aws', clouds: 2, startCounterpart: startAwsCounterpart, prepareWorker: ownWorker('aws') },
  { name: 'azure', clouds: 2, startCounterpart: startAzureCounterpart, prepareWorker: ownWorker('azure') },
  {
    name: 'openstack',
    clouds: 3,
    startCounterpart: startOpenstackCounterpart,
    prepareWorker: ownWorker('openstack'),
  },
  {
    name: 'python',
    startCounterpart: startSimulatedCounterpart,
    prepareWorker: ({ kubeconfig, temporalAddress }, installation) =>
      preparePythonProvider(kubeconfig, temporalAddress, installation),
  },
];

const main = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

/** A provider that ships with Millwright. */
function ownWorker(name: string): ProviderEntry['prepareWorker'] {
  return async ({ kubeconfig, temporalAddress }, installation) => ({
    program: process.execPath,
    args: [
      ...[main, 'worker', '--providers', name, '--namespace', installation, '--target-kubeconfig', kubeconfig],
      ...['--temporal-address', temporalAddress, '--address', '127.0.0.1', '--port', '0', '--log-format', 'json'],
    ],
    env: { NODE_OPTIONS: '' },
  });
}
