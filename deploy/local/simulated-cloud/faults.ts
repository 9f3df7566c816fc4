import { z } from 'zod';
import { machineTypes, partKinds } from '../../../activities/providers/simulated/schema.ts';

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

/** A fault. Those from `capacity` on meet create calls alone; `leak` meets those that create and delete VMs. */
export const Fault = z.discriminatedUnion('kind', [
  z
    .strictObject({
      kind: z.literal('latency'),
      ms: milliseconds,
      maxMs: milliseconds.optional().describe('Uniform from ms to this.'),
      p99Ms: milliseconds
        .optional()
        .describe('Log-normal, with the long tail of a real cloud: half of the calls up to ms, one in 100 above this.'),
      seed: z.int().default(1).describe('Another one is another sequence, with p99Ms.'),
      ...conditions,
    })
    .refine(({ maxMs, p99Ms }) => maxMs === undefined || p99Ms === undefined, 'give maxMs or p99Ms, not both')
    .refine(({ ms, p99Ms }) => p99Ms === undefined || (ms > 0 && p99Ms >= ms), 'give ms above 0 and p99Ms above it'),
  z.strictObject({ kind: z.literal('lostAnswer'), effect, ...conditions }),
  z.strictObject({
    kind: z.literal('hang'),
    effect,
    ms: milliseconds.optional().describe('How long. Left out: until the fault is taken away.'),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('outage'), how: z.enum(['disconnect', 'unavailable']), ...conditions }),
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
]);
export type Fault = z.output<typeof Fault>;
export type FaultKind = Fault['kind'];

/** A fault in a call, which is the `turn`-th that it shows in, from 1. */
export type ShownFault = Fault & { readonly turn: number };

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
export function faultsOf(active: readonly ActiveFault[], call: CallSubject): ShownFault[] {
  return active
    .filter((entry) => meets(entry.fault, call) && isTurn(entry))
    .map(({ fault, shown }) => ({ ...fault, turn: shown }));
}

/** How long a call takes, ms. With p99Ms the same for every run with the same seed. */
export function latencyMs(latency: Extract<ShownFault, { kind: 'latency' }>): number {
  const { ms, maxMs = ms, p99Ms, seed, turn } = latency;
  if (p99Ms === undefined) return ms + Math.random() * Math.max(0, maxMs - ms);
  // Box and Muller: a normal number from two uniform ones. 2.326 deviations above the mean is the 99th percentile.
  const radius = Math.sqrt(-2 * Math.log(uniform(seed, 2 * turn)));
  const normal = radius * Math.cos(2 * Math.PI * uniform(seed, 2 * turn + 1));
  return ms * Math.exp((Math.log(p99Ms / ms) / 2.326) * normal);
}

/** The n-th number of a sequence, above 0 and below 1: a counter, scrambled by a 32 bit hash. */
function uniform(seed: number, n: number): number {
  let bits = Math.imul(seed, 0x85ebca6b) + Math.imul(n, 0x9e3779b9);
  bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return (((bits ^ (bits >>> 15)) >>> 0) + 0.5) / 2 ** 32;
}

function meets(fault: Fault, call: CallSubject): boolean {
  if (ofCreation.includes(fault.kind) && call.operation !== 'create') return false;
  if (fault.kind === 'leak' && !isOfVm(call)) return false;
  if (fault.operation !== undefined && fault.operation !== call.operation) return false;
  if (fault.machineType !== undefined && fault.machineType !== call.machineType) return false;
  return hasTags(call.tags, fault.tags ?? {});
}

/** Whether the call creates or deletes a VM: disks, NICs and addresses have no machine type. */
function isOfVm({ operation, machineType }: CallSubject): boolean {
  return (operation === 'create' || operation === 'delete') && machineType !== undefined;
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
