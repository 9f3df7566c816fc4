/** Where the VMs of Machines come from: their MachineClass and its Secrets. */
import type { Find, List } from '../../dialect.ts';
import type { ObjectRef } from '../../model/ref.ts';
import type { SourceSnapshot } from '../../model/source.ts';
import type { SweptSource } from '../../model/sweep.ts';
import { names, providerNameProblem } from '../../names.ts';
import type { KubeObject } from '../../objects.ts';
import { specSizeProblem } from '../../payloads.ts';
import type { Origin } from '../../provider.ts';
import { type Secret, secrets } from '../../secret.ts';
import { verdictOf } from '../../verdict.ts';
import { finalizers, userDataKey } from '../names.ts';
import { machineClasses } from '../resources.ts';
import type { Machine, MachineTemplate } from '../schema/machine.ts';
import type { MachineClass } from '../schema/machine-class.ts';
import { isPersonal } from './user-data.ts';

/** A Secret that a class refers to. */
interface SecretKey {
  readonly namespace: string;
  readonly name: string;
}

/** Name of the class that a Machine, or the template of a MachineSet or MachineDeployment, names. */
export function sourceNameOf({ spec }: KubeObject & { spec?: Machine['spec'] & { template?: MachineTemplate } }) {
  return spec?.class?.name ?? spec?.template?.spec?.class?.name;
}

/** Fields of a class that refer to Secrets, in the order in which the keys of these are merged. */
const secretFields = ['secretRef', 'credentialsSecretRef'] as const;

/** Secrets in the namespace of a class that it refers to, in the order in which their keys are merged. */
export function secretsOf(machineClass: MachineClass): SecretKey[] {
  const { namespace = '' } = machineClass.metadata;
  return secretFields.flatMap((field) => {
    const { name, namespace: given } = machineClass[field] ?? {};
    return name && (given || namespace) === namespace ? [{ namespace, name }] : [];
  });
}

/**
 * Text that differs whenever the class or one of its Secrets (undefined: missing) was changed, created or deleted. The
 * metadata of a class does not count, so that our own finalizer wakes no machine that waits for the class.
 */
export function versionOf(
  machineClass: KubeObject | undefined,
  found: readonly (Pick<KubeObject, 'metadata'> | undefined)[],
): string {
  const { uid, generation, resourceVersion } = machineClass?.metadata ?? {};
  const ofClass = machineClass === undefined ? '-' : `${uid}.${generation ?? resourceVersion}`;
  const ofSecrets = found.map((secret) =>
    secret === undefined ? '-' : `${secret.metadata.uid}.${secret.metadata.resourceVersion}`,
  );
  return [ofClass, ...ofSecrets].join('/');
}

/** Reads the class of a machine. What is wrong with it, or with its Secrets, is in the answer, not an error. */
export async function readSource(find: Find, { namespace }: ObjectRef, name: string): Promise<SourceSnapshot> {
  const machineClass = await find(machineClasses, { namespace, name });
  if (machineClass === undefined) {
    const problem = `MachineClass "${name}" does not exist in namespace "${namespace}": create it, or correct spec.class.name`;
    return { version: versionOf(undefined, []), problem };
  }
  const refs = secretsOf(machineClass);
  return toSnapshot(machineClass, refs, await Promise.all(refs.map((ref) => find(secrets, ref))));
}

function toSnapshot(machineClass: MachineClass, refs: SecretKey[], found: (Secret | undefined)[]): SourceSnapshot {
  const { metadata, provider, providerSpec } = machineClass;
  const holder = found.findLastIndex((secret) => secret?.data?.[userDataKey] !== undefined);
  const ref = refs[holder];
  const text = Buffer.from(found[holder]?.data?.[userDataKey] ?? '', 'base64').toString();
  const problem = classProblem(machineClass) ?? (ref === undefined ? userDataProblem(refs, found) : undefined);
  const version = versionOf(machineClass, found);
  const verdict = verdictOf(machineClass);
  const isUsable =
    provider && providerNameProblem(provider) === undefined && foreignSecretProblem(machineClass) === undefined;
  const isRefused = verdict?.version === version && verdict.problems.length > 0;
  return {
    version,
    ...(isUsable && {
      cloud: {
        provider,
        origin: originOf(machineClass),
        providerSpec,
        credentials: refs,
      },
    }),
    ...(ref !== undefined && { userData: { ...ref, key: userDataKey, personal: isPersonal(text) } }),
    ...(problem !== undefined && { problem: `MachineClass "${metadata.name}": ${problem}` }),
    ...(isRefused && { refusal: `MachineClass "${metadata.name}": ${verdict.problems.join('; ')}` }),
  };
}

