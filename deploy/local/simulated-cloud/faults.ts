import { z } from 'zod';
import { machineTypes } from '../../../activities/providers/simulated/schema.ts';

/** What a call does. */
export const operations = ['create', 'list', 'get', 'delete'] as const;
export type Operation = (typeof operations)[number];

const milliseconds = z.int().min(0);
const effect = z.enum(['done', 'none']).describe('done: the call has had its effect before. none: it never has one.');

/** Which calls a fault meets: those that fulfil every condition given. */
const conditions = {
  operation: z.enum(operations).optional().describe('Only this operation.'),
  machineType: z
    .string()
    .refine((type) => Object.hasOwn(machineTypes, type), 'use a machine type')
    .optional(),
  tags: z.record(z.string(), z.string()).optional().describe('Only calls for VMs that carry all of these.'),
  every: z.int().min(1).default(1).describe('Only every n-th of the calls that fulfil the other conditions.'),
  times: z.int().min(1).optional().describe('At most so many times.'),
};

/** A fault. Those from `capacity` on meet create calls alone. */
export const Fault = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('latency'), ms: milliseconds, maxMs: milliseconds.optional(), ...conditions }),
  z.strictObject({ kind: z.literal('lostAnswer'), effect, ...conditions }),
  z.strictObject({
    kind: z.literal('hang'),
    effect,
    ms: milliseconds.optional().describe('How long. Left out: until the fault is taken away.'),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('outage'), how: z.enum(['disconnect', 'unavailable']), ...conditions }),
  z.strictObject({ kind: z.literal('throttle'), retryAfterSeconds: z.int().min(0).default(1), ...conditions }),
  z.strictObject({ kind: z.literal('capacity'), ...conditions }),
  z.strictObject({
    kind: z.literal('quota'),
    limit: z.int().min(0).default(0).describe('VMs that may exist at once.'),
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
]);
export type Fault = z.output<typeof Fault>;
export type FaultKind = Fault['kind'];

/** A fault that is on, with how many calls have met it and in how many it showed. */
export interface ActiveFault {
  readonly fault: Fault;
  met: number;
  shown: number;
}

/** What a call is about, as far as faults ask. */
export interface CallSubject {
  readonly operation: Operation;
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
export function faultsOf(active: readonly ActiveFault[], call: CallSubject): Fault[] {
  return active.filter((entry) => meets(entry.fault, call) && isTurn(entry)).map(({ fault }) => fault);
}

function meets(fault: Fault, call: CallSubject): boolean {
  if (ofCreation.includes(fault.kind) && call.operation !== 'create') return false;
  if (fault.operation !== undefined && fault.operation !== call.operation) return false;
  if (fault.machineType !== undefined && fault.machineType !== call.machineType) return false;
  return hasTags(call.tags, fault.tags ?? {});
}

function isTurn(entry: ActiveFault): boolean {
  entry.met += 1;
  const { every, times } = entry.fault;
  if (entry.met % every !== 0 || (times !== undefined && entry.shown >= times)) return false;
  entry.shown += 1;
  return true;
}

/** Whether `tags` holds all of `wanted`. */
export function hasTags(tags: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => tags[key] === value);
}
