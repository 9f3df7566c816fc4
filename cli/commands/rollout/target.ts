/** The MachineDeployment that `millwright rollout` is about, and where it is. */
import { Client } from '@temporalio/client';
import { machineDeployments } from '../../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { ObjectRef } from '../../../api/model/ref.ts';
import { isOrphaning } from '../../../api/owner/view.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { connectClient } from '../../../temporal/connection.ts';
import type { Installation } from '../../../temporal/workflows.ts';
import type { Given } from '../../command.ts';
import type { clusterFlags, temporalFlags } from '../../flags.ts';
import type { Options } from '../../options.ts';
import { temporalServer } from '../../servers.ts';
import { type RolloutAction, rolloutLine } from './command.ts';

export type RolloutOptions = Options<
  'watch' | 'toRevision' | 'namespace' | 'installation' | (typeof clusterFlags)[number] | (typeof temporalFlags)[number]
>;

/** What an action is given. */
export interface Subject {
  readonly control: KubeClient;
  readonly key: { readonly namespace: string; readonly name: string };
  readonly options: RolloutOptions;
  readonly given: Given;
}

/** The command line of another action for the same deployment. */
export function lineOf(action: RolloutAction, { key, given }: Subject): string {
  return rolloutLine(action, key, given);
}

/** For messages. */
export function nameOf({ key }: Subject): string {
  return `MachineDeployment ${key.namespace}/${key.name}`;
}

/** Throws an Error when there is none of the name. */
export async function readDeployment(subject: Subject): Promise<MachineDeployment> {
  const deployment = await subject.control.find(machineDeployments, subject.key);
  if (deployment !== undefined) return deployment;
  throw new Error(`${nameOf(subject)} does not exist in the control cluster: correct the name or --namespace`);
}

/** Throws an Error for one that is being deleted. */
export function refuseDeleted(subject: Subject, deployment: MachineDeployment): void {
  const { metadata } = deployment;
  if (metadata.deletionTimestamp === undefined) return;
  const [how, advice] = isOrphaning(deployment)
    ? [' with --cascade=orphan', 'wait until the Kubernetes garbage collector has released what it owns']
    : ['', 'create a deployment with another name'];
  throw new Error(`${nameOf(subject)} is being deleted${how} since ${metadata.deletionTimestamp}: ${advice}`);
}

/** By which the workflow of the deployment, or of one of its machines, is found. */
export function refOf(
  { key }: Subject,
  { metadata: { name, uid } }: { readonly metadata: { readonly name: string; readonly uid: string } },
): ObjectRef {
  return { dialect: 'gardener', namespace: key.namespace, name, uid };
}

/** Does something with the workflows of the installation. Throws an Error of one line when Temporal does not answer. */
export async function withInstallation<T>(
  { options }: Subject,
  run: (installation: Installation) => Promise<T>,
): Promise<T> {
  const server = temporalServer(options);
  const connection = await connectClient(server);
  try {
    const client = new Client({ connection, namespace: server.namespace });
    return await run({ client, name: options.installation ?? options.namespace });
  } finally {
    await connection.close();
  }
}
