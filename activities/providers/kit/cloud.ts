/** What a cloud gives to the kit, which makes a provider of it (provider.ts). */
import type { z } from 'zod';
import type { FailureCode } from '../../../api/failures.ts';
import type { InterruptionPage, MachineIdentity, VmAddress } from '../../../api/provider.ts';
import type { Allowance, RateLimit } from './request-rate.ts';

export type Tags = Readonly<Record<string, string>>;

interface Listed {
  /** The cloud's own id. */
  readonly id: string;
  /** Empty where it has none. */
  readonly name: string;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly tags: Tags;
}

/** Why a cloud could not make a VM that it had accepted, with a code of the cloud's own or of the table `errors`. */
export type CreationFailure = Pick<Refusal, 'code' | 'message'>;

/** A VM as its cloud shows it. */
export interface CloudVm extends Listed {
  readonly kind: 'vm';
  /**
   * creating: also any state on the way to `running`. stopped: it ran, and will not run again by itself. failed: the
   * cloud had accepted it, could not make it, and says why in `failure`. gone: still shown, and nothing of it is left.
   */
  readonly state: 'creating' | 'running' | 'stopped' | 'failed' | 'deleting' | 'gone';
  readonly failure?: CreationFailure;
  /** Equal to `Node.spec.providerID`; begins with the scheme of the cloud and ends with the id. */
  readonly providerID: string;
  /** Name that its Node has or will have. Left out while the cloud has not chosen it. */
  readonly nodeName?: string;
  readonly addresses: readonly VmAddress[];
  /** As `Vm.lastKnownState` of the contract. */
  readonly lastKnownState?: string;
}

/** A disk, NIC, port or address that was made for a VM. */
export interface CloudPart extends Listed {
  readonly kind: 'disk' | 'nic' | 'port' | 'ip';
  /** Id of the VM that has it now, where the cloud says so. */
  readonly attachedTo?: string;
}

export type CloudItem = CloudVm | CloudPart;

/** What a request to a cloud needs. */
export interface Session<Client> {
  readonly client: Client;
  /** Every request to the cloud takes it. */
  readonly signal: AbortSignal;
  /**
   * Sends one request when it is its turn, and translates what it throws. One that the cloud throttles is sent again.
   * @param isRead it changes nothing in the cloud
   */
  send<T>(request: () => Promise<T>, isRead?: boolean): Promise<T>;
}

/** What to create. Every resource that is made gets `tags`, within the request that makes it. */
export interface VmOrder<Spec> {
  readonly spec: Spec;
  readonly machine: MachineIdentity;
  /** Those of the class, and the UID of the Machine. */
  readonly tags: Tags;
  readonly userData: string;
  /** Idempotency token, for a cloud that takes one. */
  readonly token: string;
  /** Parts that an earlier attempt has made. That attempt may still run. */
  readonly parts: readonly CloudPart[];
}

export interface TagChange {
  readonly tags: Tags;
  /** Keys. */
  readonly removed: readonly string[];
}

/** A page of a list. */
export interface CloudPage {
  readonly items: readonly CloudItem[];
  readonly nextPage?: string | undefined;
}

/** For a cloud that announces which VMs it will take away. */
export interface Interruptions<Spec, Client> {
  /** Whether the cloud may take VMs of the class away. */
  mayHit(spec: Spec): boolean;
  /** VMs that the cloud is about to take away. Where `tags` do not narrow the list down, it also has VMs of others. */
  list(session: Session<Client>, tags: Tags, page: string | undefined): Promise<InterruptionPage>;
}

/** What a connection calls. */
export interface ConnectionHooks {
  /** With what the cloud says that it will still take, before it throttles. */
  onAllowance(allowance: Allowance): void;
  /** With each token, or other secret, that the credentials were exchanged for: it is hidden in errors and texts. */
  onToken(token: string): void;
  /** Reads the file of `tokenFileKey`, and hides its content. Throws ProviderError. */
  readToken(path: string): Promise<string>;
}

/** An error answer of a cloud. */
export interface Refusal {
  /** The cloud's own code. Left out where the answer has none, for example as a proxy in between made it. */
  readonly code?: string | undefined;
  /** In the cloud's words; holds no secret. Of an answer that is not in the cloud's format: see `unreadable`. */
  readonly message: string;
  /** HTTP status. */
  readonly status: number;
  readonly requestId?: string | undefined;
  readonly retryAfterMs?: number | undefined;
}

/**
 * A cloud. The functions with a session send requests and nothing else: when they are called, how often, and what a
 * lost answer means is the business of the kit.
 *
 * @typeParam Reach Fields of a providerSpec that finding and deleting VMs needs
 * @typeParam Credentials Keys of the Secrets, as they were checked
 * @typeParam Client What holds connections and credentials
 */
