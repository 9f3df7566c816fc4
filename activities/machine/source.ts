/** Reads a MachineClass and its Secrets for the creation and deletion of VMs. */

import { classVersion, secretRefsOf } from '../../api/gardener/machine/snapshot.ts';
import { userDataKey, userDataPlaceholders } from '../../api/gardener/names.ts';
import { machineClasses } from '../../api/gardener/resources.ts';
import type { MachineClass } from '../../api/gardener/schema/machine-class.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { SourceSnapshot } from '../../api/model/source.ts';
import type { SecretRef } from '../../api/provider.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Secret, secrets } from '../../kube/core.ts';
import { coalesceReads } from '../../kube/shared-finds.ts';
import { localRequestOptions } from '../local-request.ts';

/** @param deps `control` holds the classes and their Secrets. */
export function createClassActivities({ control }: { readonly control: KubeClient }) {
  const find = coalesceReads(control, { ...localRequestOptions, timeoutMs: localRequestOptions.timeoutMs / 2 }); // some wait for two
  return {
    /** Reads the class of a machine. What is wrong with it, or with its Secrets, is in the answer, not an error. */
    async readClass({ namespace }: ObjectRef, name: string): Promise<SourceSnapshot> {
      const machineClass = await find(machineClasses, { namespace, name });
      if (machineClass === undefined) {
        const problem = `MachineClass "${name}" does not exist in namespace "${namespace}": create it, or correct spec.class.name`;
        return { version: classVersion(undefined, []), problem };
      }
      const refs = secretRefsOf(machineClass).filter((ref) => ref.namespace === namespace);
      const found = await Promise.all(refs.map((ref) => find(secrets, ref)));
      return toReading(machineClass, refs, found);
    },
  };
}

/** Whether user data has to be rendered for each machine. */
function isPersonal(userData: string): boolean {
  return Object.values(userDataPlaceholders).some(
    (placeholder) => userData.includes(placeholder) || userData.includes(encodeURIComponent(placeholder)),
  );
}

function toReading(machineClass: MachineClass, refs: SecretRef[], found: (Secret | undefined)[]): SourceSnapshot {
  const { metadata, provider, providerSpec } = machineClass;
  const namespace = metadata.namespace ?? '';
  const version = classVersion(machineClass, found);
  const holder = found.findLastIndex((secret) => secret?.data?.[userDataKey] !== undefined);
  const ref = refs[holder];
  const text = Buffer.from(found[holder]?.data?.[userDataKey] ?? '', 'base64').toString();
  const problem =
    classProblem(machineClass) ?? (ref === undefined ? userDataProblem(machineClass, refs, found) : undefined);
  return {
    version,
    ...(provider && {
      cloud: {
        provider,
        class: { namespace, name: metadata.name, generation: metadata.generation ?? 0 },
        providerSpec,
        credentials: refs,
      },
    }),
    ...(ref !== undefined && { userData: { ...ref, key: userDataKey, personal: isPersonal(text) } }),
    ...(problem !== undefined && { problem: `MachineClass "${metadata.name}": ${problem}` }),
  };
}

/** The checks that machine-controller-manager makes before it calls a driver. */
function classProblem({ provider, nodeTemplate }: MachineClass): string | undefined {
  if (!provider) return 'provider is empty: set it to the name of a provider';
  if (nodeTemplate === undefined) return undefined;
  const { capacity } = nodeTemplate;
  const missing = ['cpu', 'gpu', 'memory'].filter((resource) => capacity?.[resource] === undefined);
  if (missing.length > 0) return `nodeTemplate.capacity lacks ${missing.join(' and ')}: add a quantity for each`;
  const empty = (['instanceType', 'region', 'zone'] as const).find((field) => !nodeTemplate[field]);
  return empty && `nodeTemplate.${empty} is empty: set it`;
}

function userDataProblem(machineClass: MachineClass, refs: SecretRef[], found: (Secret | undefined)[]): string {
  const foreign = secretRefsOf(machineClass).find((ref) => ref.namespace !== machineClass.metadata.namespace);
  if (foreign !== undefined) {
    return `Secret "${foreign.namespace}/${foreign.name}" is in another namespace: move it to that of the class`;
  }
  if (refs.length === 0) return `secretRef is not set: name a Secret with the key ${userDataKey}`;
  const absent = refs.find((_, i) => found[i] === undefined);
  if (absent !== undefined) return `Secret "${absent.namespace}/${absent.name}" does not exist: create it`;
  return `Secret "${refs[0]?.namespace}/${refs[0]?.name}" has no key ${userDataKey}: add the user data of its machines`;
}
