/**
 * The creation of a VM as a value: what to ask the cloud next, and what an answer makes of it. Pure, because invariant
 * 1 rests on it: at most one VM of a Machine survives.
 */
import { failures } from '../../../api/failures.ts';
import type { EnsureVmRequest, Vm } from '../../../api/provider.ts';
import type { Failure } from '../../calls/failure.ts';

/** What is known of a Machine's VM. */
export type Creation =
  /** The Machine has no VM: nothing was asked for, or every call was refused for certain. */
  | {
      readonly state: 'none';
      /** Of the next attempt. Part of its token. */
      readonly ordinal: number;
      /** A refusal may have left a disk or a NIC in the cloud. */
      readonly mayHaveParts: boolean;
    }
  /** A call may have made a VM, and the Machine names none. No later refusal can disprove that. */
  | {
      readonly state: 'asked';
      /** Left out when the run that made it was lost. */
      readonly attempt?: Attempt;
      /** The last call certainly made no VM. Once the source was corrected, a new attempt replaces this one. */
      readonly isRefused: boolean;
    }
  /** The Machine names its VM. */
  | {
      readonly state: 'named';
      /** Left out once its Node has joined. */
      readonly attempt?: Attempt;
      /**
       * Its Node has joined, so the cloud lists the VM. A later call that is not refused sets it to false: it may
       * create one.
       */
      readonly hasJoined: boolean;
    };

/** A request for a VM. Calls repeat it unchanged until its outcome is known. */
export interface Attempt {
  /** How many attempts for this VM were given up before this one. */
  readonly ordinal: number;
  /** Version of the source that the request was made from; empty where it was made from what the Machine records. */
  readonly version: string;
  readonly provider: string;
  /** When its user data has to be rendered again, ms since the epoch: a bootstrap token in it expires. */
  readonly renewUserDataAtMs?: number;
  readonly request: Omit<EnsureVmRequest, 'outcomeUnknown' | 'providerID' | 'lastKnownState'>;
}

/** What to ask the cloud for. */
export type Ask =
  /** The same again: a VM may come of it, and clouds compare the requests of a token. */
  | { readonly kind: 'repeat'; readonly attempt: Attempt }
  /** A new attempt from the source as it is now, under a token of its own. */
  | { readonly kind: 'new'; readonly ordinal: number }
  /** An attempt where the Machine records that its VM may be: a run that was lost has asked there. */
  | { readonly kind: 'resume' };

/** Nothing was asked for yet. */
export const notAsked: Creation = { state: 'none', ordinal: 0, mayHaveParts: false };

/**
 * What an object says of its creation to a run that knows nothing of earlier ones.
 * @param hasFinalizer no call is made before our finalizer is on the Machine
 */
export function recoverCreation(hasFinalizer: boolean, isNamed: boolean, hasJoined: boolean): Creation {
  if (isNamed) return { state: 'named', hasJoined };
  return hasFinalizer ? { state: 'asked', isRefused: false } : notAsked;
}

/** What to ask the cloud for next. `sourceVersion` is left out where the source was not read. */
export function nextAsk(creation: Creation, sourceVersion: string | undefined): Ask {
  if (creation.state === 'none') return { kind: 'new', ordinal: creation.ordinal };
  const { attempt } = creation;
  if (attempt === undefined) return { kind: 'resume' };
  const isCorrected = sourceVersion !== undefined && sourceVersion !== attempt.version;
  if (creation.state === 'asked' && creation.isRefused && isCorrected) {
    return { kind: 'new', ordinal: attempt.ordinal + 1 };
  }
  return { kind: 'repeat', attempt };
}

/**
 * What an answer makes of the creation.
 * @param before the creation before the call; it is the same after a call that no worker has taken
 * @param answer `lost`: none came, as while the call is under way and after it was cancelled
 */
export function afterCall(before: Creation, attempt: Attempt, answer: Vm | Failure | 'lost'): Creation {
  const isFailure = answer !== 'lost' && 'code' in answer;
  if (isFailure && answer.blockedOn === 'ProviderWorker') return before;
  const isRefused = isFailure && !answer.outcomeUnknown;
  if (before.state === 'named') return { ...before, attempt, hasJoined: before.hasJoined && isRefused };
  if (isRefused && before.state === 'none') {
    const isNothingMade = answer.nothingMade || failures[answer.code].nothingMade;
    const mayHaveParts = before.mayHaveParts || !isNothingMade;
    return { state: 'none', ordinal: attempt.ordinal + 1, mayHaveParts };
  }
  return { state: 'asked', attempt, isRefused };
}

/** The creation of a Machine that names a VM, or does not. It may have lost the name to a restored backup. */
export function withName(creation: Creation, isNamed: boolean): Creation {
  const isKnown = creation.state === 'named';
  if (isNamed === isKnown) return creation;
  const attempt = creation.state !== 'none' && creation.attempt !== undefined && { attempt: creation.attempt };
  return isNamed ? { state: 'named', ...attempt, hasJoined: false } : { state: 'asked', ...attempt, isRefused: false };
}

/** Whether a call may have left anything in the cloud: then no deletion is done before the cloud was asked. */
export function mayHaveVm(creation: Creation): boolean {
  return creation.state !== 'none' || creation.mayHaveParts;
}

/** Whether there may be a VM that the cloud does not list yet. */
export function isOutcomeUnknown(creation: Creation): boolean {
  return creation.state === 'asked' || (creation.state === 'named' && !creation.hasJoined);
}
