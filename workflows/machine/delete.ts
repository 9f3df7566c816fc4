/** Phase delete: nothing of the Machine is left, and our finalizer goes last. */
import type { Place } from '../../api/model/source.ts';
import { type Blocker, names } from '../../api/names.ts';
import { type Failure, toOperationText } from '../calls/failure.ts';
import { deleteVm } from '../calls/provider.ts';
import { kubernetes, type Life, look, StaleStateError, takeMachine, untilAnswered } from './life.ts';
import { removeUserData } from './node.ts';
import { again, done, firstAskPauseMs, type PhaseOutcome, retryPauseMs, waitFor } from './phase.ts';
import { forgetError, showProgress, showRetry } from './progress.ts';
import { remedy, timeIn, writeRefusal, writeStatus } from './status.ts';

/**
 * Deletes everything of the Machine from every place where it may have a VM, then the Node, then what was made for the
 * Machine, then the finalizer. It needs to know no provider ID: a VM whose create call was never answered goes as well.
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

  const read = () => kubernetes.readPlaces(life.ref, life.machine.source);
  const { places, nodeNames = [], reading, problem } = await untilAnswered(life, doing, read);
  life.reading = reading;
  life.leftNodes = [...new Set([...life.leftNodes, ...nodeNames])];
  if (problem !== undefined) {
    const failure = { code: 'InvalidArgument', message: problem, outcomeUnknown: false, blockedOn: 'Class' } as const;
    return refused(life, doing, failure, problem, reading.problem === undefined ? 'See the last error.' : undefined);
  }

  showRetry(life, { doing, waitingFor: 'the cloud' });
  await announce(life);
  const known = new Set([...(life.machine.nodeName === undefined ? [] : [life.machine.nodeName]), ...life.leftNodes]);
  const refusals: { readonly place: Place; readonly failure: Failure }[] = [];
  const named: string[] = [];
  let isLeft = false;
  for (const place of places) {
    const deletion = await deleteVm(life, place, [...known]);
    if ('code' in deletion) refusals.push({ place, failure: deletion });
    else {
      named.push(...deletion.nodeNames.filter((each) => !known.has(each)));
      isLeft ||= deletion.state === 'deleting';
    }
  }
  // Kept before their VMs go: whatever is lost then, their Nodes go, too.
  if (named.length > 0) {
    life.leftNodes = [...life.leftNodes, ...named];
    takeMachine(life, await untilAnswered(life, doing, () => kubernetes.rememberNodes(life.ref, named)));
    return again;
  }
  const [refusal] = refusals;
  if (refusal !== undefined) {
    const { place, failure } = refusal;
    const isPresent = JSON.stringify(place) === JSON.stringify(reading.cloud);
    const unblock = isPresent ? undefined : movedRemedy(place, failure.blockedOn);
    return refused(life, doing, failure, toOperationText(failure), unblock);
  }
  forgetError(life);
  if (!isLeft) return undefined;
  showProgress(life, { doing, waitingFor: 'the cloud to finish', until: timeIn(firstAskPauseMs) });
  return waitFor(firstAskPauseMs);
}

/** The source that the VM was made from has changed since: correcting it does not help. */
function movedRemedy({ provider, origin }: Place, blockedOn: Blocker): string {
  const first = blockedOn === 'Class' ? undefined : remedy[blockedOn];
  const source = origin === undefined ? 'a source' : `${origin.kind} ${origin.name}, generation ${origin.generation}`;
  return (
    `${first === undefined ? '' : `${first} `}The VM was made by provider ${provider} from ${source}, which has changed ` +
    `since: the annotation ${names.places} of the Machine says where, and with which Secrets. Correct the annotation only ` +
    'if you know that it is wrong; without it Millwright looks where the source says now. Then send the signal retryNow.'
  );
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
  if (life.machine.deletingSince === undefined) throw new StaleStateError();
}

async function refused(
  life: Life,
  doing: string,
  failure: Failure,
  text = toOperationText(failure),
  unblock = remedy[failure.blockedOn] ?? 'See the last error.',
): Promise<PhaseOutcome> {
  const { code, message, blockedOn } = failure;
  const pauseMs = retryPauseMs(failure, 'deletion');
  showProgress(life, {
    doing,
    waitingFor: 'a change that helps, or the next try',
    until: timeIn(pauseMs),
    blockedOn,
    error: failure,
    unblock,
  });
  const operation = { type: 'Delete', state: 'Failed', description: `Initiate VM deletion: ${text}` } as const;
  await writeRefusal(life, { phase: 'Terminating', reason: 'FailedDelete', code, message, operation });
  return waitFor(pauseMs);
}