export interface Cloud<Spec extends { tags: Tags }, Reach, Credentials, Client> {
  /** Of its provider IDs: `aws` in `aws:///eu-west-1/i-0a1b`. */
  readonly scheme: string;
  /** How long the cloud may leave a VM that it has created out of its lists. */
  readonly settleSeconds: number;
  /** First pause between two looks at a VM that is being deleted; the later ones are longer, ms. */
  readonly deletionPollMs: number;
  readonly rateLimit: RateLimit;
  readonly providerSpec: z.ZodType<Spec>;
  /** Part of `providerSpec`; as little as possible, so that nothing that is wrong elsewhere holds up a deletion. */
  readonly reach: z.ZodType<Reach>;
  /** Tags of `providerSpec` that all VMs of this installation have, and no others. */
  readonly tags: z.ZodType<Tags>;
  readonly credentialKeys: readonly string[];
  /** Those of `credentialKeys` whose values are secret. The values of all keys that are not in `credentialKeys` are. */
  readonly secretKeys: readonly string[];
  /** The one of `credentialKeys` that names a token file in the worker. Left out: there is none. */
  readonly tokenFileKey?: string;
  /** Checks the `credentialKeys` that the Secrets have, without white space around them. A message quotes no value. */
  readonly credentials: z.ZodType<Credentials>;
  /** Failure code of each of the cloud's error codes. `Throttled`: it did nothing, and wants fewer requests. */
  readonly errors: Readonly<Record<string, FailureCode | 'Throttled'>>;

  /** Where requests go, for people and as a label of metrics: an address, or a region. */
  endpointOf(reach: Reach): string;
  connect(reach: Reach, credentials: Credentials, hooks: ConnectionHooks): Client;
  /** With the credentials that the cloud's SDK finds for this process. Left out: it finds none. */
  connectByDefault?(reach: Reach, hooks: ConnectionHooks): Client;
  /** What a class asks for and where, for people where there is no room: `m5.large in subnet-1`. */
  asked?(spec: Spec): string;
  /** What an error of the client says; undefined for one that is no answer of the cloud. */
  refusalOf(error: unknown): Refusal | undefined;

  /** Everything with all of `tags`, for a sweep. */
  list(session: Session<Client>, tags: Tags, page: string | undefined): Promise<CloudPage>;
  /**
   * Everything with the UID tag of a Machine. The name of the Machine may narrow the search down, if everything is
   * named after it. Without `withParts`, the parts of a VM that exists may be left out.
   */
  findOwn(session: Session<Client>, machine: MachineIdentity, withParts: boolean): Promise<readonly CloudItem[]>;
  /**
   * VMs with all of `tags` and the name of a Machine, for a cloud where others make VMs for Machines without the UID
   * tag.
   */
  findByName?(session: Session<Client>, name: string, tags: Tags): Promise<readonly CloudVm[]>;
  /** A VM and its parts, whatever their tags are. If the VM is gone, the parts that are left. `id` is in lower case. */
  findVm(session: Session<Client>, id: string): Promise<readonly CloudItem[]>;
  findPart(session: Session<Client>, kind: CloudPart['kind'], id: string): Promise<CloudPart | undefined>;
  /**
   * Makes the parts that the VM needs, and then the VM: no later request changes anything. It may wait some seconds, if
   * the cloud says only after it has accepted the VM whether it has capacity.
   */
  create(session: Session<Client>, order: VmOrder<Spec>): Promise<CloudVm>;
  /**
   * Why the cloud could not make a VM that it had accepted, if only `lastKnownState` leads to the reason. That may come
   * from an earlier VM or another program. Undefined if nothing is known to have failed, or if not the VM that exists,
   * `vm`, has.
   */
  failureOf?(
    session: Session<Client>,
    lastKnownState: string,
    vm: CloudVm | undefined,
  ): Promise<CreationFailure | undefined>;
  /**
   * What has to be done once the VM exists. Called with every look at the VM until its Node has joined, so it looks
   * before it acts. Answers what the cloud does not show yet, in words for people; undefined when all is done.
   */
  setUp?(session: Session<Client>, spec: Spec, vm: CloudVm): Promise<string | undefined>;
  /** Sets tags and removes others. Sends no request that would change nothing. */
  setTags?(session: Session<Client>, items: readonly CloudItem[], change: TagChange): Promise<void>;
  /** For a cloud that takes VMs away again, as spot VMs. */
  readonly interruptions?: Interruptions<Spec, Client>;
  /** Asks for the deletion. Succeeds when there is none. */
  delete(session: Session<Client>, item: CloudItem): Promise<void>;
  /** Volume ID in the cloud of the `spec` of a PersistentVolume; undefined for one of another kind. */
  volumeId(spec: unknown): string | undefined;
}
