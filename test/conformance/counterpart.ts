/** The cloud of a provider, under the suite's control. docs/reference/conformance.md has the fields of the schemas. */
import { z } from 'zod';

const number = z.int().min(0);
const ms = number;

/**
 * What a cloud does from now on. The times are within what the contract allows a cloud. Where an answer or a VM is
 * late, tokens mean nothing, unless the cloud promises that they do.
 */
export const CloudFault = z.discriminatedUnion('kind', [
  z
    .object({ kind: z.literal('lostAnswer'), ms })
    .describe('The next create call is executed and its answer is lost; the VM is listed after `ms`.'),
  z
    .object({ kind: z.literal('slowAnswer'), ms })
    .describe('A create call is executed at once and answered after `ms`.'),
  z.object({ kind: z.literal('listedLate'), ms }).describe('A new VM is listed after `ms`.'),
  z.object({ kind: z.literal('noCapacity') }).describe('Create calls are refused for want of capacity.'),
  z
    .object({ kind: z.literal('halfWay') })
    .describe('A create call makes a disk, NIC or address and is then refused for want of capacity.'),
  z.object({ kind: z.literal('missingPermission') }).describe('The credentials lack the right to every call.'),
  z.object({ kind: z.literal('throttled'), times: number }).describe('The cloud throttles the next `times` calls.'),
  z
    .object({ kind: z.literal('askedToWait'), retryAfterSeconds: number })
    .describe('The cloud throttles all calls, and asks to be left alone for `retryAfterSeconds`.'),
]);
export type CloudFault = z.infer<typeof CloudFault>;

export type FaultKind = CloudFault['kind'];

/** Something that exists in a cloud. */
export const CloudThing = z.object({
  id: z.string().min(1).describe('Of a VM as in the last segment of its provider ID.'),
  kind: z.enum(['vm', 'disk', 'nic', 'port', 'ip']),
  uid: z.string().optional().describe('Machine UID from its tags.'),
  attachedTo: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Of a disk, NIC, port or address: `id` of the VM that has it, if the provider has to answer it in `listVms`. Left out: ' +
        'no VM has it, or the provider cannot know.',
    ),
});
export type CloudThing = Readonly<z.infer<typeof CloudThing>>;

/** Whose VM the suite makes: with the tags of the class, with those of another cluster, or with none. */
const Owner = z.enum(['class', 'another', 'nobody']);
export type Owner = z.infer<typeof Owner>;

/** What a cloud may be unable to show: a fault, or a second VM that a provider finds for a Machine. */
const Lack = z.enum([...CloudFault.options.map(({ shape }) => shape.kind.value), 'severalVms']);

/** What the suite has to know of a cloud. */
export const CloudFacts = z.object({
  providerSpec: z.record(z.string(), z.unknown()).describe('Of a class that the provider accepts.'),
  credentials: z.record(z.string(), z.string()).describe('Keys of a Secret that the cloud accepts.'),
  lacks: z
    .partialRecord(Lack, z.string())
    .default({})
    .describe(
      'What the cloud cannot show, and why: kinds of faults, and `severalVms` if there cannot be a second VM of a Machine. ' +
        'Their cases are not run.',
    ),
  manyVms: number.describe('So many VMs are more than a page of a list has.'),
});
export type CloudFacts = Readonly<z.infer<typeof CloudFacts>>;

/** VMs that the suite wants to have without the provider. */
export const WantedVms = z.object({
  owner: Owner.describe(
    'Whose VMs these are: `class` with the tags of the class, `another` with those of another cluster, `nobody` with none.',
  ),
  count: number.describe('How many VMs.'),
  uid: z.string().optional().describe('Machine UID that is their tag.'),
  name: z.string().optional().describe('Their name. Left out: any.'),
});
export type WantedVms = Readonly<z.infer<typeof WantedVms>>;

/** A cloud that serves this run of the suite alone. */
export interface Counterpart extends CloudFacts {
  /** What the process of a provider needs in its environment to reach the cloud. */
  readonly env?: Readonly<Record<string, string>>;
  /** Replaces the fault that is on. Without one the cloud does as it is asked, and answers what it has held back. */
  setFault(fault?: CloudFault): Promise<void>;
  /** All that exists, whatever its tags, listed or not. */
  things(): Promise<CloudThing[]>;
  /** Number of calls to the cloud so far. */
  calls(): Promise<number>;
  /** Makes VMs without the provider. Answers their provider IDs. */
  makeVms(owner: Owner, count: number, of?: Pick<WantedVms, 'uid' | 'name'>): Promise<string[]>;
  /** Ends the fault, and deletes all that exists. */
  reset(): Promise<void>;
  stop(): Promise<void>;
}
