/** Phase delete: nothing of the Machine is left, and our finalizer goes last. */
import type { ClassReading } from '../../api/model.ts';
import { deleteVm } from './cloud.ts';
import { type Failure, toOperationText } from './failure.ts';
import { kubernetes, type Life, look, Outdated, untilAnswered } from './life.ts';
import { removeUserData } from './node.ts';
import { done, firstAskPauseMs, type PhaseOutcome, retryPauseMs, waitFor } from './phase.ts';
import { forgetError, showProgress, showRetry } from './progress.ts';
import { remedy, timeIn, writeRefusal, writeStatus } from './status.ts';

/**
 * Deletes everything that carries the Machine's UID from the cloud, then the Node, then what was made for the Machine,
 * then the finalizer. It needs to know no provider ID: a VM whose create call was never answered goes, too.
 */
export async function remove(life: Life): Promise<PhaseOutcome> {
  const kept = await removeVm(life);
  if (kept !== undefined) return kept;

  const { nodeName, providerID } = life.machine;
  for (const name of new Set([...(nodeName === undefined ? [] : [nodeName]), ...life.leftNodes])) {
    showProgress(life, { doing: `deleting the node ${name}` });
    await untilAnswered(life, 'deleting the node', () => kubernetes.removeNode(life.ref, name, providerID));
  }
  await removeUserData(life);
  showProgress(life, { doing: 'removing the finalizer' });
  await untilAnswered(life, 'removing the finalizer', () => kubernetes.removeFinalizer(life.ref));
  return done;
}

/** Answers with what to wait for while there may still be a VM. */
async function removeVm(life: Life): Promise<PhaseOutcome | undefined> {
  const doing = 'deleting the VM';
  if (!life.mayHaveVm && life.machine.providerID === undefined) return undefined;

  const { name } = life.machine.class;
  const reading = await untilAnswered(life, doing, () => kubernetes.readClass(life.ref, name));
  life.reading = reading;
  if (reading.cloud === undefined) {
    const failure = classMissing(reading);
    return refused(life, doing, failure, failure.message);
  }

  showRetry(life, { doing, waitingFor: 'the cloud' });
  await announce(life);
  const deletion = await deleteVm(life, reading.cloud);
  if ('code' in deletion) return refused(life, doing, deletion);
  forgetError(life);
  life.leftNodes = [...new Set([...life.leftNodes, ...deletion.nodeNames])];
  if (deletion.state === 'gone') return undefined;
  showProgress(life, { doing, waitingFor: 'the cloud to finish', until: timeIn(firstAskPauseMs) });
  return waitFor(firstAskPauseMs);
}

/**
 * The last step that takes time says so on the Machine, once. Each time the Machine is seen live before its VM goes: it
 * may not be deleted any more, after its cluster was set back.
 */
async function announce(life: Life): Promise<void> {
  if (life.deletionAnnounced) {
    await look(life);
  } else {
    life.deletionAnnounced = true;
    const operation = { type: 'Delete', state: 'Processing', description: 'Initiate VM deletion' } as const;
    await writeStatus(life, { phase: 'Terminating', operation });
  }
  if (life.machine.deletingSince === undefined) throw new Outdated();
}

async function refused(
  life: Life,
  doing: string,
  failure: Failure,
  text = toOperationText(failure),
): Promise<PhaseOutcome> {
  const { code, message, blockedOn } = failure;
  const pauseMs = retryPauseMs(failure, 'deletion');
  showProgress(life, {
    doing,
    waitingFor: 'a change that helps, or the next try',
    until: timeIn(pauseMs),
    blockedOn,
    error: failure,
    unblock: remedy[blockedOn] ?? 'See the last error.',
  });
  const operation = { type: 'Delete', state: 'Failed', description: `Initiate VM deletion: ${text}` } as const;
  await writeRefusal(life, { phase: 'Terminating', reason: 'FailedDelete', code, message, operation });
  return waitFor(pauseMs);
}

function classMissing({ problem }: ClassReading): Failure {
  const message = `${problem ?? 'the MachineClass is missing'}: the VM cannot be found without it`;
  return { code: 'InvalidArgument', message, outcomeUnknown: false, blockedOn: 'Class' };
}
