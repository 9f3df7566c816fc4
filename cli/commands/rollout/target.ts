/** The MachineDeployment that `millwright rollout` acts on, and where it is. */
import type { ObjectRef } from '../../../api/model/ref.ts';
import type { OwnerDeployment, OwnerSet } from '../../../api/owner/objects.ts';
import { controllerOf } from '../../../api/owner/ownership.ts';
import { revisionOf } from '../../../api/owner/revision.ts';
import { isOrphaning } from '../../../api/owner/view.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { RawFlags } from '../../command.ts';
import { pastText } from '../../command-line.ts';
import { dialect, dialectName } from '../../dialect.ts';
import { sinceText } from '../../duration-text.ts';
import type { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import type { Options } from '../../options.ts';
import { type RolloutAction, rolloutCommandLine } from './actions.ts';

export type RolloutOptions = Options<
  | ('watch' | 'toRevision' | 'filename' | 'output' | 'namespace' | 'installation')
  | (typeof clusterFlags)[number]
  | (typeof temporalFlags)[number]
>;

export interface RolloutTarget {
  readonly control: KubeClient;
  readonly key: { readonly namespace: string; readonly name: string };
  readonly options: RolloutOptions;
  readonly rawFlags: RawFlags;
}

/** The command line of another action for the same deployment. */
export function commandLineOf(action: RolloutAction, { key, rawFlags }: RolloutTarget): string {
  return rolloutCommandLine(action, key, rawFlags);
}

/** For messages. */
export function nameOf({ key }: RolloutTarget): string {
  return `MachineDeployment ${key.namespace}/${key.name}`;
}

/** Throws an Error when the deployment does not exist. */
export async function readDeployment(target: RolloutTarget): Promise<OwnerDeployment> {
  return existing(target, await target.control.find(dialect.kinds.deployment, target.key));
}

/** The same for one that was read already. */
export function existing(target: RolloutTarget, deployment: OwnerDeployment | undefined): OwnerDeployment {
  if (deployment !== undefined) return deployment;
  const { key, rawFlags } = target;
  const past = pastText('MachineDeployment', [key.name], key.namespace, rawFlags);
  throw new Error(`${nameOf(target)} does not exist in the control cluster: correct the name or --namespace${past}`);
}

/** Throws an Error when the deployment is being deleted. */
export function refuseDeleted(target: RolloutTarget, deployment: OwnerDeployment): void {
  const { metadata } = deployment;
  if (metadata.deletionTimestamp === undefined) return;
  const [how, advice] = isOrphaning(deployment)
    ? [' with --cascade=orphan', 'wait until the Kubernetes garbage collector has released what it owns']
    : ['', 'create a deployment with another name'];
  throw new Error(`${nameOf(target)} is being deleted${how} ${sinceText(metadata.deletionTimestamp)}: ${advice}`);
}

/** Reference to the deployment or to one of its machines, which names its workflow. */
export function refOf(
  { key }: RolloutTarget,
  { metadata: { name, uid } }: { readonly metadata: { readonly name: string; readonly uid: string } },
): ObjectRef {
  return { dialect: dialectName, namespace: key.namespace, name, uid };
}

/** The sets of the deployment, by revision, the oldest first. */
export function ownSets({ metadata }: OwnerDeployment, sets: readonly OwnerSet[]): OwnerSet[] {
  return sets
    .filter((set) => controllerOf(set) === metadata.uid)
    .toSorted((a, b) => revisionOf(dialect, a) - revisionOf(dialect, b));
}
