/** Where volumes are attached, and which nodes have room for more: one watch for all drains of a worker. */
import type { KubeClient } from '../../../kube/client.ts';
import { csiNodes, nodes, type VolumeAttachment, volumeAttachments } from '../../../kube/core.ts';
import type { Logger } from '../../../kube/logger.ts';
import { startReflector } from '../../../kube/reflector.ts';

/** What the API server says of the volumes of all nodes. */
export interface Attachments {
  /** Whether all of it is known. Before that the other answers mean nothing. */
  isKnown(): boolean;
  /** Whether a VolumeAttachment says that the volume is attached to another node. */
  isAttachedElsewhere(nodeName: string, volume: string): boolean;
  /** Names of the PersistentVolumes that are attached to the node. */
  volumesOf(nodeName: string): readonly string[];
  /** How many more volumes of a CSI driver can be attached to the other nodes that accept pods. */
  roomBeside(nodeName: string, driver: string): number;
}

export type WatchAttachments = ReturnType<typeof watchAttachments>;

/** Called with a VolumeAttachment that has changed, and without one when more is known. */
type OnChange = (changed?: VolumeAttachment) => void;

/** How long the watch goes on when no drain uses it, ms: drains that a budget blocks come back. */
const lingerMs = 60_000;

/** @param target holds the Nodes */
export function watchAttachments({ target, logger }: { readonly target: KubeClient; readonly logger: Logger }) {
  const users = new Set<OnChange>();
  let running: ReturnType<typeof startWatch> | undefined;
  let linger: NodeJS.Timeout | undefined;

  function stop(): Promise<void> {
    const { stop: stopped = async () => undefined } = running ?? {};
    clearTimeout(linger);
    running = undefined;
    return stopped();
  }

  return {
    /** Starts the watch, or uses that of another drain. What rooms there are changes without a call. */
    use(onChange: OnChange): Attachments & { release(): void } {
      clearTimeout(linger);
      running ??= startWatch(target, logger, (changed) => {
        for (const user of users) user(changed);
      });
      users.add(onChange);
      const release = () => {
        users.delete(onChange);
        clearTimeout(linger);
        if (users.size === 0) linger = setTimeout(() => void stop(), lingerMs).unref();
      };
      return { ...running.view, release };
    },
    stop,
  };
}

function startWatch(client: KubeClient, logger: Logger, onChange: OnChange) {
  const onSync = ({ kind }: { readonly kind: string }) => {
    if (kind === 'synced') onChange();
  };
  const options = { client, logger, onEvent: onSync };
  const attached = startReflector({
    ...options,
    onEvent: (event) => (event.kind === 'synced' ? onChange() : onChange(event.object)),
    resource: volumeAttachments,
    indexes: {
      node: ({ spec }) => (spec?.nodeName === undefined ? [] : [spec.nodeName]),
      volume: ({ spec }) => (spec?.source.persistentVolumeName ? [spec.source.persistentVolumeName] : []),
    },
  });
  const drivers = startReflector({ ...options, resource: csiNodes });
  const open = startReflector({
    ...options,
    resource: nodes,
    fieldSelector: 'spec.unschedulable=false',
    metadataOnly: true,
  });
  const watches = [attached, drivers, open];

  function roomOn(nodeName: string, driver: string): number {
    const { spec } = drivers.store.get({ name: nodeName }) ?? {};
    const found = spec?.drivers.find(({ name }) => name === driver);
    if (found === undefined) return 0;
    const used = attached.store.byIndex('node', nodeName).filter((each) => each.spec?.attacher === driver).length;
    return Math.max((found.allocatable?.count ?? Number.POSITIVE_INFINITY) - used, 0);
  }

  const view: Attachments = {
    isKnown: () => watches.every(({ store }) => store.synced),
    isAttachedElsewhere: (nodeName, volume) =>
      attached.store
        .byIndex('volume', volume)
        .some(({ spec, status }) => spec?.nodeName !== nodeName && status?.attached === true),
    volumesOf: (nodeName) =>
      attached.store.byIndex('node', nodeName).flatMap(({ spec }) => spec?.source.persistentVolumeName ?? []),
    roomBeside: (nodeName, driver) =>
      open.store
        .list()
        .map(({ metadata: { name } }) => (name === nodeName ? 0 : roomOn(name, driver)))
        .reduce((sum, room) => sum + room, 0),
  };

  return {
    view,
    async stop(): Promise<void> {
      await Promise.all(watches.map((watch) => watch.stop()));
    },
  };
}
