/** Clouds that misbehave, for cloud-faults.test.ts: which calls fail, and what is to be seen of it. */
import type { FailureCode } from '../../api/failures.ts';
import type { Blocker } from '../../api/names.ts';
import type { CloudAdmin } from '../../deploy/local/simulated-cloud/admin.ts';

export type Fault = Parameters<CloudAdmin['setFaults']>[number];

/** A cloud that refuses: which calls, and what is to be seen of it. */
export interface Refusal {
  /** Machine type of its class. The fault meets this class alone. Default: small. */
  readonly machineType?: string;
  readonly fault?: Fault;
  readonly token?: string;
  /** A check of the class finds it, before any Machine asks the cloud. */
  readonly isJudged?: true;
  readonly code: FailureCode;
  readonly words: RegExp;
  readonly blockedOn: Blocker;
  /** Pause until the next attempt. */
  readonly pauseSeconds: number;
  /** Where the pauses grow with the time since the first refusal. */
  readonly maxPauseSeconds?: number;
  readonly remedy: RegExp;
}

const cloudApi = { blockedOn: 'CloudApi', remedy: /`millwright retry /, pauseSeconds: 5 } as const;
const capacity = {
  blockedOn: 'CloudCapacity',
  remedy: /Raise the quota.*`millwright retry /,
  pauseSeconds: 600,
} as const;
const credentials = { blockedOn: 'Credentials', remedy: /Correct the credentials in the Secret/ } as const;
const hang: Fault = { kind: 'hang', effect: 'none' };

/** Machines that are being created, by their names. */
export const creations = {
  refused: { ...credentials, token: 'wrong', code: 'Unauthenticated', words: /401: Unauthorized/, pauseSeconds: 180 },
  odd: {
    machineType: 'huge',
    isJudged: true,
    code: 'InvalidArgument',
    words: /providerSpec\.machineType.*huge.*small, medium, large/,
    ...{ blockedOn: 'Source', pauseSeconds: 180, remedy: /Correct the class/ },
  },
  hanging: { ...cloudApi, fault: hang, code: 'DeadlineExceeded', words: /did not answer in time/ },
  cut: {
    ...cloudApi,
    fault: { kind: 'outage', how: 'disconnect' },
    code: 'Unavailable',
    words: /127\.0\.0\.1:\d+ cannot be reached/,
  },
  throttled: {
    ...cloudApi,
    machineType: 'medium',
    token: 'throttled', // an account of its own: throttling slows all machines of an account
    fault: { kind: 'throttle', retryAfterSeconds: 120 },
    code: 'Unavailable',
    ...{ words: /429: Throttled/, pauseSeconds: 120 },
  },
  full: {
    ...capacity,
    machineType: 'large',
    fault: { kind: 'capacity' },
    code: 'ResourceExhausted',
    words: /409: InsufficientCapacity: no room for another large/,
  },
  'used-up': {
    ...capacity,
    fault: { kind: 'quota' },
    code: 'ResourceExhausted',
    words: /403: QuotaExceeded: the quota of 0 VMs/,
  },
} as const satisfies Record<string, Refusal>;

/** Machines that run and are being deleted. */
export const deletions = {
  'leaving-refused': { ...creations.refused, pauseSeconds: 30, maxPauseSeconds: 600 },
  'leaving-hanging': creations.hanging,
  'leaving-throttled': { ...creations.throttled, machineType: 'small' },
  'leaving-down': {
    ...cloudApi,
    fault: { kind: 'outage', how: 'unavailable' },
    code: 'Unavailable',
    words: /503: ServiceUnavailable/,
  },
} as const satisfies Record<string, Refusal>;

/** Faults that nobody has to see: the next call succeeds. */
export const selfHealing: Record<string, Fault[]> = {
  untouched: [],
  'lost-done': [{ kind: 'lostAnswer', effect: 'done', times: 1 }],
  'lost-none': [{ kind: 'lostAnswer', effect: 'none', times: 1 }],
  unlisted: [
    { kind: 'lostAnswer', effect: 'done', times: 1 },
    { kind: 'invisible', ms: 1_000 },
    { kind: 'ignoreTokens' },
  ],
  slow: [{ kind: 'latency', ms: 400, p99Ms: 2_000 }],
  brief: [{ kind: 'throttle', retryAfterSeconds: 2, times: 1 }],
};
