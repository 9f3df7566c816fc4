/** Which pods of a node may leave now, and which volumes a drain waits for. */
import type { KubeClient } from '../../../kube/client.ts';
import type { Node, Pod, VolumeAttachment } from '../../../kube/core.ts';
import { temporalNowMs } from '../../boundary.ts';
import type { Attachments, WatchAttachments } from './attachments.ts';
import type { Evictions } from './evictions.ts';
import {
  type Claimant,
  endOfLeaving,
  type Move,
  type Moves,
  mayLeave,
  nextMoves,
  sharedVolumes,
  type VolumePolicy,
} from './moves.ts';
import { isEvictable, nameOf, uidOf } from './pods.ts';
import { hasClaims, type KnownVolumes, type Volume, volumeReader } from './volumes.ts';

export interface DeparturesOptions extends VolumePolicy {
  readonly target: KubeClient;
  readonly attachments: WatchAttachments;
  readonly nodeName: string;
  readonly known: KnownVolumes;
  readonly evictions: Evictions;
  readonly signal: AbortSignal;
  /** Called when volumes may have moved. */
  onChange(): void;
}

/** What a look at the pods of a node that claim volumes says. */
export interface Departures {
  /** Whether it is known where volumes are. Before that no pod is due. */
  readonly isKnown: boolean;
  /** Those whose evictions may be asked for now. */
  readonly due: readonly Pod[];
  /** How many pods wait until others have left. */
  readonly queued: number;
  /** Volumes that are waited for. */
  readonly moves: readonly Move[];
  /** Volumes of which nobody knows whose they are. While there are any, no pod is due. */
  readonly unknown: readonly Volume[];
}

const nothing: Departures = { isKnown: true, due: [], queued: 0, moves: [], unknown: [] };

/**
 * Whether volumes may be attached to a node where no pod claims any: it reports them, or earlier calls have seen some.
 * The attach/detach controller takes a volume from the status of the Node before it detaches it.
 */
export function mayHaveVolumes({ status }: Node, known: KnownVolumes): boolean {
  return (status?.volumesAttached ?? []).length > 0 || Object.keys(known).length > 0;
}

export function createDepartures(options: DeparturesOptions) {
  const { target, nodeName, known, evictions, signal, isSerial } = options;
  const reader = volumeReader(target, signal);
  let attachments: (Attachments & { release(): void }) | undefined;
  let moves: Moves = new Map();
  const shared = new Set<string>();
  /** Volumes of which a VolumeAttachment says where they are: the Node may lag behind it. */
  const followed = new Set<string>();

  /** Whether a change of the VolumeAttachment may let the drain go on. */
  function concerns({ spec }: VolumeAttachment): boolean {
    return spec?.nodeName === nodeName || moves.has(spec?.source.persistentVolumeName ?? '');
  }

  async function toClaimant(pod: Pod): Promise<[Claimant, readonly Volume[]]> {
    const volumes = await reader.readOf(pod);
    const leavingSinceMs = isEvictable(pod) ? evictions.leavingSinceMs(pod) : undefined;
    const claimant = {
      uid: pod.metadata.uid,
      name: nameOf(pod),
      priority: pod.spec?.priority ?? 0,
      graceMs: 1_000 * (pod.metadata.deletionGracePeriodSeconds ?? pod.spec?.terminationGracePeriodSeconds ?? 30),
      volumes: volumes.filter(({ name }) => known[name]),
      ...(leavingSinceMs !== undefined && { leavingSinceMs }),
    };
    return [claimant, volumes];
  }

  /** The volumes that are attached to the node, of the candidates and of those with a VolumeAttachment. */
  async function readAttached(
    node: Node,
    candidates: readonly Volume[],
    where: Attachments,
  ): Promise<readonly Volume[]> {
    const byAttachment = where.volumesOf(nodeName);
    for (const name of byAttachment) followed.add(name);
    const inStatus = (node.status?.volumesAttached ?? []).map(({ name }) => name);
    const onNode = ({ name }: Volume) =>
      !followed.has(name) && inStatus.some((each) => isOfVolume(each, known[name]?.id));
    const named = await Promise.all(byAttachment.map((name) => reader.read(name)));
    return [...named.filter((volume) => volume !== undefined), ...candidates.filter(onNode)];
  }

  return {
    /** @param onNode all pods of the node */
    async look(onNode: readonly Pod[], node: Node): Promise<Departures> {
      const nowMs = temporalNowMs();
      const claiming = onNode.filter(hasClaims);
      if (claiming.length === 0 && attachments === undefined && !mayHaveVolumes(node, known)) return nothing;

      attachments ??= options.attachments.use((changed) => {
        if (changed === undefined || concerns(changed)) options.onChange();
      });
      const { isKnown, isAttachedElsewhere, roomBeside } = attachments;
      if (!isKnown()) return { ...nothing, isKnown: false };
      const read = await Promise.all(claiming.map(toClaimant));
      const claimants = read.map(([claimant]) => claimant);
      const claimed = read.flatMap(([, volumes]) => volumes);
      const moving = [...moves.values()].map(({ volume }) => volume);
      const attached = await readAttached(node, [...claimed, ...moving], attachments);
      const unknown = [...claimed, ...attached].filter(({ name }) => known[name] === undefined);
      if (unknown.length > 0) return { ...nothing, unknown: distinct(unknown) };

      for (const name of sharedVolumes(claimants)) shared.add(name);
      const ours = attached.filter(({ name }) => known[name]);
      const facts = {
        nowMs,
        claimants,
        attached: ours,
        isAttachedElsewhere: (volume: string) => isAttachedElsewhere(nodeName, volume),
      };
      moves = nextMoves(moves, facts, shared, options);
      const underWay = [...moves.values()].filter(({ untilMs }) => nowMs < untilMs);
      const leaving = claimants.filter((pod) => pod.leavingSinceMs !== undefined && nowMs < endOfLeaving(pod, options));
      const isDue = (pod: Pod) => isEvictable(pod) && evictions.dueMs(pod) <= nowMs;
      const dueUids = new Set(claiming.filter(isDue).map(uidOf));
      const waiting = claimants.filter(({ uid }) => dueUids.has(uid));
      const room = { isSerial, beside: (driver: string) => roomBeside(nodeName, driver) };
      const volumesMoving = underWay.map(({ volume }) => volume);
      const allowed = new Set(mayLeave(waiting, leaving, volumesMoving, room).map(({ uid }) => uid));
      return {
        isKnown: true,
        due: claiming.filter((pod) => allowed.has(uidOf(pod))),
        queued: waiting.length - allowed.size,
        moves: underWay,
        unknown: [],
      };
    },

    stop(): void {
      attachments?.release();
    },
  };
}

function distinct(volumes: readonly Volume[]): readonly Volume[] {
  return [...new Map(volumes.map((volume) => [volume.name, volume])).values()];
}

/** Whether `status.volumesAttached` of a Node means the volume: `kubernetes.io/<plugin>/<id>` or `...^<id>`. */
function isOfVolume(attached: string, id: string | undefined): boolean {
  return id !== undefined && (attached.endsWith(`/${id}`) || attached.endsWith(`^${id}`));
}
