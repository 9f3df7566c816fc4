import { z } from 'zod';
import { machineTypes, partKinds } from '../../../activities/providers/simulated/schema.ts';
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

/** What a call does. */
export const operations = ['create', 'list', 'get', 'delete'] as const;
export type Operation = (typeof operations)[number];

/** What a call may be about. */
const resourceKinds = ['vm', ...partKinds] as const;

/** Which calls a fault meets: those that fulfil every condition given. */
const conditions = {
  operation: z.enum(operations).optional().describe('Only this operation.'),
  resource: z.enum(resourceKinds).optional().describe('Only calls for one of this kind, and no lists.'),
  machineType: z
    .string()
    .refine((type) => Object.hasOwn(machineTypes, type), 'use a machine type')
    .optional(),
  ...commonConditions,
};

/**
 * A fault. Those from `capacity` to `ignoreTokens` meet create calls alone; `leak` meets those that create and delete
 * VMs, and `notKept` all that create and delete.
 */
export const Fault = z.discriminatedUnion('kind', [
  z.strictObject({ ...latency, ...conditions }).check(checkLatency),
  z.strictObject({ ...lostAnswer, ...conditions }),
  z.strictObject({ ...hang, ...conditions }),
  z.strictObject({ ...outage, ...conditions }),
  z.strictObject({ kind: z.literal('throttle'), retryAfterSeconds: z.int().min(0).default(1), ...conditions }),
  z.strictObject({ kind: z.literal('forbidden'), ...conditions }),
  z.strictObject({ kind: z.literal('capacity'), ...conditions }),
  z.strictObject({
    kind: z.literal('quota'),
    limit: z.int().min(0).default(0).describe('VMs that may exist at once.'),
    ...conditions,
  }),
  z.strictObject({
    kind: z.literal('leak'),
    parts: z
      .array(z.enum(partKinds))
      .min(1)
      .default([...partKinds])
      .describe('What is left behind.'),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('neverJoin'), ...conditions }),
  z.strictObject({ kind: z.literal('die'), afterMs: milliseconds.describe('After the create call.'), ...conditions }),
  z.strictObject({
    kind: z.literal('vanish'),
    afterMs: milliseconds.describe('After the create call.'),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('invisible'), ms: milliseconds.describe('After the create call.'), ...conditions }),
  z.strictObject({ kind: z.literal('ignoreTokens'), ...conditions }),
  z.strictObject({
    kind: z.literal('notKept'),
    field: z
      .enum(['tags', 'partTags'])
      .optional()
      .describe('Only this is lost, of create calls. Left out: the call has no effect.'),
    ...conditions,
  }),
  z.strictObject({
    kind: z.literal('hidden'),
    since: z.iso.datetime().optional().describe('Only what was created after this time. Left out: everything.'),
    before: z.iso.datetime().optional().describe('Only what was created before this time.'),
    ...conditions,
  }),
]);
export type Fault = z.output<typeof Fault>;
type FaultKind = Fault['kind'];

export type ShownFault = Shown<Fault>;

/** What a call is about, as far as faults ask. */
export interface CallSubject {
  readonly operation: Operation;
  /** Left out: a list. */
  readonly resource?: (typeof resourceKinds)[number] | undefined;
  readonly machineType?: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
}

const ofCreation: readonly FaultKind[] = [
  'capacity',
  'quota',
  'neverJoin',
  'die',
  'vanish',
  'invisible',
  'ignoreTokens',
];

/** Counts the call and answers with the faults that show in it. */
export function faultsOf(active: readonly ActiveFault<Fault>[], call: CallSubject): ShownFault[] {
  return shownIn(active, (fault) => meets(fault, call));
}

function meets(fault: Fault, call: CallSubject): boolean {
  if (ofCreation.includes(fault.kind) && call.operation !== 'create') return false;
  if (fault.kind === 'leak' && !isOfVm(call)) return false;
  if (fault.kind === 'notKept' && !changes(call, fault.field !== undefined)) return false;
  if (fault.operation !== undefined && fault.operation !== call.operation) return false;
  if (fault.resource !== undefined && fault.resource !== call.resource) return false;
  if (fault.machineType !== undefined && fault.machineType !== call.machineType) return false;
  return hasTags(call.tags, fault.tags ?? {});
}

/** Whether the call creates something, or deletes it. */
function changes({ operation }: CallSubject, isCreation: boolean): boolean {
  return operation === 'create' || (operation === 'delete' && !isCreation);
}

/** Whether the call creates or deletes a VM: disks, NICs and addresses have no machine type. */
function isOfVm({ operation, machineType }: CallSubject): boolean {
  return (operation === 'create' || operation === 'delete') && machineType !== undefined;
}
