/** The cloud of a provider, under the suite's control. */

/**
 * What a cloud does from now on. The times are within what the contract allows a cloud. Where an answer or a VM is
 * late, tokens mean nothing, unless the cloud promises that they do.
 */
export type CloudFault =
  /** The next create call is executed and its answer is lost; the VM is listed after `ms`. */
  | { readonly kind: 'lostAnswer'; readonly ms: number }
  /** A create call is executed at once and answered after `ms`. */
  | { readonly kind: 'slowAnswer'; readonly ms: number }
  /** A new VM is listed after `ms`. */
  | { readonly kind: 'listedLate'; readonly ms: number }
  | { readonly kind: 'noCapacity' }
  /** A create call makes a disk, NIC or address and is then refused for want of capacity. */
  | { readonly kind: 'halfWay' }
  | { readonly kind: 'missingPermission' }
  /** The cloud throttles the next `times` calls. */
  | { readonly kind: 'throttled'; readonly times: number }
  /** The cloud throttles all calls, and asks to be left alone for so long. */
  | { readonly kind: 'askedToWait'; readonly retryAfterSeconds: number };

export type FaultKind = CloudFault['kind'];

/** Something that exists in a cloud. */
export interface CloudThing {
  /** Of a VM as in the last segment of its provider ID. */
  readonly id: string;
  readonly kind: 'vm' | 'disk' | 'nic' | 'port' | 'ip';
  /** Machine UID from its tags. */
  readonly uid?: string | undefined;
}

/** Whose VM the suite makes: with the tags of the class, with those of another cluster, or with none. */
export type Owner = 'class' | 'another' | 'nobody';

/** A cloud that serves this run of the suite alone. */
export interface Counterpart {
  /** Of a class that the provider accepts. */
  readonly providerSpec: object;
  /** Keys of a Secret that the cloud accepts. */
  readonly credentials: Readonly<Record<string, string>>;
  /** What the process of a provider needs in its environment to reach the cloud. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * What the cloud cannot show, and why: faults, and a second VM that a provider finds when it looks for that of a
   * Machine.
   */
  readonly lacks: { readonly [K in FaultKind | 'severalVms']?: string };
  /** Replaces the fault that is on. Without one the cloud does as it is asked, and answers what it has held back. */
  setFault(fault?: CloudFault): Promise<void>;
  /** All that exists, whatever its tags, listed or not. */
  things(): Promise<CloudThing[]>;
  /** So many VMs are more than a page of a list has. */
  readonly manyVms: number;
  /** Number of calls to the cloud so far. */
  calls(): Promise<number>;
  /** Makes VMs without the provider. Answers their provider IDs. */
  makeVms(owner: Owner, count: number, of?: { readonly uid?: string; readonly name?: string }): Promise<string[]>;
  /** Ends the fault, and deletes all that exists. */
  reset(): Promise<void>;
  stop(): Promise<void>;
}
