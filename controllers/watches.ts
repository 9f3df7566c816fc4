/** What the controllers watch, each kind once, and the indexes by which its objects are found. */

import type { Dialect } from '../api/dialect.ts';
import type { MachineLimits, MachineSnapshot } from '../api/model/machine.ts';
import type { KubeObject, Resource } from '../api/objects.ts';
import { controllerOf } from '../api/owner/ownership.ts';
import { vmOf } from '../api/provider-id.ts';
import type { KubeClient } from '../kube/client.ts';
import { type Node, nodes, secrets } from '../kube/core.ts';
import type { Logger } from '../kube/logger.ts';
import { type Reflector, type ReflectorObserver, type ReflectorOptions, startReflector } from '../kube/reflector.ts';
import { createStore, type StoreEvent } from '../kube/store.ts';

/** The kinds that are watched, by what they are to the engine. */
export type Kind = 'machines' | 'sets' | 'deployments' | 'sources' | 'secrets' | 'nodes';

/** A change of one object. */
export type Change = Exclude<StoreEvent<KubeObject>, { kind: 'synced' }>;

/** Makes the observer of a watch. */
export type ObserveWatch = (kind: Kind) => ReflectorObserver;

export interface WatchOptions {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly namespace: string;
  readonly dialect: Dialect;
  readonly defaults: MachineLimits;
  /** How long the API server of the Nodes may not answer until that is an outage. */
  readonly outageMs?: number;
  readonly observeWatch?: ObserveWatch;
  readonly logger: Logger;
  readonly onChange: (kind: Kind, change: Change) => void;
  /** Called after each full list. `isRestored`: the server was restored from a backup. */
  readonly onListed: (kind: Kind, isRestored: boolean) => void;
}

export type Watches = ReturnType<typeof startWatches>;

/** Index of Machines and of Nodes, by the same value: see `nodeKeyOf`. */
export const byNode = 'node';
/** Index of Machines, sets and deployments: name of their source object. */
export const bySource = 'source';
/** Index of what refers to Secrets, by their names: sources, or Machines where these are their own source. */
export const bySecret = 'secret';
/**
 * Index by the UID of the controller that metadata.ownerReferences names; Machines and sets without one are under ''.
 */
export const byController = 'controller';
export const byUid = 'uid';

/** The values by which the objects of a dialect are found. */
export function indexesOf(dialect: Dialect, defaults: MachineLimits) {
  const { source, kinds, machine } = dialect;
  const uid = ({ metadata }: KubeObject) => [metadata.uid];
  const controller = (object: KubeObject) => [controllerOf(object) ?? ''];
  const sourceName = (object: KubeObject) => listOf(source.nameOf(object));
  const secretNames = (object: KubeObject) => source.secretsOf(object).map(({ name }) => name);
  return {
    machines: {
      [byNode]: (object: KubeObject) => listOf(nodeKeyOf(dialect, machine.toSnapshot(object, defaults))),
      [bySource]: sourceName,
      [bySecret]: kinds.source === undefined ? secretNames : () => [],
      [byController]: controller,
    },
    sets: { [byUid]: uid, [byController]: controller, [bySource]: sourceName },
    deployments: { [byUid]: uid, [bySource]: sourceName },
    sources: { [bySecret]: secretNames },
    nodes: {
      [byNode]: ({ metadata: { name: nodeName }, spec }: Node) =>
        listOf(nodeKeyOf(dialect, { nodeName, ...(spec?.providerID && { providerID: spec.providerID }) })),
    },
  };
}

/** Equal for a Machine and its Node; undefined while no Node can be that of the Machine. */
export function nodeKeyOf(
  { policy }: Dialect,
  { nodeName, providerID }: Pick<MachineSnapshot, 'nodeName' | 'providerID'>,
): string | undefined {
  if (policy.nodeMatch === 'name') return nodeName;
  return providerID === undefined ? undefined : vmOf(providerID);
}

function listOf(value: string | undefined): string[] {
  return value ? [value] : [];
}

/** Watches the namespace's machine objects and, without their contents, its Secrets; and the target's Nodes. */
export function startWatches(options: WatchOptions) {
  const { control, target, namespace, dialect, defaults, outageMs, logger, observeWatch, onChange, onListed } = options;
  const { kinds } = dialect;
  const indexes = indexesOf(dialect, defaults);

  function watch<T extends KubeObject>(
    kind: Kind,
    resource: Resource<T>,
    how: Pick<ReflectorOptions<T>, 'indexes' | 'metadataOnly'>,
  ): Reflector<T> {
    const observer = observeWatch?.(kind);
    return startReflector({ client: control, resource, namespace, ...how, observer, onEvent: report(kind), logger });
  }

  function report(kind: Kind): (event: StoreEvent<KubeObject>) => void {
    return (event) => (event.kind === 'synced' ? onListed(kind, event.isRestored) : onChange(kind, event));
  }

  const machines = watch('machines', kinds.machine, { indexes: indexes.machines });
  const sets = watch('sets', kinds.set, { indexes: indexes.sets });
  const deployments = watch('deployments', kinds.deployment, { indexes: indexes.deployments });
  const sources = kinds.source && watch('sources', kinds.source, { indexes: indexes.sources });
  const secretMetadata = watch('secrets', secrets, { metadataOnly: true });
  const targetNodes = startReflector({
    client: target,
    resource: nodes,
    indexes: indexes.nodes,
    ...(outageMs !== undefined && { outageMs }),
    transform: (node) => slim(node, dialect.marks.ownConditions),
    // Where there are no Nodes nothing is ever said of them.
    observer: defaults.hasNoNode ? undefined : observeWatch?.('nodes'),
    onEvent: report('nodes'),
    logger,
  });
  const required = { machines, sets, deployments, ...(sources && { sources }), secrets: secretMetadata };
  const reflectors = { ...required, nodes: targetNodes };

  return {
    machines: machines.store,
    sets: sets.store,
    deployments: deployments.store,
    /** Empty where Machines are their own source. */
    sources: sources?.store ?? createStore<KubeObject>(indexes.sources).store,
    secrets: secretMetadata.store,
    nodes: targetNodes.store,
    /**
     * Resolves when everything in the control cluster is listed. Nodes may take longer: until then they are unknown.
     */
    async waitForSync(): Promise<void> {
      await Promise.all(Object.values(required).map((reflector) => reflector.waitForSync()));
    },
    /** Kinds that are not listed yet. */
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

/** Only what decisions need of a Node: images and heartbeats of thousands would fill the memory. */
function slim({ metadata, spec, status }: Node, ownConditions: readonly string[] = []): Node {
  const { name, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, annotations, finalizers } =
    metadata;
  const conditions = (status?.conditions ?? []).map(({ type, status: value, reason, message, lastTransitionTime }) => ({
    ...{ type, status: value },
    ...(type === 'Ready' && lastTransitionTime && { lastTransitionTime }),
    ...(ownConditions.includes(type) && { ...(reason && { reason }), ...(message && { message }) }),
  }));
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      creationTimestamp,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(labels !== undefined && { labels }),
      ...(annotations !== undefined && { annotations }),
      ...(finalizers !== undefined && { finalizers }),
    },
    spec: {
      ...(spec?.taints !== undefined && { taints: spec.taints }),
      ...(spec?.providerID !== undefined && { providerID: spec.providerID }),
      ...(spec?.unschedulable && { unschedulable: true }),
    },
    status: { conditions, ...(status?.capacity !== undefined && { capacity: status.capacity }) },
  };
}
