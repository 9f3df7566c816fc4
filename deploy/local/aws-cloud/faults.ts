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
  actions: z.array(z.string()).min(1).optional().describe('Only these, for example `RunInstances`.'),
  machineType: z.string().optional(),
  ...commonConditions,
};

/** A fault. Those from `capacity` on meet RunInstances alone. */
export const Fault = z.discriminatedUnion('kind', [
  z.strictObject({ ...latency, ...conditions }).check(checkLatency),
  z.strictObject({ ...lostAnswer, ...conditions }),
  z.strictObject({ ...hang, ...conditions }),
  z.strictObject({ ...outage, ...conditions }),
  z.strictObject({ kind: z.literal('throttle'), ...conditions }),
  z.strictObject({ kind: z.literal('unauthorized'), ...conditions }),
  z.strictObject({ kind: z.literal('expired'), ...conditions }),
  z.strictObject({ kind: z.literal('capacity'), ...conditions }),
  z.strictObject({
    kind: z.literal('quota'),
    limit: z.int().min(0).default(0).describe('Instances that may exist at once.'),
    of: z.enum(['vcpus', 'instances']).default('vcpus').describe('What the answer says has run out.'),
    ...conditions,
  }),
  z.strictObject({ kind: z.literal('invisible'), ms: milliseconds.describe('After the call.'), ...conditions }),
  z.strictObject({
    kind: z.literal('spotInterruption'),
    afterMs: milliseconds.describe('From the call to the mark.'),
    noticeMs: milliseconds.default(120_000).describe('From the mark to the end.'),
    ...conditions,
  }),
]);
export type Fault = z.output<typeof Fault>;
export type ShownFault = Shown<Fault>;

/** What a call is about, as far as faults ask. */
export interface CallSubject {
  readonly action: string;
  readonly machineType?: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
}

const ofCreation: readonly Fault['kind'][] = ['capacity', 'quota', 'invisible', 'spotInterruption'];

/** Counts the call and answers with the faults that show in it. */
export function faultsOf(active: readonly ActiveFault<Fault>[], call: CallSubject): ShownFault[] {
  return shownIn(active, (fault) => meets(fault, call));
}

function meets(fault: Fault, { action, machineType, tags }: CallSubject): boolean {
  if (ofCreation.includes(fault.kind) && action !== 'RunInstances') return false;
  if (fault.actions !== undefined && !fault.actions.includes(action)) return false;
  if (fault.machineType !== undefined && fault.machineType !== machineType) return false;
  return hasTags(tags, fault.tags ?? {});
}
