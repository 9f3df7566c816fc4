/** Which pods of a node may leave now, and which volumes a drain waits for. */
import type { KubeClient } from '../../../kube/client.ts';
import type { Node, Pod } from '../../../kube/core.ts';
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
import { isEvictable, nameOf } from './pods.ts';
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

/** What a look at the pods of a node says. */
export interface Departures {
  /** Whose evictions may be asked for now. */
  readonly due: readonly Pod[];
  /** How many pods wait until others have left. */
  readonly queued: number;
  /** Volumes that are waited for. */
  readonly moves: readonly Move[];
  /** Volumes of which nobody knows whose they are. While there are any, no pod that claims volumes is due. */
  readonly unknown: readonly Volume[];
}

export function createDepartures(options: DeparturesOptions) {
  const { target, nodeName, known, evictions, signal, isSerial } = options;
  const reader = volumeReader(target, signal);
  let attachments: (Attachments & { release(): void }) | undefined;
  let moves: Moves = new Map();
  const shared = new Set<string>();
  /** Volumes of which a VolumeAttachment says where they are: the Node may lag behind it. */
  const followed = new Set<string>();

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
    /**
     * @param onNode all pods of the node
     * @param deadline ends the wait for the watch of volumes, with a rejection
     */
    async look(onNode: readonly Pod[], node: Node, deadline: AbortSignal): Promise<Departures> {
      const nowMs = Date.now();
      const evictable = onNode.filter(isEvictable);
      const isDue = (pod: Pod) => evictions.dueMs(pod) <= nowMs;
      const free = evictable.filter((pod) => !hasClaims(pod) && isDue(pod));
      const claiming = onNode.filter(hasClaims);
      const hasVolumes = claiming.length > 0 || (node.status?.volumesAttached ?? []).length > 0;
      if (!hasVolumes && attachments === undefined) return { due: free, queued: 0, moves: [], unknown: [] };

      attachments ??= await options.attachments.use(options.onChange, deadline);
      const { isAttachedElsewhere, roomBeside } = attachments;
      const read = await Promise.all(claiming.map(toClaimant));
      const claimants = read.map(([claimant]) => claimant);
      const claimed = read.flatMap(([, volumes]) => volumes);
      const moving = [...moves.values()].map(({ volume }) => volume);
      const attached = await readAttached(node, [...claimed, ...moving], attachments);
      const unknown = [...claimed, ...attached].filter(({ name }) => known[name] === undefined);
      if (unknown.length > 0) return { due: free, queued: 0, moves: [], unknown: distinct(unknown) };

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
      const dueUids = new Set(claiming.filter((pod) => isEvictable(pod) && isDue(pod)).map(uidOf));
      const waiting = claimants.filter(({ uid }) => dueUids.has(uid));
      const room = { isSerial, beside: (driver: string) => roomBeside(nodeName, driver) };
      const volumesMoving = underWay.map(({ volume }) => volume);
      const allowed = new Set(mayLeave(waiting, leaving, volumesMoving, room).map(({ uid }) => uid));
      return {
        due: [...free, ...claiming.filter((pod) => allowed.has(uidOf(pod)))],
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

function uidOf({ metadata: { uid } }: Pod): string {
  return uid;
}

function distinct(volumes: readonly Volume[]): readonly Volume[] {
  return [...new Map(volumes.map((volume) => [volume.name, volume])).values()];
}

/** Whether `status.volumesAttached` of a Node means the volume: `kubernetes.io/<plugin>/<id>` or `...^<id>`. */
function isOfVolume(attached: string, id: string | undefined): boolean {
  return id !== undefined && (attached.endsWith(`/${id}`) || attached.endsWith(`^${id}`));
}