/** As the autoscaler is told. */
export function zoneOf({ nodeTemplate }: MachineClass): string | undefined {
  return nodeTemplate?.zone;
}

/** All classes of a namespace. */
export async function listSources(list: List): Promise<SweptSource[]> {
  const classes = await list(machineClasses);
  return classes.map((machineClass) => {
    const { metadata, provider = '', providerSpec } = machineClass;
    const { name, uid, generation = 0, deletionTimestamp } = metadata;
    const lostAt = metadata.annotations?.[names.lostMachine];
    const problem = foreignSecretProblem(machineClass) ?? specSizeProblem(providerSpec);
    const isLeaving = deletionTimestamp !== undefined && metadata.finalizers?.includes(finalizers.machine) === true;
    return {
      object: { name, uid },
      ...(isLeaving && { release: { generation, ...(lostAt !== undefined && { hasLost: true as const }) } }),
      ...(lostAt !== undefined && { lostAt }),
      provider,
      origin: originOf(machineClass),
      providerSpec,
      credentials: secretsOf(machineClass),
      ...(problem !== undefined && { problem }),
    };
  });
}

function originOf({ metadata: { namespace = '', name, generation = 0 } }: MachineClass): Origin {
  return { kind: machineClasses.kind, namespace, name, generation };
}

/** A Secret of another namespace is never read, and without it the VMs would be made in another account. */
function foreignSecretProblem(machineClass: MachineClass): string | undefined {
  const { namespace: own = '' } = machineClass.metadata;
  for (const field of secretFields) {
    const { name, namespace } = machineClass[field] ?? {};
    if (!name || !namespace || namespace === own) continue;
    const fix = `copy the Secret "${name}" to the namespace "${own}" of the class, and name that`;
    return `${field}.namespace is "${namespace}": ${fix}`;
  }
  return undefined;
}

/** The checks that MCM makes before it calls a driver, and those of the Secrets' namespace and of sizes. */
function classProblem(machineClass: MachineClass): string | undefined {
  const { provider, nodeTemplate } = machineClass;
  const foreign = foreignSecretProblem(machineClass);
  if (foreign !== undefined) return foreign;
  if (!provider) return 'provider is empty: set it to the name of a provider';
  const tooLong = providerNameProblem(provider);
  if (tooLong !== undefined) return tooLong;
  const tooLarge = specSizeProblem(machineClass.providerSpec);
  if (tooLarge !== undefined) return tooLarge;
  if (nodeTemplate === undefined) return undefined;
  const { capacity } = nodeTemplate;
  const missing = ['cpu', 'gpu', 'memory'].filter((resource) => capacity?.[resource] === undefined);
  if (missing.length > 0) return `nodeTemplate.capacity lacks ${missing.join(' and ')}: add a quantity for each`;
  const empty = (['instanceType', 'region', 'zone'] as const).find((field) => !nodeTemplate[field]);
  return empty && `nodeTemplate.${empty} is empty: set it`;
}

function userDataProblem(refs: SecretKey[], found: (Secret | undefined)[]): string {
  if (refs.length === 0) return `secretRef is not set: name a Secret with the key ${userDataKey}`;
  const absent = refs.find((_, i) => found[i] === undefined);
  if (absent !== undefined) return `Secret "${absent.namespace}/${absent.name}" does not exist: create it`;
  return `Secret "${refs[0]?.namespace}/${refs[0]?.name}" has no key ${userDataKey}: add the user data of its machines`;
}
