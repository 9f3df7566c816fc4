/** Faults that mean the same in every cloud of tests and the demo, and how they are counted. */
import { z } from 'zod';

/** A duration of a fault. */
export const milliseconds = z.int().min(0);

const effect = z.enum(['done', 'none']).describe('done: the call has had its effect before. none: it never has one.');

/** Which calls a fault meets, in every cloud: those that fulfil every condition given. */
export const commonConditions = {
  tags: z.record(z.string(), z.string()).optional().describe('Only calls for VMs that carry all of these.'),
  every: z.int().min(1).default(1).describe('Only every n-th of the calls that fulfil the other conditions.'),
  times: z.int().min(1).optional().describe('At most so many times.'),
};

/** Fields of the faults of a connection and of a slow cloud. */
export const latency = {
  kind: z.literal('latency'),
  ms: milliseconds,
  maxMs: milliseconds.optional().describe('Uniform from ms to this.'),
  p99Ms: milliseconds
    .optional()
    .describe('Log-normal, with the long tail of a real cloud: half of the calls up to ms, one in 100 above this.'),
  seed: z.int().default(1).describe('Another one is another sequence, with p99Ms.'),
};
export const lostAnswer = { kind: z.literal('lostAnswer'), effect };
export const hang = {
  kind: z.literal('hang'),
  effect,
  ms: milliseconds.optional().describe('How long. Left out: until the fault is taken away.'),
};
export const outage = { kind: z.literal('outage'), how: z.enum(['disconnect', 'unavailable']) };

/** What must be true of the fields of a latency together. */
export function checkLatency(context: z.core.ParsePayload<Omit<Latency, 'turn'>>): void {
  const { ms, maxMs, p99Ms } = context.value;
  const refuse = (message: string) => context.issues.push({ code: 'custom', input: context.value, message });
  if (maxMs !== undefined && p99Ms !== undefined) refuse('give maxMs or p99Ms, not both');
  if (p99Ms !== undefined && (ms === 0 || p99Ms < ms)) refuse('give ms above 0 and p99Ms above it');
}

/** A fault that is on, with how many calls have met it and in how many it showed. */
export interface ActiveFault<Fault> {
  readonly fault: Fault;
  met: number;
  shown: number;
}

/** A fault in a call, which is the `turn`-th that it shows in, from 1. */
export type Shown<Fault> = Fault & { readonly turn: number };

/** Counts a call for the faults that meet it, and answers with those that show in it. */
export function shownIn<Fault extends { readonly every: number; readonly times?: number | undefined }>(
  active: readonly ActiveFault<Fault>[],
  meets: (fault: Fault) => boolean,
): Shown<Fault>[] {
  return active
    .filter((entry) => meets(entry.fault) && isTurn(entry))
    .map(({ fault, shown }) => ({ ...fault, turn: shown }));
}

function isTurn(entry: ActiveFault<{ readonly every: number; readonly times?: number | undefined }>): boolean {
  entry.met += 1;
  const { every, times } = entry.fault;
  if (entry.met % every !== 0 || (times !== undefined && entry.shown >= times)) return false;
  entry.shown += 1;
  return true;
}

/** The fault of this kind, if it shows in the call. */
export function faultOf<Fault extends { readonly kind: string }, K extends Fault['kind']>(
  faults: readonly Fault[],
  kind: K,
): Extract<Fault, { readonly kind: K }> | undefined {
  return faults.find((fault): fault is Extract<Fault, { readonly kind: K }> => fault.kind === kind);
}

/** What `latencyMs` takes of a fault. */
interface Latency {
  readonly ms: number;
  readonly maxMs?: number | undefined;
  readonly p99Ms?: number | undefined;
  readonly seed: number;
  readonly turn: number;
}

/** How long a call takes, ms. With p99Ms the same for every run with the same seed. */
export function latencyMs({ ms, maxMs = ms, p99Ms, seed, turn }: Latency): number {
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

/** Whether `tags` holds all of `wanted`. */
export function hasTags(tags: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => tags[key] === value);
}
