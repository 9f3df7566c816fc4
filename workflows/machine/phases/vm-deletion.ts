/** How every VM of a machine is deleted, wherever it may have been made. */
import { patched } from '@temporalio/workflow';
import type { PlacesReading } from '../../../activities/machine/places.ts';
import type { Place } from '../../../api/model/source.ts';
import { type Blocker, names } from '../../../api/names.ts';
import type { VmDeletion } from '../../../api/provider.ts';
import { type Failure, isSameError } from '../../calls/failure.ts';
import { deleteVm } from '../../calls/provider.ts';
import { commandLine } from '../../command-line.ts';
import { kubernetes, kubernetesSteps } from '../kubernetes.ts';
import { nodeNameOf } from '../node.ts';
import { setMachine } from '../observe.ts';
import { again, deletionPollMs, firstPollIntervalMs, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { forgetError, showRetry, showWait } from '../progress.ts';
import { findRemedy, reportRefusal, seeLastError, withContext } from '../report.ts';
import { type MachineState, timeIn } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { isOutcomeUnknown, mayHaveVm } from './creation.ts';
import { findVmOwner, forgetVmOwner } from './vm-owner.ts';

/** What the cloud said of the VMs in all places. */
interface Deletions {
  readonly refusals: readonly { readonly place: Place; readonly failure: Failure }[];
  /** Nodes of VMs that the Machine did not know. */
  readonly nodeNames: readonly string[];
  /** The VM that another system has made for the Machine. */
  readonly untaggedVm?: VmDeletion['untaggedVm'];
  readonly isGone: boolean;
  /** After how long the first of the providers wants to be asked again, as far as one has said so. */
  readonly askAgainMs?: number;
}

/** How VMs are deleted in a place. */
interface DeletionOptions {
  /** Only those whose Nodes have these names. */
  readonly nodeNames?: readonly string[];
  /** Another system may have made one, without a UID tag. */
  readonly mayBeUntagged?: boolean | undefined;
}

/** One call to delete every VM of the Machine in a place. A VM that it names and that another Machine has stays. */
export async function deleteVmIn(
  state: MachineState,
  place: Place,
  { nodeNames, mayBeUntagged }: DeletionOptions = {},
) {
  const { uid, namespace, name } = state.ref;
  const { lastKnownState } = state.machine;
  const providerID = (await findVmOwner(state, 'deletion')) === undefined ? state.machine.providerID : undefined;
  return deleteVm(place, {
    machine: { uid, namespace, name },
    outcomeUnknown: isOutcomeUnknown(state.creation),
    ...(providerID !== undefined && { providerID }),
    ...(nodeNames !== undefined && { nodeNames: [...nodeNames] }),
    ...(mayBeUntagged && { mayBeUntagged }),
    ...(lastKnownState !== undefined && { lastKnownState }),
  });
}

/**
 * Deletes every VM of the Machine. Needs no provider ID: a VM whose create call was never answered is deleted, too.
 * @param findPlaces where they may be. Called each time before VMs are deleted: throws when they must not be
 * @returns what to wait for while there may still be a VM; undefined when all are gone
 */
export async function deleteVms(
  state: MachineState,
  doing: string,
  findPlaces: () => Promise<PlacesReading>,
): Promise<PhaseOutcome | undefined> {
  if (!mayHaveVm(state.creation) && state.machine.providerID === undefined) return undefined;

  showRetry(state, { doing, waitingFor: 'the cloud' });
  const { places, nodeNames = [], replacements = 0, mayBeUntagged, reading, problem } = await findPlaces();
  state.reading = reading;
  state.leftNodes = [...new Set([...state.leftNodes, ...nodeNames])];
  state.replacements = Math.max(state.replacements, replacements);
  if (problem !== undefined) {
    const unblock = reading.problem === undefined ? seeLastError : undefined;
    return refused(state, doing, { code: 'InvalidArgument', message: problem, blockedOn: 'Source' }, { unblock });
  }

  const { refusals, nodeNames: found, untaggedVm, isGone, askAgainMs } = await deleteIn(state, places, mayBeUntagged);
  if (untaggedVm !== undefined) return takeUntagged(state, doing, untaggedVm);
  // Recorded before their VMs are deleted: whatever is lost then, their Nodes are deleted, too.
  if (found.length > 0) {
    state.leftNodes = [...state.leftNodes, ...found];
    setMachine(state, await untilAnswered(state, doing, () => kubernetes.rememberNodes(state.ref, found)));
    return again;
  }
  const [refusal] = refusals;
  if (refusal !== undefined) {
    forgetVmOwner(state);
    const { place, failure } = refusal;
    const isPresent = JSON.stringify(place) === JSON.stringify(reading.cloud);
    const unblock = isPresent ? undefined : movedRemedy(state, place, failure.blockedOn);
    return refused(state, doing, failure, { unblock, isFromCloud: true });
  }
  forgetError(state);
  const { vmDeletedMs = Date.now() } = state;
  if (isGone) {
    delete state.vmDeletedMs;
    return undefined;
  }
  state.vmDeletedMs = vmDeletedMs;
  const pauseMs = patched('deletions-are-asked-about-when-the-provider-says')
    ? deletionPollMs(Date.now() - vmDeletedMs, askAgainMs)
    : firstPollIntervalMs;
  const isLate = Date.now() >= vmDeletedMs + lateDeletionMs;
  showWait(state, {
    doing,
    waitingFor: `the cloud to finish since ${new Date(vmDeletedMs).toISOString()}`,
    until: timeIn(pauseMs),
    ...(isLate && { blockedOn: 'CloudApi', unblock: 'See in the cloud what keeps the VM and what belongs to it.' }),
  });
  return waitFor(pauseMs);
}

/**
 * From when on people have to see that a cloud does not finish a deletion that it has accepted, ms. Most take a minute
 * or two.
 */
const lateDeletionMs = 10 * 60_000;

/** The VM is the Machine's from here on: the deletion begins again, and drains its Node first. */
async function takeUntagged(
  state: MachineState,
  doing: string,
  { providerID, nodeName }: NonNullable<VmDeletion['untaggedVm']>,
): Promise<PhaseOutcome> {
  const { ref, machine } = state;
  const hasNode = nodeName !== undefined && !machine.limits.hasNoNode;
  const identity = { providerID, ...(hasNode && { nodeName }) };
  state.namedByCloud = identity;
  const report = withContext(state, {
    stage: machine.stage,
    step: { kind: hasNode ? 'drain' : 'deleteVm', state: 'processing' },
    isTimed: false,
    event: { reason: 'VmFound', note: `The VM ${providerID} has the name of the Machine and the tags of its class` },
  });
  const step = () => kubernetesSteps.storeIdentity(ref, machine, identity, report);
  setMachine(state, await untilAnswered(state, doing, step));
  state.stale = true; // its Node was not looked for
  state.deletionAnnounced = false;
  return again;
}

/** One call to each place. A refusal in one keeps no VM in another. */
async function deleteIn(
  state: MachineState,
  places: readonly Place[],
  mayBeUntagged: true | undefined,
): Promise<Deletions> {
  const nodeName = nodeNameOf(state);
  const known = new Set([...(nodeName === undefined ? [] : [nodeName]), ...state.leftNodes]);
  const { hasNoNode = false } = state.machine.limits;
  const refusals: { place: Place; failure: Failure }[] = [];
  const nodeNames: string[] = [];
  const asksMs: number[] = [];
  let isGone = true;
  for (const place of places) {
    const options = { mayBeUntagged, ...(!hasNoNode && { nodeNames: [...known] }) };
    const deletion = await deleteVmIn(state, place, options);
    if ('code' in deletion) refusals.push({ place, failure: deletion });
    else {
      const { untaggedVm, askAgainAfterSeconds } = deletion;
      if (askAgainAfterSeconds !== undefined) asksMs.push(askAgainAfterSeconds * 1_000);
      if (mayBeUntagged && untaggedVm !== undefined) return { refusals, nodeNames, untaggedVm, isGone: false };
      if (!hasNoNode) nodeNames.push(...deletion.nodeNames.filter((each) => !known.has(each)));
      if (nodeName !== undefined && deletion.nodeNames.includes(nodeName)) state.namedByCloud ??= { nodeName };
      isGone &&= deletion.state === 'gone';
    }
  }
  return { refusals, nodeNames, isGone, ...(asksMs.length > 0 && { askAgainMs: Math.min(...asksMs) }) };
}

/** The source that the VM was made from has changed since: correcting it does not help. */
function movedRemedy(state: MachineState, { provider, origin }: Place, blockedOn: Blocker): string {
  const first = blockedOn === 'Source' ? undefined : findRemedy(state, blockedOn);
  const source = origin === undefined ? 'a source' : `${origin.kind} ${origin.name}, generation ${origin.generation}`;
  return (
    `${first === undefined ? '' : `${first} `}The VM was made by provider ${provider} from ${source}, which has changed ` +
    `since: the annotation ${names.places} of the Machine says where, and with which Secrets. Another annotation counts ` +
    'only if a source says the same; without it Millwright looks where the source says now. Then run ' +
    `\`${commandLine('retry', state.ref)}\`.`
  );
}

/** Since when the deletion was refused in this way, ms from now; 0 the first time. */
function msRefused({ progress: { lastError }, deletionSeenMs = 0 }: MachineState, failure: Refused): number {
  if (lastError === undefined || !isSameError(lastError, failure)) return 0;
  return Date.now() - Math.max(Date.parse(lastError.since), deletionSeenMs);
}

type Refused = Pick<Failure, 'code' | 'message' | 'blockedOn' | 'retryAfterMs' | 'requestId'>;

async function refused(
  state: MachineState,
  doing: string,
  failure: Refused,
  { unblock, isFromCloud }: { readonly unblock: string | undefined; readonly isFromCloud?: true },
): Promise<PhaseOutcome> {
  const { code, message, blockedOn } = failure;
  const { deletingSince, stage } = state.machine;
  const refusedForMs = patched('deletions-are-tried-again-soon') ? msRefused(state, failure) : Infinity;
  const pauseMs = retryPauseMs(failure, 'deletion', { refusedForMs });
  const activity = {
    doing,
    waitingFor: 'a change that helps, or the next try',
    until: timeIn(pauseMs),
    blockedOn,
    error: failure,
    unblock: unblock ?? findRemedy(state, blockedOn) ?? seeLastError,
  };
  await reportRefusal(state, activity, {
    stage: deletingSince === undefined ? stage : 'deleting',
    reason: 'FailedDelete',
    step: { kind: 'deleteVm', code, message, ...(isFromCloud && { isFromCloud }) },
  });
  return waitFor(pauseMs);
}
