/** What the controllers watch, each kind once, and how its objects are found. */

import { secretsOf } from '../api/gardener/machine/source.ts';
import { labels } from '../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import type { KubeObject, Resource } from '../api/objects.ts';
import { controllerOf } from '../api/owner/view.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Node, nodes, secrets } from '../kube/core.ts';
import type { Logger } from '../kube/logger.ts';
import { type Reflector, startReflector } from '../kube/reflector.ts';
import type { StoreEvent } from '../kube/store.ts';

export interface WatchOptions {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
  /** Called on every change, with the kind of the object. */
  readonly onEvent: (kind: string, event: StoreEvent<KubeObject>) => void;
}

export type Watches = ReturnType<typeof startWatches>;

/** Index values of stores. */
export const byNode = 'node';
export const byClass = 'class';
export const bySecret = 'secret';
export const byController = 'controller';
export const byUid = 'uid';

/** Watches the namespace's machine objects and, without their contents, its Secrets; and the target's Nodes. */
export function startWatches({ control, target, namespace, logger, onEvent }: WatchOptions) {
  const uid = ({ metadata }: KubeObject) => [metadata.uid];
  const controller = (object: KubeObject) => [controllerOf(object) ?? ''];
  const templateClass = ({ spec }: MachineSet | MachineDeployment) => [spec?.template?.spec?.class?.name ?? ''];

  function watch<T extends KubeObject>(
    resource: Resource<T>,
    indexes: Readonly<Record<string, (object: T) => readonly string[]>>,
    metadataOnly = false,
  ): Reflector<T> {
    const notify = (event: StoreEvent<T>) => onEvent(resource.kind, event);
    return startReflector({ client: control, resource, namespace, indexes, metadataOnly, onEvent: notify, logger });
  }

  const reflectors = {
    machines: watch(machines, {
      [byNode]: ({ metadata }) => [metadata.labels?.[labels.node] ?? ''],
      [byClass]: ({ spec }) => [spec?.class?.name ?? ''],
      [byController]: controller,
    }),
    sets: watch(machineSets, { [byUid]: uid, [byController]: controller, [byClass]: templateClass }),
    deployments: watch(machineDeployments, { [byUid]: uid, [byClass]: templateClass }),
    classes: watch(machineClasses, { [bySecret]: (object) => secretsOf(object).map(({ name }) => name) }),
    secrets: watch(secrets, {}, true),
    nodes: startReflector({
      client: target,
      resource: nodes,
      transform: slim,
      onEvent: (event) => onEvent('Node', event),
      logger,
    }),
  };
  const { nodes: nodeReflector, ...required } = reflectors;
  return {
    machines: reflectors.machines.store,
    sets: reflectors.sets.store,
    deployments: reflectors.deployments.store,
    classes: reflectors.classes.store,
    secrets: reflectors.secrets.store,
    nodes: nodeReflector.store,
    /** Resolves when everything in the control cluster is known. Nodes may take longer: until then they are unknown. */
    async waitForSync(): Promise<void> {
      await Promise.all(Object.values(required).map((reflector) => reflector.waitForSync()));
    },
    /** Kinds that are not known yet. */
    missing(): string[] {
      return Object.entries(reflectors)
        .filter(([, { store }]) => !store.synced)
        .map(([kind]) => kind);
    },
    async stop(): Promise<void> {
      await Promise.all(Object.values(reflectors).map((reflector) => reflector.stop()));
    },
  };
}

/** Of a Node only what decisions need: images and heartbeats of thousands would fill the memory. */
function slim({ metadata, spec, status }: Node): Node {
  const { name, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels: own, finalizers } = metadata;
  const conditions = status?.conditions?.map((condition) => ({ type: condition.type, status: condition.status })) ?? [];
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      creationTimestamp,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(own !== undefined && { labels: own }),
      ...(finalizers !== undefined && { finalizers }),
    },
    spec: {
      ...(spec?.taints !== undefined && { taints: spec.taints }),
      ...(spec?.providerID !== undefined && { providerID: spec.providerID }),
    },
    status: { conditions },
  };
}
