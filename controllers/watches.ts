/** What the controllers watch, each kind once, and the indexes by which its objects are found. */

import { secretsOf } from '../api/gardener/machine/source.ts';
import { labels } from '../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import type { KubeObject, Resource } from '../api/objects.ts';
import { controllerOf } from '../api/owner/view.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Node, nodes, secrets } from '../kube/core.ts';
import type { Logger } from '../kube/logger.ts';
import { type Reflector, type ReflectorOptions, startReflector } from '../kube/reflector.ts';
import type { StoreEvent } from '../kube/store.ts';

export interface WatchOptions {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly namespace: string;
  readonly logger: Logger;
  readonly onChange: (kind: Kind, change: Exclude<StoreEvent<KubeObject>, { kind: 'synced' }>) => void;
  /** Called after each full list. `isRestored`: the server was restored from a backup. */
  readonly onListed: (kind: Kind, isRestored: boolean) => void;
}

/** The kinds that are watched, by what they are to the engine. */
export type Kind = 'machines' | 'sets' | 'deployments' | 'classes' | 'secrets' | 'nodes';

export type Watches = ReturnType<typeof startWatches>;

/** Index values of stores. */
export const byNode = 'node';
export const byClass = 'class';
export const bySecret = 'secret';
export const byController = 'controller';
export const byUid = 'uid';

/** Name of the class that a Machine, or the template of a set or deployment, refers to; '' for none. */
export function classOf({ spec }: KubeObject & { spec?: ClassUser }): string {
  return spec?.class?.name ?? spec?.template?.spec?.class?.name ?? '';
}

interface ClassUser {
  readonly class?: { readonly name?: string };
  readonly template?: { readonly spec?: { readonly class?: { readonly name?: string } } };
}

/** Watches the namespace's machine objects and, without their contents, its Secrets; and the target's Nodes. */
export function startWatches({ control, target, namespace, logger, onChange, onListed }: WatchOptions) {
  const uid = ({ metadata }: KubeObject) => [metadata.uid];
  const controller = (object: KubeObject) => [controllerOf(object) ?? ''];
  const ofClass = (object: KubeObject) => [classOf(object)];

  function watch<T extends KubeObject>(
    kind: Kind,
    resource: Resource<T>,
    options: Partial<Pick<ReflectorOptions<T>, 'client' | 'namespace' | 'indexes' | 'metadataOnly' | 'transform'>> = {},
  ): Reflector<T> {
    return startReflector({
      client: control,
      resource,
      namespace,
      ...options,
      onEvent: (event) => (event.kind === 'synced' ? onListed(kind, event.isRestored) : onChange(kind, event)),
      logger,
    });
  }

  const reflectors = {
    machines: watch('machines', machines, {
      indexes: {
        [byNode]: ({ metadata }) => [metadata.labels?.[labels.node] ?? ''],
        [byClass]: ofClass,
        [byController]: controller,
      },
    }),
    sets: watch('sets', machineSets, { indexes: { [byUid]: uid, [byController]: controller, [byClass]: ofClass } }),
    deployments: watch('deployments', machineDeployments, { indexes: { [byUid]: uid, [byClass]: ofClass } }),
    classes: watch('classes', machineClasses, {
      indexes: { [bySecret]: (object) => secretsOf(object).map(({ name }) => name) },
    }),
    secrets: watch('secrets', secrets, { metadataOnly: true }),
    nodes: watch('nodes', nodes, { client: target, namespace: undefined, transform: slim }),
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
