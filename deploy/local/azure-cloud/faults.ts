import { z } from 'zod';
import {
  type ActiveFault,
  checkLatency,
  commonConditions,
  hang,
  hasTags,
  latency,
  lostAnswer,
  milliseconds,
  outage,
  type Shown,
  shownIn,
} from '../faults.ts';

/** Which calls a fault meets: those that fulfil every condition given. */
const conditions = {
  actions: z
    .array(z.string())
    .min(1)
    .optional()
    .describe('Only these, for example `Microsoft.Compute/virtualMachines/write`.'),
  vmSize: z.string().optional(),
  ...commonConditions,
};

/** Those that say no before anything is done, and those that come as the end of the operation. */
const capacityCodes = [
  'SkuNotAvailable',
  'AllocationFailed',
  'ZonalAllocationFailed',
  'OverconstrainedAllocationRequest',
  'OverconstrainedZonalAllocationRequest',
] as const;

/** A fault. See README.md for the calls that it meets where it names no actions. */
export const Fault = z.discriminatedUnion('kind', [
  z.strictObject({ ...latency, ...conditions }).check(checkLatency),
  z.strictObject({ ...lostAnswer, ...conditions }),
  z.strictObject({ ...hang, ...conditions }),
  z.strictObject({ ...outage, ...conditions }),
  z.strictObject({
    kind: z.literal('throttle'),
    retryAfterSeconds: z.int().min(0).default(1),
    ...conditions,
  }),
  z.strictObject({
    kind: z.literal('rateLimit'),
    of: z.enum(['reads', 'writes', 'deletes']),
    size: z.int().min(0).describe('Requests that are free at once.'),
    perSecond: z.number().min(0),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('unauthorized'), ...conditions }),
  z.strictObject({ kind: z.literal('expired'), ...conditions }),
  z.strictObject({
    kind: z.literal('capacity'),
    code: z.enum(capacityCodes).default('SkuNotAvailable'),
    ...conditions,
  }),
  z.strictObject({
    kind: z.literal('quota'),
    limit: z.int().min(0).default(0).describe('Cores that may be in use at once.'),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('failedOperation'), code: z.string(), message: z.string(), ...conditions }),
  z.strictObject({ kind: z.literal('slowOperation'), ms: milliseconds, ...conditions }),
  z.strictObject({ kind: z.literal('invisible'), ms: milliseconds.describe('After the call.'), ...conditions }),
  z.strictObject({
    kind: z.literal('leftover'),
    parts: z.array(z.enum(['nic', 'osDisk', 'dataDisks'])).min(1),
    ...conditions,
  }),
]);
export type Fault = z.output<typeof Fault>;
export type ShownFault = Shown<Fault>;

/** Faults that the state of the cloud decides on. */
const ofState: readonly Fault['kind'][] = [
  'capacity',
  'quota',
  'failedOperation',
  'slowOperation',
  'invisible',
  'leftover',
];

/** What a call is about, as far as faults ask. */
export interface CallSubject {
  readonly action: string;
  readonly vmSize?: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
}

/** Counts the call and answers with the faults that show in it. */
export function faultsOf(active: readonly ActiveFault<Fault>[], call: CallSubject): ShownFault[] {
  return shownIn(active, (fault) => meets(fault, call));
}

/** The faults of a call that ARM itself has to know, by kind. */
export function toStateFaults(faults: readonly ShownFault[]): Record<string, ShownFault> {
  return Object.fromEntries(faults.filter(({ kind }) => ofState.includes(kind)).map((fault) => [fault.kind, fault]));
}

/** Actions that a fault meets when it does not say. */
const defaultActions: { readonly [K in Fault['kind']]?: RegExp } = {
  capacity: /^Microsoft\.Compute\/virtualMachines\/write$/,
  quota: /^Microsoft\.Compute\/virtualMachines\/write$/,
  failedOperation: /^Microsoft\.Compute\/virtualMachines\/write$/,
  slowOperation: /^Microsoft\.Compute\/virtualMachines\/write$/,
  invisible: /\/write$/,
  leftover: /^Microsoft\.Compute\/virtualMachines\/(write|delete)$/,
};

function meets(fault: Fault, { action, vmSize, tags }: CallSubject): boolean {
  if (fault.actions === undefined && !(defaultActions[fault.kind]?.test(action) ?? true)) return false;
  if (fault.actions !== undefined && !fault.actions.includes(action)) return false;
  if (fault.vmSize !== undefined && fault.vmSize !== vmSize) return false;
  return hasTags(tags, fault.tags ?? {});
}
