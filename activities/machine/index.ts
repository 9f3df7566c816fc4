/**
 * What the workflow of a machine does in Kubernetes: a few requests each, safe to repeat. Run as local activities.
 * Those that answer a Machine answer null when it is gone or its name belongs to another object.
 */

import { asyncLocalStorage } from '@temporalio/activity';
import { stageByNode } from '../../api/attention.ts';
import { commandLineFor } from '../../api/command-line.ts';
import type { MachineIdentityChange } from '../../api/dialect.ts';
import { dialectOf } from '../../api/dialects.ts';
import { type MachineEvent, machineEvents, type SourceEvent, sourceEvents } from '../../api/events.ts';
import type {
  MachineLimits,
  MachineObservation,
  MachineReport,
  MachineSnapshot,
  MachineStage,
} from '../../api/model/machine.ts';
import type { NodeView } from '../../api/model/node.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Place, SourceSnapshot } from '../../api/model/source.ts';
import { names } from '../../api/names.ts';
import { claimToLeft, type FoundNode, toNodeView, toNodeViewOf } from '../../api/node.ts';
import { type KubeObject, referenceTo } from '../../api/objects.ts';
import type { Vm } from '../../api/provider.ts';
import { vmOf } from '../../api/provider-id.ts';
import { withVmTags } from '../../api/vm-tags.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Node } from '../../kube/core.ts';
import { isConflict, isInvalid } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Logger } from '../../kube/logger.ts';
import { mergePatch } from '../../kube/patch.ts';
import { ignoreGoneOrChanged, orNull, update } from '../../kube/update.ts';
import { withoutFinalizer } from '../finalizer.ts';
import { localRequest } from '../local-request.ts';
import type { FindOutage } from '../outage.ts';
import { goneLine, type LogLine, lineOf, secondsInPhase, secondsOfDeletion } from './log.ts';
import { createMaintenanceActivities } from './maintenance.ts';
import { type ClaimingMachine, createNodeActivities } from './nodes.ts';
import { annotationsProblem, createPlaceRecords, type PlacesDeps, type PlacesReading } from './places.ts';
import { createSourceActivities } from './source.ts';
import { createUserDataActivities, type UserDataDeps } from './user-data.ts';
import { createVmOwnerActivities } from './vm-owner.ts';

export interface MachineDeps extends UserDataDeps, PlacesDeps {
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly events: EventRecorder;
  readonly defaults: MachineLimits;
  readonly findOutage: FindOutage;
  readonly onPhaseEnded?: (phase: EndedPhase) => void;
  readonly logger: Pick<Logger, 'info'>;
}

/** A phase in which a machine was. */
export interface EndedPhase {
  /** Its API's own word; empty before the first one. */
  readonly phase: string;
  /** Left out where it is not known. */
  readonly provider?: string;
  readonly seconds: number;
}

export type MachineActivities = ReturnType<typeof createMachineActivities>;

/** A machine and its node as just read. */
export type MachineReading = Pick<MachineObservation, 'machine' | 'node' | 'maintenance'>;

/** The same after a write. */
export interface SyncedNode extends Pick<MachineReading, 'machine' | 'node'> {
  /** The API server refuses a part of what the Machine wants its Node to have; left out otherwise. */
  readonly isTemplateRefused?: true;
  /** What it says of that. */
  readonly nodeRefusal?: string;
}

/** What was found and written before the first call of a cloud. */
export interface Beginning {
  readonly reading: SourceSnapshot;
  /**
   * With our finalizer. null: it has changed since it was seen, and nothing was written. Left out: it had it already,
   * or cannot store where its VM would be made, which is the problem of the reading.
   */
  readonly machine?: MachineSnapshot | null;
}

/** Why a Machine cannot store where its VM would be made. */
export interface PlaceRefusal {
  readonly placeProblem: string;
}

/** Where there may be VMs of a Machine as it is now. */
export interface FoundPlaces extends PlacesReading {
  readonly machine: MachineSnapshot;
}

/** What is done together when nothing is left of the VMs of a deleted Machine. */
export interface Teardown {
  /** The Node that it names; left out where it names none, or one that stays. */
  readonly nodeName?: string;
  /** Nodes of its VMs as the cloud has named them. */
  readonly nodeNames: readonly string[];
  /** One of the Nodes as it was seen, which need not be read. */
  readonly seenNode: NodeView;
  /** Whether there may be Secrets that were made for it alone. */
  readonly hasUserData: boolean;
  /** Nothing is removed in the cluster of the Nodes, which does not answer: the deletion is forced. */
  readonly leavesNodes?: true;
  /** Name of its MachineDeployment, for the log; left out where the run does not know it. */
  readonly deployment?: string;
}

