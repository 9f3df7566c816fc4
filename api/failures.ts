/**
 * The one list of failure codes that a provider may answer with. The codes and their numbering come from
 * machine-controller-manager (docs/reference/failures.md). Plain values: workflow code imports this file.
 */
import type { Blocker } from './names.ts';

interface FailureMeaning {
  readonly meaning: string;
  /**
   * Worth another attempt within seconds: it is reported only when it lasts. Any other code is a refusal that a person
   * or time has to change.
   */
  readonly transient: boolean;
  /** The call may have had its effect although it failed, so a create may have left a VM. */
  readonly outcomeUnknown: boolean;
  /**
   * A create that fails so has left nothing in the cloud, no NIC or disk either: a Machine of which every create failed
   * so is deleted without asking the cloud. Any other refusal may have come after a part was made.
   */
  readonly nothingMade: boolean;
  readonly blockedOn: Blocker;
}

const refusal = { transient: false, outcomeUnknown: false, nothingMade: false, blockedOn: 'CloudApi' } as const;
const lost = { transient: true, outcomeUnknown: true, nothingMade: false, blockedOn: 'CloudApi' } as const;
/** Of a request that the cloud, or the provider itself, has turned down before anything was done. */
const turnedDown = { ...refusal, nothingMade: true } as const;

/** Every code with what it means for us. */
export const failures = {
  Canceled: { ...refusal, meaning: 'The call was cancelled by the caller.', outcomeUnknown: true },
  Unknown: { ...lost, meaning: 'The cloud answered with an error that the provider does not know.' },
  InvalidArgument: { ...turnedDown, meaning: 'The providerSpec or a Secret is not valid.', blockedOn: 'Source' },
  DeadlineExceeded: { ...lost, meaning: 'The cloud did not answer in time.' },
  NotFound: { ...refusal, meaning: 'Something the request names does not exist.' },
  AlreadyExists: { ...refusal, meaning: 'Something of that name exists and is not ours.' },
  PermissionDenied: { ...turnedDown, meaning: 'The credentials may not do this.', blockedOn: 'Credentials' },
  ResourceExhausted: { ...refusal, meaning: 'No capacity, or the quota is used up.', blockedOn: 'CloudCapacity' },
  FailedPrecondition: { ...refusal, meaning: 'The cloud is not in the state that the request needs.' },
  Aborted: { ...lost, meaning: 'The cloud gave up, for example on a conflict.' },
  OutOfRange: { ...refusal, meaning: 'More than one VM belongs to the Machine.' },
  Unimplemented: { ...turnedDown, meaning: 'The provider cannot do this.' },
  Internal: { ...refusal, meaning: 'The cloud or the provider is broken.', outcomeUnknown: true },
  Unavailable: {
    ...lost,
    meaning:
      'The cloud cannot be reached or throttles, or the worker may not act now: it pauses, or serves another cluster.',
  },
  DataLoss: { ...refusal, meaning: 'The cloud lost data.' },
  Unauthenticated: { ...turnedDown, meaning: 'The credentials are wrong or expired.', blockedOn: 'Credentials' },
  Uninitialized: { ...refusal, meaning: 'The VM exists and its set-up did not succeed.', outcomeUnknown: true },
} as const satisfies Record<string, FailureMeaning>;

/** What a person can do about a blocker; undefined where only the error says it. @param retry the command that retries */
export function remedyOf(blockedOn: Blocker, retry: string): string | undefined {
  const remedies: Partial<Record<Blocker, string>> = {
    Source: 'Correct the class or its Secret; the change is picked up at once.',
    MachineSpec: 'Correct the Machine; the change is picked up at once.',
    Credentials: `Correct the credentials in the Secret of the class; the change is picked up at once. If a right is missing, give it to their account; \`${retry}\` tries at once.`,
    CloudCapacity: `Raise the quota or choose another machine type or zone, then run \`${retry}\`.`,
    CloudApi: `An outage needs nothing: it is tried again. Where the class is wrong, correct it; the change is picked up at once. \`${retry}\` tries at once.`,
    ProviderWorker:
      'Start a worker for this provider, or correct `provider` in the class. If the worker lacks an activity, register it there.',
  };
  return remedies[blockedOn];
}

/** The most characters of a failure's message, and of any other text for people that a provider answers with. */
const longestMessage = 2_000;

/** Cuts what is longer, and says so at the end. */
export function shortened(message: string): string {
  if (message.length <= longestMessage) return message;
  const end = `… (cut: there were ${message.length} characters)`;
  return message.slice(0, longestMessage - end.length) + end;
}

/**
 * Whether a failure says that the worker does not have the activity: in the words of Temporal's SDKs for TypeScript, Python,
 * .NET and Ruby, for Java, or for Go.
 */
export function isUnknownActivity(message: string): boolean {
  return /is not registered (on this|with a) worker|^unable to find activityType=/i.test(message);
}

/** A code that a provider may answer with: the `type` of its ApplicationFailure. */
export type FailureCode = keyof typeof failures;

/** Whether a failure's type is one of ours; any other (a bug in a provider) is treated as `Unknown`. */
export function isFailureCode(type: string | undefined | null): type is FailureCode {
  return typeof type === 'string' && Object.hasOwn(failures, type);
}
