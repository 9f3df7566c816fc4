/** What `millwright uninstall` has to change and delete in the clusters. Reads only. */
import { clusterRecordName, names, signingKeySecret } from '../../../api/names.ts';
import type { KubeObject, ObjectKey, Resource } from '../../../api/objects.ts';
import type { KubeClient, Preconditions } from '../../../kube/client.ts';
import { leases, nodes, type Secret, secrets } from '../../../kube/core.ts';
import { StatusError } from '../../../kube/errors.ts';
import { dialect } from '../../dialect.ts';
import { UsageError } from '../../options.ts';
import { surveyOf, unmanagedNode, withoutMarks } from './marks.ts';

/** A change of the objects of a kind: each of them needs it. */
export interface Change {
  readonly client: KubeClient;
  readonly resource: Resource<KubeObject>;
  readonly objects: readonly KubeObject[];
  readonly change: (object: KubeObject) => object | undefined;
}

export interface Deletion {
  readonly resource: Resource<KubeObject>;
  readonly key: ObjectKey;
  readonly preconditions: Preconditions;
}

export interface Work {
  /** How many Machines stay: without its finalizer one that is being deleted is gone. */
  readonly machines: number;
  /** In this order: what finds the others comes last. */
  readonly changes: readonly Change[];
  readonly deletions: readonly Deletion[];
  readonly attention: readonly string[];
}

export interface Scope {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly namespace: string;
  /** Its name. */
  readonly installation: string;
  /** What becomes of the Machines; undefined: nobody has said. */
  readonly machines: 'mcm' | 'unmanaged' | undefined;
}

/** Throws UsageError where there are Machines, and nobody has said what becomes of them. */
export async function planWork(of: Scope): Promise<Work> {
  const { kinds } = dialect;
  const { control, target, namespace } = of;
  const [machines, sets, deployments, sources, { items: allSecrets }, { items: allNodes }] = await Promise.all([
    listIfServed(of, kinds.machine),
    listIfServed(of, kinds.set),
    listIfServed(of, kinds.deployment),
    kinds.source === undefined ? [] : listIfServed(of, kinds.source),
    control.list(secrets, { namespace, metadataOnly: true }),
    target.list(nodes),
  ]);
  if (machines.length > 0 && of.machines === undefined) {
    throw new UsageError(
      `--machines is missing, and namespace ${namespace} has ${machines.length} Machines: give mcm or unmanaged to keep ` +
        'their VMs. To delete the VMs as well, delete the objects while Millwright runs, and wait until they are gone',
    );
  }
  const isMcm = of.machines === 'mcm';
  const { ownNodes, attention } = surveyOf(dialect, { namespace, machines, sources, nodes: allNodes });
  const personal = allSecrets.filter(({ metadata }) => metadata.labels?.[names.machineUid] !== undefined);
  const others = allSecrets.filter((secret) => !personal.includes(secret));
  const key = others.filter(({ metadata }) => metadata.name === signingKeySecret);
  const changes = [
    ofNodes(of, ownNodes),
    ofObjects(of, kinds.machine, machines),
    ofObjects(of, kinds.set, sets),
    ofObjects(of, kinds.deployment, deployments),
    ...(kinds.source === undefined ? [] : [ofObjects(of, kinds.source, sources)]),
    ofSecrets(of, others),
  ];
  return {
    machines: machines.filter(({ metadata }) => isMcm || metadata.deletionTimestamp === undefined).length,
    changes: changes
      .map((each) => ({ ...each, objects: each.objects.filter((object) => each.change(object) !== undefined) }))
      .filter(({ objects }) => objects.length > 0),
    deletions: [...personal.map(secretDeletion), ...key.map(secretDeletion), ...(await leaseDeletions(of))],
    attention,
  };
}

/** Where machine-controller-manager continues, its own marks stay: its finalizers, its taints and its cordons. */
function ofNodes({ target, machines }: Scope, objects: readonly KubeObject[]): Change {
  const change = (node: KubeObject) => (machines === 'mcm' ? withoutMarks(node) : unmanagedNode(dialect, node));
  return { client: target, resource: nodes, objects, change };
}

function ofObjects(
  { control, machines }: Scope,
  resource: Resource<KubeObject>,
  objects: readonly KubeObject[],
): Change {
  const finalizer = machines === 'mcm' ? undefined : dialect.marks.finalizer;
  return { client: control, resource, objects, change: (object) => withoutMarks(object, finalizer) };
}

function ofSecrets({ control, machines }: Scope, objects: readonly Secret[]): Change {
  const { secretFinalizer } = dialect.marks;
  const isOurs = (name: string) => machines !== 'mcm' || name === signingKeySecret;
  const change = (secret: KubeObject) =>
    withoutMarks(secret, isOurs(secret.metadata.name) ? secretFinalizer : undefined);
  return { client: control, resource: secrets, objects, change };
}

/** Those of the election are also those of machine-controller-manager. One that was renewed since then is kept. */
async function leaseDeletions({ control, namespace, installation, machines }: Scope): Promise<Deletion[]> {
  const ofElection = machines === 'mcm' ? [] : dialect.policy.leases;
  const wanted = [...ofElection, clusterRecordName(installation)];
  const found = await Promise.all(wanted.map((name) => control.find(leases, { namespace, name })));
  return found.flatMap((lease) => {
    if (lease === undefined) return [];
    const { name, uid, resourceVersion } = lease.metadata;
    return { resource: leases, key: { namespace, name }, preconditions: { uid, resourceVersion } };
  });
}

/** It may lose a finalizer before. */
function secretDeletion({ metadata: { namespace, name, uid } }: Secret): Deletion {
  return { resource: secrets, key: { namespace, name }, preconditions: { uid } };
}

async function listIfServed(
  { control, namespace }: Scope,
  resource: Resource<KubeObject>,
): Promise<readonly KubeObject[]> {
  try {
    return (await control.list(resource, { namespace })).items;
  } catch (error) {
    if (error instanceof StatusError && error.code === 404) return []; // its CRD is gone
    throw error;
  }
}
