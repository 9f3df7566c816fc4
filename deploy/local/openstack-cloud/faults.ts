import { z } from 'zod';
import {
  type ActiveFault,
  checkLatency,
  commonConditions,
  hang,
  latency,
  lostAnswer,
  milliseconds,
  outage,
  type Shown,
  shownIn,
} from '../faults.ts';

const { every, times } = commonConditions;

/** Which calls a fault meets: those that fulfil every condition given. */
const conditions = {
  operations: z
    .array(z.string().regex(/^[A-Z]+ \//))
    .min(1)
    .optional()
    .describe('Only these, for example `POST /compute/servers` or `DELETE /network/ports/{id}`.'),
  every,
  times,
};

/** A fault. The last two are settings of the project, with which OpenStack itself refuses. */
export const Fault = z.discriminatedUnion('kind', [
  z.strictObject({ ...latency, ...conditions }).check(checkLatency),
  z.strictObject({ ...lostAnswer, ...conditions }),
  z.strictObject({ ...hang, ...conditions }),
  z.strictObject({ ...outage, ...conditions }),
  z.strictObject({
    kind: z.literal('throttle'),
    status: z.literal([413, 429]).default(429),
    retryAfterSeconds: z.int().min(0).optional(),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('forbidden'), ...conditions }),
  z.strictObject({ kind: z.literal('expired'), ...conditions }),
  z.strictObject({ kind: z.literal('invisible'), ms: milliseconds.describe('After the call.'), ...conditions }),
  z.strictObject({ kind: z.literal('capacity') }),
  z.strictObject({
    kind: z.literal('quota'),
    of: z.enum(['instances', 'cores', 'ports', 'volumes']).default('instances'),
    limit: z.int().min(0).default(0).describe('How much may exist at once.'),
  }),
]);
export type Fault = z.output<typeof Fault>;
export type ShownFault = Shown<CallFault>;

/** A fault that shows in calls. */
type CallFault = Exclude<Fault, { readonly kind: 'capacity' | 'quota' }>;
export type Setting = Extract<Fault, { readonly kind: 'capacity' | 'quota' }>;

export function isSetting(fault: Fault): fault is Setting {
  return fault.kind === 'capacity' || fault.kind === 'quota';
}

/** Where a login is refused the answer is 401. */
const login = 'POST /identity/auth/tokens';

/** What a call is about, as far as faults ask. */
interface CallSubject {
  readonly operation: string;
  /** Whether its token is older than the faults. */
  readonly hasOldToken: boolean;
}

/** Counts the call and answers with the faults that show in it. */
export function faultsOf(active: readonly ActiveFault<Fault>[], call: CallSubject): ShownFault[] {
  const ofCalls = active.filter((each): each is ActiveFault<CallFault> => !isSetting(each.fault));
  return shownIn(ofCalls, (fault) => meets(fault, call));
}

function meets(fault: CallFault, { operation, hasOldToken }: CallSubject): boolean {
  if (fault.kind === 'expired' && !hasOldToken) return false;
  if (fault.kind === 'forbidden' && operation === login) return false;
  if (fault.kind === 'invisible' && operation !== 'POST /compute/servers') return false;
  return fault.operations === undefined || fault.operations.includes(operation);
}