/** What a workflow knows of the Machine whose status it writes. */
export type Known = Pick<
  MachineSnapshot,
  'resourceVersion' | 'createdAt' | 'stage' | 'stageSince' | 'phase' | 'deletingSince'
>;

/** @param deps `control` holds the Machines, `target` the Nodes; they may be the same cluster. */
export function createMachineActivities(deps: MachineDeps) {
  const { control, events, defaults, installation } = deps;

  async function patchMachine(ref: ObjectRef, metadata: object, rest: object = {}): Promise<KubeObject | null> {
    const { kinds } = dialectOf(ref.dialect);
    try {
      const patch = mergePatch({ ...rest, metadata: { uid: ref.uid, ...metadata } });
      return await orNull(() => control.patch(kinds.machine, ref, patch, localRequest()));
    } catch (error) {
      // The patch has our UID: the API server refuses it as invalid when the object has another one.
      if (isInvalid(error) && (await findMachine(ref)) === null) return null;
      throw error;
    }
  }

  async function findMachine(ref: ObjectRef): Promise<KubeObject | null> {
    const machine = await control.find(dialectOf(ref.dialect).kinds.machine, ref, localRequest());
    return machine?.metadata.uid === ref.uid ? machine : null;
  }

  function toSnapshot(ref: ObjectRef, machine: KubeObject): MachineSnapshot {
    return dialectOf(ref.dialect).machine.toSnapshot(machine, defaults);
  }

  function snapshot(ref: ObjectRef, machine: KubeObject | null | undefined): MachineSnapshot | null {
    return machine ? toSnapshot(ref, machine) : null;
  }

  /** Patches the Machine by what `change` makes of it as it is now. */
  async function updateMachine(ref: ObjectRef, change: Parameters<typeof update<KubeObject>>[3]) {
    return snapshot(ref, await update(control, dialectOf(ref.dialect).kinds.machine, ref, change, localRequest()));
  }

  /** Writes what is reported, with its Event. A Machine that fails has the note of its preservation before. */
  async function writeStatus(ref: ObjectRef, seen: Known, report: MachineReport, conditions?: readonly object[]) {
    const { toStatusPatch, toEventNote } = dialectOf(ref.dialect).machine;
    const reported = { ...seen, name: ref.name };
    if (report.stage === 'failed' && seen.stage !== 'failed') await notePreservation(ref, report.stageSince);
    const machine = await patchStatus(ref, seen, report.stage, toStatusPatch(reported, report, new Date(), conditions));
    const { event } = report;
    const after = machine && toSnapshot(ref, machine);
    if (after === null || after.stage !== report.stage) return machine;
    if (event !== undefined) recordEvent(ref, event.reason, event.note ?? toEventNote(reported, report));
    const nowMs = Date.now();
    if (after.phase !== seen.phase) {
      const { provider } = report;
      const seconds = secondsInPhase(seen, nowMs);
      deps.onPhaseEnded?.({ phase: seen.phase, seconds, ...(provider !== undefined && { provider }) });
    }
    const line = lineOf(ref, seen, report, after, nowMs);
    if (line !== undefined) log(line);
    return machine;
  }

  function log({ message, fields }: LogLine): void {
    const workflowId = asyncLocalStorage.getStore()?.info.workflowExecution?.workflowId;
    deps.logger.info({ ...fields, ...(workflowId !== undefined && { workflowId }) }, message);
  }

  /**
   * Patches by resourceVersion, so that a Machine that nobody else has changed is not read. Others may have changed it,
   * but its phase and its deletion are as its workflow knows them. Otherwise the cluster or Temporal was restored from
   * a backup, and nothing is written.
   */
  async function patchStatus(
    ref: ObjectRef,
    { resourceVersion, stage, phase, deletingSince }: Known,
    reportedStage: MachineStage,
    patch: object,
  ): Promise<KubeObject | null> {
    const { kinds } = dialectOf(ref.dialect);
    const options = { ...localRequest(), subresource: 'status' } as const;
    const isKnown = (live: MachineSnapshot) =>
      (live.phase === phase || (stage !== reportedStage && live.stage === reportedStage)) &&
      live.deletingSince === deletingSince;
    try {
      const known = mergePatch({ ...patch, metadata: { resourceVersion } });
      return await orNull(() => control.patch(kinds.machine, ref, known, options));
    } catch (error) {
      if (!isConflict(error)) throw error;
      const change = (live: KubeObject) => (isKnown(toSnapshot(ref, live)) ? patch : undefined);
      return (await update(control, kinds.machine, ref, change, options)) ?? null;
    }
  }

  /** The action is the reason: an error that repeats is one Event, whatever was written with it. */
  function recordEvent(ref: ObjectRef, reason: MachineEvent, note: string): void {
    const regarding = referenceTo(dialectOf(ref.dialect).kinds.machine, ref);
    events.record({ type: machineEvents[reason].type, reason, action: reason, note, regarding });
  }

  /**
   * The Machine with our finalizer, and with these annotations; null when it is gone. undefined when it is not as it
   * was seen: nothing was written.
   */
  async function tryToAddFinalizer(
    ref: ObjectRef,
    { resourceVersion, finalizers: others }: MachineSnapshot,
    annotations?: Readonly<Record<string, string>>,
  ): Promise<MachineSnapshot | null | undefined> {
    const { finalizer } = dialectOf(ref.dialect).marks;
    try {
      const metadata = { resourceVersion, finalizers: [...others, finalizer], ...(annotations && { annotations }) };
      return snapshot(ref, await patchMachine(ref, metadata));
    } catch (error) {
      if (isConflict(error)) return undefined;
      throw error;
    }
  }

  const placeRecords = createPlaceRecords(deps);
  const { readSource } = createSourceActivities(deps);
  const { ensureUserData, removeUserData } = createUserDataActivities(deps);
  const { findNode, viewNode, markNode, markAndUpdateNode, ...nodeActivities } = createNodeActivities(deps);
  const { markInterrupted, viewOutage, isNodeTaken, removeNode, uncordonNode } = nodeActivities;
  const { maintain, notePreservation } = createMaintenanceActivities({ ...deps, findMachine, findNode, recordEvent });

  return {
    readSource,
    ensureUserData,
    removeUserData,
    markInterrupted,
    viewOutage,
    isNodeTaken,
    removeNode,
    uncordonNode,
    maintain,
    ...createVmOwnerActivities({ ...deps, findNode }),

    /** Reads the Machine and, where it has one, its Node. */
    async observeMachine(ref: ObjectRef): Promise<MachineReading | null> {
      const object = await findMachine(ref);
      const machine = object && toSnapshot(ref, object);
      return machine && { machine, ...(await viewNode(ref, object, machine)) };
    },

    /**
     * Reads the source and puts our finalizer on the Machine, unless it has one. The same write stores that its VMs may
     * be made in the place that the source says, or nowhere where that cannot be used.
     * @param mayHaveVm a VM may have been made elsewhere: the recorded places stay
     * @param sourceVersion as a watcher has seen it
     */
    async begin(
      ref: ObjectRef,
      seen: MachineSnapshot,
      mayHaveVm: boolean,
      sourceVersion?: string,
    ): Promise<Beginning | null> {
      const isUsable = seen.problem === undefined;
      const reading = isUsable
        ? await readSource(ref, seen.source, sourceVersion)
        : { version: '', problem: seen.problem };
      if (seen.managed) return { reading };
      const { cloud, problem, refusal } = reading;
      const usable = cloud !== undefined && problem === undefined && refusal === undefined ? [cloud] : [];
      const annotations = mayHaveVm
        ? undefined
        : { ...(await placeRecords.onlyPlaces(ref, usable)), [names.firstUid]: ref.uid };
      try {
        const machine = await tryToAddFinalizer(ref, seen, annotations);
        return machine === null ? null : { reading, machine: machine ?? null };
      } catch (error) {
        const live = isInvalid(error) ? await findMachine(ref) : null;
        const tooMuch = live && annotationsProblem(live, annotations);
        if (!tooMuch) throw error;
        return { reading: { ...reading, problem: tooMuch } };
      }
    },

    /** Puts our finalizer on the Machine and keeps those of others and the recorded places. */
    async addFinalizer(ref: ObjectRef, seen: MachineSnapshot): Promise<MachineSnapshot | null> {
      let known: MachineSnapshot | null = seen;
      while (known !== null && !known.managed && known.deletingSince === undefined) {
        const machine = await tryToAddFinalizer(ref, known);
        if (machine !== undefined) return machine; // also where it is not kept: its workflow tries again later
        known = snapshot(ref, await findMachine(ref));
      }
      return known;
    },

    /**
     * Stores on the Machine that its next VM is made in this place; `others`: it may have one elsewhere already. The
     * places of a Machine that names a VM are kept in any case.
     */
    async rememberPlace(ref: ObjectRef, place: Place, others: boolean): Promise<MachineSnapshot | PlaceRefusal | null> {
      let placeProblem: string | undefined;
      const machine = await updateMachine(ref, async (live) => {
        const isKept = others || toSnapshot(ref, live).providerID !== undefined;
        const { annotations, problem } = isKept
          ? await placeRecords.withPlace(ref, live, place)
          : { annotations: await placeRecords.onlyPlaces(ref, [place]), problem: undefined };
        placeProblem = problem ?? annotationsProblem(live, annotations);
        return placeProblem === undefined ? annotated(annotations) : undefined;
      });
      return placeProblem === undefined ? machine : { placeProblem };
    },

    /** Stores on the Machine that these Nodes are deleted with it: their VMs are deleted next. */
    async rememberNodes(ref: ObjectRef, nodeNames: readonly string[]): Promise<MachineSnapshot | null> {
      return updateMachine(ref, async (live) => annotated(await placeRecords.withNodes(ref, live, nodeNames)));
    },

    /** Where there may be VMs of the Machine, whose snapshot has this `source`. */
    async readPlaces(ref: ObjectRef, source: string): Promise<FoundPlaces | null> {
      const [machine, reading] = await Promise.all([findMachine(ref), readSource(ref, source)]);
      return machine && toPlaces(ref, machine, reading);
    },

    /**
     * Writes that the VMs of the Machine are being deleted, and reads from the same answer where they may be. A Machine
     * that is not as it was `seen` is left as it is.
     */
    async announceDeletion(
      ref: ObjectRef,
      seen: MachineSnapshot,
      report: MachineReport,
      sourceVersion?: string,
    ): Promise<FoundPlaces | null> {
      const reading = await readSource(ref, seen.source, sourceVersion);
      const machine = await writeStatus(ref, seen, report);
      return machine && toPlaces(ref, machine, reading);
    },

    /**
     * Stores which VM backs the Machine, with the tags that it has of its class, unless it names another one than was
     * `seen`: then nothing is written. Then writes what is reported, if the Machine names that VM and is not further
     * than it was `seen`.
     */
    async storeIdentity(
      ref: ObjectRef,
      seen: MachineSnapshot,
      identity: MachineIdentityChange,
      report?: MachineReport,
      vmTags?: Vm['tags'],
    ): Promise<MachineSnapshot | null> {
      const machine = await writeIdentity(ref, seen, identity, vmTags);
      if (machine === null || report === undefined) return machine;
      const isOther = machine.providerID !== identity.providerID;
      const isMoved = machine.stage !== seen.stage || machine.deletingSince !== seen.deletingSince;
      if (isOther || isMoved) return machine;
      const { resourceVersion } = machine;
      // Gone by now: it was not when it named its VM, and the next step finds out.
      return snapshot(ref, await writeStatus(ref, { ...seen, resourceVersion }, report)) ?? machine;
    },

    /**
     * From here on the Machine names no VM: the one it had is gone. It still names the Node, which is removed next, so
     * that whoever takes over knows of it.
     * @param replacements how many VMs of the Machine were replaced, this one included
     */
    async forgetVm(ref: ObjectRef, replacements: number): Promise<MachineSnapshot | null> {
      return updateMachine(ref, (live) => {
        const seen = toSnapshot(ref, live);
        if (seen.providerID === undefined) return undefined;
        const patch = dialectOf(ref.dialect).machine.toIdentityPatch(seen, { providerID: null });
        const annotations = {
          [names.replacements]: String(replacements),
          [names.replacedVm]: seen.providerID,
          [names.vmTags]: null,
        };
        return withAnnotations(patch, annotations);
      });
    },

    /** The last step of a replacement: nothing on the Machine says any more that it had a VM. */
    async finishReplacement(ref: ObjectRef): Promise<MachineSnapshot | null> {
      return updateMachine(ref, (live) => {
        const nothing = { providerID: null, nodeName: null };
        const patch = dialectOf(ref.dialect).machine.toIdentityPatch(toSnapshot(ref, live), nothing);
        return withAnnotations(patch, { [names.replacedVm]: null });
      });
    },

    /** Writes what is reported, with its Event. A Machine in a stage that is not the `seen` one is left as it is. */
    async writeStatus(ref: ObjectRef, seen: Known, report: MachineReport): Promise<MachineSnapshot | null> {
      return snapshot(ref, await writeStatus(ref, seen, report));
    },

    /**
     * Marks the Node as ours, gives it what the Machine wants it to have where it was seen `outdated`, and copies its
     * conditions to the Machine's status, with what is reported unless the Node, as it is now, says that the Machine
     * should be in another stage. What an API server refuses is an Event, and the Node stays `outdated`.
     */
    async syncNode(
      ref: ObjectRef,
      seen: ClaimingMachine,
      report: MachineReport,
      seenNode: NodeView,
    ): Promise<SyncedNode | null> {
      const isOutdated = seenNode.state === 'present' && seenNode.outdated === true;
      const { found, sourceObject, ...refusal } = isOutdated
        ? await tryToUpdateNode(ref, seen)
        : { found: await markNode(ref, seen, seenNode), sourceObject: undefined };
      const { node } = found;
      const view = toNodeView(dialectOf(ref.dialect).marks, found, ref);
      const agrees = stageByNode({ ...seen, stage: report.stage }, view) === report.stage;
      const conditions = view.state === 'present' ? (node?.status?.conditions ?? []) : undefined;
      const machine = await writeStatus(ref, seen, agrees ? report : { stage: seen.stage }, conditions);
      if (machine === null) return null;
      return {
        ...refusal,
        machine: toSnapshot(ref, machine),
        node: toNodeViewOf(dialectOf(ref.dialect), found, machine, sourceObject),
      };
    },

    /**
     * Notes on the source that a Machine of it is gone, and that its VM may not be.
     * @param lost what it said last, for an Event; left out: it may have been deleted by an earlier run
     * @returns whether it is known to be lost
     */
    async noteLostMachine(
      { dialect, namespace, name }: ObjectRef,
      source: string,
      lost?: Pick<MachineSnapshot, 'providerID'>,
    ): Promise<boolean> {
      const { source: resource } = dialectOf(dialect).kinds;
      const isLost = lost !== undefined;
      if (resource === undefined) return isLost;
      const key = { namespace, name: source };
      const patch = mergePatch({ metadata: { annotations: { [names.lostMachine]: new Date().toISOString() } } });
      const noted = await orNull(() => control.patch(resource, key, patch, localRequest()));
      if (noted === null || lost === undefined) return isLost;
      const { providerID: vm } = lost;
      // Events on one class are limited, and a restore of etcd may lose many Machines at once.
      log({
        message: 'the machine is gone without its deletion',
        fields: { namespace, machine: name, source, providerID: vm },
      });
      const reason: SourceEvent = 'MachineLost';
      events.record({
        ...{ type: sourceEvents[reason].type, reason, action: reason },
        regarding: referenceTo(resource, { ...key, uid: noted.metadata.uid }),
        note:
          `Machine ${name} has disappeared although its deletion was not finished, and its VM ` +
          `${vm === undefined ? '' : `${vm} `}may still be there: ` +
          `the next sweep looks for it, and \`${commandLineFor(installation, 'sweep', { namespace })}\` at once`,
      });
      return isLost;
    },

    /** Deletes the Machine, because its Node was. */
    async deleteMachine(ref: ObjectRef): Promise<MachineSnapshot | null> {
      const options = { ...localRequest(), preconditions: { uid: ref.uid } };
      await ignoreGoneOrChanged(async () => {
        await control.delete(dialectOf(ref.dialect).kinds.machine, ref, options);
        recordEvent(ref, 'DeletedWithNode', 'somebody deleted its Node');
      });
      return snapshot(ref, await findMachine(ref));
    },

    /**
     * Deletes the Nodes and Secrets of a Machine that has no VM any more, and releases it: the API server deletes it.
     * Answers false where the API server does not keep that our finalizer is gone, and where a backup was restored in which
     * the Machine is not being deleted.
     */
    async tearDown(ref: ObjectRef, seen: ClaimingMachine, teardown: Teardown): Promise<boolean> {
      const { nodeName, nodeNames, seenNode, hasUserData, leavesNodes, deployment } = teardown;
      if (!leavesNodes) {
        if (nodeName !== undefined) await removeNode(ref, nodeName, seen, seenNode);
        for (const name of nodeNames) await removeNode(ref, name, claimToLeft(seen, name), seenNode);
        if (hasUserData) await removeUserData(ref);
      }
      const released = await removeFinalizer(ref, seen);
      if (released === null) return true;
      const { managed, deletingSince } = toSnapshot(ref, released);
      if (managed || deletingSince === undefined) return false;
      const note = leavesNodes
        ? 'VM and finalizer are gone. The cluster of the Nodes did not answer, and has the Node still'
        : 'VM, Node and finalizer are gone';
      recordEvent(ref, 'Deleted', note);
      const nowMs = Date.now();
      const seconds = secondsOfDeletion(seen, nowMs);
      if (seconds !== undefined) deps.onPhaseEnded?.({ phase: seen.phase, seconds });
      log(goneLine(ref, seen, nowMs, deployment));
      return true;
    },
  };

  /**
   * Marks the Node of a machine and gives it what the Machine wants it to have, as far as the API server accepts that.
   */
  async function tryToUpdateNode(
    ref: ObjectRef,
    seen: ClaimingMachine,
  ): Promise<
    Pick<SyncedNode, 'isTemplateRefused' | 'nodeRefusal'> & {
      readonly found: FoundNode<Node>;
      readonly sourceObject: KubeObject | undefined;
    }
  > {
    const { kinds, source } = dialectOf(ref.dialect);
    const machine = await findMachine(ref);
    if (machine === null) return { found: { node: undefined }, sourceObject: undefined };
    const key = { namespace: ref.namespace, name: source.nameOf(machine) ?? '' };
    const sourceObject = kinds.source && (await control.find(kinds.source, key, localRequest()));
    const { refusals, ...found } = await markAndUpdateNode(ref, seen, machine, sourceObject);
    if (refusals.length === 0) return { found, sourceObject };
    const nodeRefusal = [...new Set(refusals)].join('; ');
    recordEvent(ref, 'NodeTemplateRefused', `nodeTemplate: ${nodeRefusal}`);
    return { found, sourceObject, isTemplateRefused: true, nodeRefusal };
  }

  /**
   * Removes our finalizer from a Machine that is being deleted. Answers what is stored then; null: there is no Machine.
   */
  async function removeFinalizer(ref: ObjectRef, seen: MachineSnapshot): Promise<KubeObject | null> {
    const { kinds, marks } = dialectOf(ref.dialect);
    const { resourceVersion, deletingSince } = seen;
    try {
      const finalizers = seen.finalizers.filter((each) => each !== marks.finalizer);
      if (deletingSince !== undefined) return await patchMachine(ref, { resourceVersion, finalizers });
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
    return (await update(control, kinds.machine, ref, withoutFinalizer(marks.finalizer), localRequest())) ?? null;
  }

  /** Where there may be VMs of a Machine as it was read. */
  async function toPlaces(ref: ObjectRef, object: KubeObject, reading: SourceSnapshot): Promise<FoundPlaces> {
    const machine = toSnapshot(ref, object);
    return { machine, ...(await placeRecords.placesOf(ref, object, machine, reading)) };
  }

  async function writeIdentity(
    ref: ObjectRef,
    seen: MachineSnapshot,
    identity: MachineIdentityChange,
    vmTags: Vm['tags'],
  ): Promise<MachineSnapshot | null> {
    const { toIdentityPatch } = dialectOf(ref.dialect).machine;
    const toPatch = (machine: MachineSnapshot) =>
      withAnnotations(toIdentityPatch(machine, identity), vmTags && withVmTags(vmTags));
    const { metadata, ...rest } = toPatch(seen);
    try {
      return snapshot(ref, await patchMachine(ref, { ...metadata, resourceVersion: seen.resourceVersion }, rest));
    } catch (error) {
      if (!isConflict(error)) throw error;
      return updateMachine(ref, (live) => {
        const now = toSnapshot(ref, live);
        const known = [seen.providerID, identity.providerID].map((id) => id && vmOf(id));
        const isOther = now.providerID !== undefined && !known.includes(vmOf(now.providerID));
        return isOther ? undefined : toPatch(now);
      });
    }
  }
}

/** A patch that changes these annotations as well. */
function withAnnotations(
  patch: { readonly metadata?: { readonly annotations?: object } },
  annotations: Readonly<Record<string, string | null>> | undefined,
): { readonly metadata?: object } {
  if (annotations === undefined) return patch;
  const { metadata, ...rest } = patch;
  return { ...rest, metadata: { ...metadata, annotations: { ...metadata?.annotations, ...annotations } } };
}

/** A change of annotations; undefined for none. */
function annotated(annotations: Readonly<Record<string, string>> | undefined): object | undefined {
  return annotations && { metadata: { annotations } };
}
