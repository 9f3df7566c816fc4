/** Phase drain: no pod is on the Node that could run elsewhere. */
import { isActivityFailure, toFailure } from '../../calls/failure.ts';
import { commandLine } from '../../command-line.ts';
import { nodeNameOf, objectionTo, type Standing, standing, uncordon } from '../node.ts';
import { again, done, type PhaseOutcome, retryPauseMs, waitFor } from '../outcome.ts';
import { type Activity, forgetError } from '../progress.ts';
import { findRemedy, report, reportRefusal } from '../report.ts';
import { isForceWanted, type MachineState, timeIn } from '../state.ts';
import { refresh } from '../wait.ts';
import { longestQuestionMs, settle } from './confirm.ts';
import { drainNode, forgetDrain } from './node-drain.ts';
import { findVmOwner } from './vm-owner.ts';

/**
 * Evicts all pods until the drain timeout; then, or when an operator or the Machine asks for force, deletes them. An
 * order that comes in meanwhile interrupts the drain. Safe to repeat: an empty node is drained at once.
 */
export async function drain(state: MachineState): Promise<PhaseOutcome> {
  state.deletionSeenMs ??= Date.now();
  if (state.machine.stage !== 'deleting') await startDeletion(state);
  const nodeName = nodeNameOf(state);
  const { node, wasUnhealthy } = state;
  if (state.drained || state.skipDrain || nodeName === undefined || node.state === 'absent') return done;
  if ((await findVmOwner(state, 'drain')) !== undefined) return done;
  await settle(state);
  const { objection, denial, failure } = standing(state);
  if (objection !== undefined) return denial === undefined ? hold(state, objection, failure) : done;

  const force = isForceWanted(state);
  const unblock = `\`${commandLine('drain --force', state.ref)}\` deletes the pods, and \`--skip\` instead of \`--force\` leaves them.`;
  try {
    const outcome = await drainNode(state, {
      purpose: 'deletion',
      doing: force ? 'deleting the pods of the node' : 'draining the node',
      nodeName,
      deadlineMs: state.deletionSeenMs + state.machine.limits.drainSeconds * 1_000,
      force,
      unblock,
      isOver: () => state.machine.deletingSince === undefined || state.skipDrain || (isForceWanted(state) && !force),
      reportMistake: (activity, message) => refuse(state, activity, { code: 'FailedPrecondition', message }),
      reportWait: (activity) => reportWait(state, activity),
      ...(node.state === 'present' && node.managed && node.name === nodeName && { nodeUid: node.uid }),
      ...(wasUnhealthy !== undefined && { wasUnhealthy }),
    });
    state.drained = outcome.kind === 'done';
    return outcome;
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    const failure = toFailure(error);
    if (failure.code === 'FailedPrecondition') {
      await refresh(state); // the Node is another one, or could not be read before
      if (objectionTo(state) !== undefined) return again;
    }
    const pauseMs = retryPauseMs({ code: 'Unavailable' }, 'deletion');
    const activity = { doing: 'draining the node', waitingFor: 'the next try', until: timeIn(pauseMs), unblock };
    await refuse(state, { ...activity, blockedOn: 'KubernetesApi' }, failure);
    return waitFor(pauseMs);
  }
}

/** A Node that may be the Machine's, and that nobody may drain, keeps its VM. */
async function hold(state: MachineState, objection: string, failure: Standing['failure']): Promise<PhaseOutcome> {
  const { nodeQuestion, ref } = state;
  const restMs = (nodeQuestion?.untilMs ?? 0) - Date.now();
  const pauseMs = failure === undefined || restMs <= 0 ? longestQuestionMs : restMs;
  const skip = `\`${commandLine('drain --skip', ref)}\` deletes the VM with its pods, and leaves the Node.`;
  const remedy = failure && findRemedy(state, failure.blockedOn);
  const activity = {
    doing: 'draining the node',
    waitingFor: failure === undefined ? 'permission to drain it' : 'the cloud to say whose it is',
    until: timeIn(pauseMs),
    blockedOn: failure?.blockedOn ?? 'Drain',
    unblock: remedy === undefined ? skip : `${remedy} ${skip}`,
  } as const;
  const error = failure ?? ({ code: 'FailedPrecondition', message: objection } as const);
  await refuse(state, activity, { ...error, message: failure ? `${objection}: ${failure.message}` : objection });
  return waitFor(pauseMs);
}

/** Says on the Machine what others have to do for the drain to go on. */
async function reportWait(state: MachineState, activity: Activity): Promise<void> {
  const { blockedOn, waitingFor } = activity;
  const waitsFor = blockedOn === undefined ? undefined : waitingFor;
  const step = { kind: 'drain', state: 'processing', ...(waitsFor !== undefined && { waitsFor }) } as const;
  await report(state, activity, { stage: 'deleting', step, isTimed: false });
  delete state.refusal; // the status does not say it any more
}

/** What keeps the drain is somebody's mistake, who finds it on the Machine. */
async function refuse(state: MachineState, activity: Activity, error: NonNullable<Activity['error']>): Promise<void> {
  const { code, message } = error;
  await reportRefusal(
    state,
    { ...activity, error },
    { stage: 'deleting', reason: 'FailedDrain', step: { kind: 'drain', code, message } },
  );
}

/** Undoes what was done for a deletion that is not wanted any more: a backup from before it was restored. */
export async function abortDeletion(state: MachineState): Promise<void> {
  Object.assign(state, { drained: false, skipDrain: false, forceDeletion: false, deletionAnnounced: false });
  state.mayBeCordoned = true; // until it is known not to be, in whichever run
  delete state.deletionSeenMs;
  delete state.wasUnhealthy;
  forgetDrain(state);
  const nodeName = nodeNameOf(state);
  if (nodeName !== undefined) await uncordon(state, nodeName);
  state.mayBeCordoned = false;
}

async function startDeletion(state: MachineState): Promise<void> {
  const { stage } = state.machine;
  state.wasUnhealthy = stage === 'failed' || stage === 'unhealthy';
  forgetError(state); // of its creation or its node, which do not matter any more
  forgetDrain(state);
  const kind = nodeNameOf(state) === undefined ? 'deleteVm' : 'drain';
  await report(
    state,
    { doing: 'starting the deletion' },
    {
      stage: 'deleting',
      step: { kind, state: 'processing' },
      isTimed: false,
      event: { reason: 'Deleting' },
    },
  );
}
