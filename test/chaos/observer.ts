/** What the API server has said of each Machine, its owners and each Node, and when. */
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import { names } from '../../api/names.ts';
import { toStatuses } from '../../api/node.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { startReflector } from '../../kube/reflector.ts';

/** A Machine at a time. */
export interface Observation {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Its creation on the clock of the API server, in whole seconds, as milliseconds since 1970. */
  readonly createdMs: number;
  readonly uid: string;
  readonly name: string;
  readonly providerID: string | undefined;
  readonly state: 'present' | 'being deleted' | 'gone';
  /** Whether it has the finalizer of Millwright. */
  readonly isProtected: boolean;
  /** UID of its MachineSet. */
  readonly set: string | undefined;
  /** Whether somebody has asked to preserve it. */
  readonly isPreserved: boolean;
  /** Whether somebody forces its deletion. */
  readonly isForced: boolean;
  /** Whether it is present and has neither run nor failed. */
  readonly isProvisioning: boolean;
}

/** How many machines a MachineDeployment may have from a time on. */
export interface BoundObservation {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly uid: string;
  /** Its replicas and maxSurge. */
  readonly most: number;
  /** How many of its namespace may be provisioning when it makes one; undefined: no limit. */
  readonly mostProvisioning: number | undefined;
}

/** Whose a MachineSet is from a time on. */
export interface OwnerObservation {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** UID. */
  readonly set: string;
  /** UID of its MachineDeployment. */
  readonly deployment: string | undefined;
}

/** From when on a Node is there, and Ready or not, or is gone. */
export interface NodeObservation {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly name: string;
  readonly isThere: boolean;
  readonly isReady: boolean;
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/**
 * Watches the Machines of a namespace, their owners and all Nodes until `stop`. Observations are in the order of their
 * times.
 */
export function observe(client: KubeClient, namespace: string) {
  const observations: Observation[] = [];
  const note = (machine: Machine, isGone: boolean) => {
    const { metadata, spec, status } = machine;
    const state = isGone ? 'gone' : metadata.deletionTimestamp === undefined ? 'present' : 'being deleted';
    const { uid, name } = metadata;
    const isPreserved = ![undefined, 'false'].includes(metadata.annotations?.[annotations.preserve]);
    const { phase = '' } = status?.currentStatus ?? {};
    observations.push({
      ...{ atMs: Date.now(), createdMs: Date.parse(metadata.creationTimestamp) },
      ...{ uid, name, providerID: spec?.providerID, state },
      ...{ set: controllerOf(machine), isPreserved },
      isProtected: metadata.finalizers?.includes(finalizers.machine) === true,
      isForced: metadata.labels?.[labels.forceDeletion] !== undefined,
      isProvisioning: state === 'present' && ['', 'Pending', 'CrashLoopBackOff'].includes(phase),
    });
  };
  const nodeObservations: NodeObservation[] = [];
  const noteNode = ({ metadata: { name }, status }: Node, isGone: boolean) => {
    const isReady = !isGone && toStatuses(status?.conditions)['Ready'] === 'True';
    const last = nodeObservations.findLast((each) => each.name === name);
    const isSame = last?.isReady === isReady && last.isThere !== isGone;
    if (!isSame) nodeObservations.push({ atMs: Date.now(), name, isThere: !isGone, isReady });
  };
  const bounds: BoundObservation[] = [];
  const noteBound = ({ metadata: { uid, annotations: given }, spec }: MachineDeployment, isGone: boolean) => {
    const { replicas = 0, strategy } = spec ?? {};
    const most = replicas + Number(strategy?.rollingUpdate?.maxSurge ?? 0);
    const limit = given?.[names.maxProvisioning];
    const mostProvisioning = isGone || limit === undefined ? undefined : Number(limit);
    const last = bounds.findLast((each) => each.uid === uid);
    const isSame = last?.most === most && last.mostProvisioning === mostProvisioning;
    if (!isSame) bounds.push({ atMs: Date.now(), uid, most, mostProvisioning });
  };
  const owners: OwnerObservation[] = [];
  const noteOwner = (machineSet: MachineSet) => {
    const { uid: set } = machineSet.metadata;
    const deployment = controllerOf(machineSet);
    const last = owners.findLast((each) => each.set === set);
    if (last === undefined || last.deployment !== deployment) owners.push({ atMs: Date.now(), set, deployment });
  };

  const watch = <T extends KubeObject>(resource: Resource<T>, seen: (object: T, isGone: boolean) => void) =>
    startReflector({
      ...{ client, ...(resource.namespaced && { namespace }), resource, logger: silent },
      onEvent: (event) => {
        if (event.kind !== 'synced') seen(event.object, event.kind === 'deleted');
      },
    });
  const watches = [
    watch(machines, note),
    watch(nodes, noteNode),
    watch(machineDeployments, noteBound),
    watch(machineSets, noteOwner),
  ];
  const stop = () => Promise.all(watches.map((each) => each.stop()));
  return { observations, nodeObservations, bounds, owners, stop };
}
