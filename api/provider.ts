/**
 * The provider contract, version 1: the JSON of the cloud activities that a provider's worker serves on the task queue
 * `<installation>.provider-<name>`. Any Temporal worker in any language may be a provider (docs/providers.md).
 * Receivers ignore fields that they do not know; a field's meaning never changes within a version.
 */
import { z } from 'zod';

const nonEmpty = z.string().min(1);

/** A Secret of the control cluster. Providers read it themselves: no secret is ever in a payload. */
export const SecretRef = z.object({
  namespace: nonEmpty.describe('Namespace of the Secret in the control cluster.'),
  name: nonEmpty.describe('Name of the Secret.'),
});
export type SecretRef = z.infer<typeof SecretRef>;

/** The object that the providerSpec was read from. For people and logs: it identifies nothing. */
export const Origin = z.object({
  kind: nonEmpty.describe('Kind of the object that the Machine names as its source.'),
  namespace: nonEmpty.describe('Namespace of the object.'),
  name: nonEmpty.describe('Name of the object.'),
  generation: z.int().min(0).describe('metadata.generation of the object as it was read.'),
});
export type Origin = z.infer<typeof Origin>;

const cloudScope = {
  cluster: nonEmpty
    .optional()
    .describe(
      'Which control cluster the Secrets are in: the UID of the namespace with the Machines. A worker that reads another ' +
        'cluster refuses with `Unavailable`.',
    ),
  origin: Origin.optional(),
  providerSpec: z.unknown().describe('What the provider has to know, in its own words, as its users wrote it.'),
  credentials: z
    .array(SecretRef)
    .describe(
      'Secrets with the credentials. Their keys are merged, those of a later Secret win; a missing one is skipped.',
    ),
};

/** The Machine a VM belongs to. Every resource made for the Machine carries the UID as a tag. */
export const MachineIdentity = z.object({
  uid: nonEmpty.describe('metadata.uid of the Machine.'),
  namespace: nonEmpty.describe('Namespace of the Machine.'),
  name: nonEmpty.describe('Name of the Machine; also the name of the VM where the cloud takes one.'),
});
export type MachineIdentity = z.infer<typeof MachineIdentity>;

/** Input of `ensureVm`. Equal for every attempt of one creation, so that a cloud may compare requests by token. */
export const EnsureVmRequest = z.object({
  ...cloudScope,
  machine: MachineIdentity,
  userData: SecretRef.extend({ key: nonEmpty.describe('Key of the rendered user data in the Secret.') }),
  token: nonEmpty.describe(
    'Idempotency token of this creation, `<Machine UID>-<ordinal>`: given to the cloud where it takes one.',
  ),
  providerSpecDefaults: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Values from the Machine for fields that `providerSpec` does not have.'),
  outcomeUnknown: z
    .boolean()
    .describe(
      'An earlier create of this Machine may have had its effect: true from the first create call until the Node has ' +
        'joined. Wait `settleSeconds` and look before creating. The same holds whenever the attempt number of the ' +
        'activity is above 1.',
    ),
  providerID: nonEmpty
    .optional()
    .describe(
      'Provider ID that the Machine has stored. The VM that it names is looked up before anything is created. It is the ' +
        'Machine’s if it has the tags of `providerSpec`, or `machine.uid` as its UID tag. Any other is ' +
        'somebody else’s: fail with `FailedPrecondition`, and create and delete nothing. A provider that can look VMs up ' +
        'neither by UID nor by this creates nothing and fails with `Unimplemented`.',
    ),
  mustExist: z
    .literal(true)
    .optional()
    .describe(
      'Create, change and delete nothing: return the VM that the Machine has, or fail with `NotFound`. Set to find out whether ' +
        'the VM of `providerID` is the Machine’s. Left out: create one.',
    ),
  lastKnownState: z.string().optional().describe('What `ensureVm` returned as lastKnownState last time.'),
});
export type EnsureVmRequest = z.infer<typeof EnsureVmRequest>;

/** An address of a VM, as in `Node.status.addresses`. */
export const VmAddress = z.object({ type: nonEmpty, address: nonEmpty });
export type VmAddress = z.infer<typeof VmAddress>;

/** Result of `ensureVm`: the one VM of the Machine, as soon as the cloud has accepted it. */
export const Vm = z.object({
  state: z
    .enum(['creating', 'uninitialized', 'running', 'failed'])
    .describe(
      'creating: accepted, not running yet. uninitialized: set-up after creation is not finished, ask again. ' +
        'running: the rest is up to the Node. failed: it will never run.',
    ),
  providerID: nonEmpty.describe('Equal to `Node.spec.providerID`.'),
  nodeName: nonEmpty.optional().describe('Name its Node will have. Left out while the cloud has not chosen it.'),
  addresses: z.array(VmAddress).default([]).describe('Addresses known so far.'),
  message: z.string().optional().describe('Why it failed or is not initialized, for people.'),
  lastKnownState: z.string().optional().describe('Opaque; handed back with every later request of the Machine.'),
  tags: z
    .record(z.string(), z.string())
    .optional()
    .describe(
      'Tags of its class that the VM has. Where they are not those of `validateClass`, `updateVm` is called. Left out: it is ' +
        'taken to have those.',
    ),
});
export type Vm = z.infer<typeof Vm>;

const resourceKind = z.enum(['vm', 'disk', 'nic', 'port', 'ip']);

/**
 * Input of `deleteVm`: every VM, disk, NIC, port and address that carries the Machine's UID goes, and the VM of its
 * provider ID.
 */
export const DeleteVmRequest = z.object({
  ...cloudScope,
  machine: MachineIdentity,
  only: z
    .object({
      kind: resourceKind,
      id: nonEmpty.describe('As `listVms` has returned it.'),
      uid: nonEmpty.optional().describe('UID tag that it carries. Left out: none.'),
    })
    .optional()
    .describe(
      'Set by the sweep, for a VM without UID tag, a surplus VM, and each disk, NIC, port or address whose VM is not listed: ' +
        'only this resource goes, with what belongs to it, if it still carries the tags of `providerSpec` and exactly this ' +
        'UID tag. `machine.uid` is then `none`, which no resource carries. Left out: everything of the Machine goes.',
    ),
  providerID: nonEmpty
    .optional()
    .describe(
      'Provider ID that the Machine has stored. The VM that it names goes as well, with what belongs to it, if it has the tags ' +
        'of `providerSpec`. Any other is not deleted: when the rest is gone, fail with ' +
        '`FailedPrecondition`. One of another cloud names nothing.',
    ),
  nodeNames: z
    .array(nonEmpty)
    .optional()
    .describe(
      'Names of the Nodes that Millwright deletes after the VMs. A VM whose Node has another name is not deleted yet: ' +
        'return `deleting` with the name and be called again at once. An empty list knows no name, so delete no VM that has ' +
        'one. Left out: delete without regard for names.',
    ),
  mayBeUntagged: z
    .boolean()
    .optional()
    .describe(
      'Another system has begun the creation of the Machine, which has no provider ID: a VM of it may have no UID tag. ' +
        'Before `gone`, look for a VM with the name of the Machine, the tags of `providerSpec` and no UID tag that is being ' +
        'created or runs. Delete nothing for that: if there is one, return it in `untaggedVm`; if there are more, fail with ' +
        '`OutOfRange`. Left out: false.',
    ),
  outcomeUnknown: z
    .boolean()
    .describe('A create of this Machine may still take effect: wait `settleSeconds` before saying `gone`.'),
  lastKnownState: z.string().optional().describe('What `ensureVm` returned as lastKnownState last time.'),
});
export type DeleteVmRequest = z.infer<typeof DeleteVmRequest>;

/** Result of `deleteVm`. */
export const VmDeletion = z.object({
  state: z
    .enum(['deleting', 'gone'])
    .describe('gone: nothing of the Machine is left and nothing can appear. deleting: accepted, ask again.'),
  nodeNames: z
    .array(nonEmpty)
    .default([])
    .describe('Names of the Nodes of the VMs that this call found, so that they go, too. Empty where none is known.'),
  askAgainAfterSeconds: z
    .number()
    .positive()
    .optional()
    .describe(
      'With the state `deleting`: after how many seconds it is worth asking again, from 1 to 120; what is beyond counts as ' +
        'the nearest of these. Left out: after as long as the deletion has taken already, from 1 to 10 seconds, and after ' +
        '40 seconds a quarter of it, up to 120.',
    ),
  untaggedVm: z
    .object({
      providerID: nonEmpty.describe('Equal to `Node.spec.providerID`.'),
      nodeName: nonEmpty.optional().describe('Name of its Node. Left out while the cloud has not chosen it.'),
    })
    .optional()
    .describe(
      'With `mayBeUntagged` and the state `deleting`: the VM that another system has made. Millwright stores that it is the ' +
        'Machine’s, drains its Node and asks again, with its provider ID. Left out: there is none.',
    ),
});
export type VmDeletion = z.infer<typeof VmDeletion>;

/** Input of `listVms`: everything with the tags of `providerSpec` that the credentials can see. */
export const ListVmsRequest = z.object({
  ...cloudScope,
  page: z.string().optional().describe('`nextPage` of the answer before; left out for the first page.'),
  withoutTags: z
    .boolean()
    .optional()
    .describe('Set by the sweep: the items need no `tags`, which make its history large. A provider may return them.'),
});
export type ListVmsRequest = z.infer<typeof ListVmsRequest>;

/** A resource that a provider has made for a Machine. */
export const CloudResource = z.object({
  kind: resourceKind,
  id: nonEmpty.describe('Provider ID of a VM, the cloud’s own id of anything else.'),
  uid: z.string().optional().describe('Machine UID from the tags. Left out where there is none.'),
  name: z.string().describe('Name in the cloud, empty where it has none.'),
  createdAt: z.iso
    .datetime({ offset: true })
    .describe('When the cloud created it. In UTC with `Z`, or with an offset such as `+01:00`.'),
  alive: z
    .boolean()
    .optional()
    .describe(
      'Whether a VM is being created or runs; false for one that is stopped, ending or has ended. Left out: unknown. ' +
        'Another VM of the Machine is surplus only while this is true of the one that the Machine names.',
    ),
  attachedTo: nonEmpty
    .optional()
    .describe(
      'Of a disk, NIC, port or address: provider ID of the VM that has it. Without a UID tag, it belongs to the Machine of ' +
        'that VM. Left out: no VM has it, or it is not known.',
    ),
  tags: z
    .record(z.string(), z.string())
    .optional()
    .describe(
      'All tags that it has in the cloud, with those that are not of the class. Whether the UID tag is among them does not ' +
        'matter. May be left out where the request has `withoutTags`.',
    ),
});
export type CloudResource = z.infer<typeof CloudResource>;

/** Result of `listVms`. */
export const VmPage = z.object({ items: z.array(CloudResource), nextPage: z.string().optional() });
export type VmPage = z.infer<typeof VmPage>;

/** Input of `validateClass`: nothing is created and no cloud is asked. */
export const ValidateClassRequest = z.object(cloudScope);
export type ValidateClassRequest = z.infer<typeof ValidateClassRequest>;

/** Result of `validateClass`. */
export const ClassVerdict = z.object({
  problems: z.array(z.string()).describe('Each names the field, its value and the fix. Empty: the request is valid.'),
  listScope: z
    .string()
    .optional()
    .describe(
      'Text that is equal for requests whose `listVms` sees the same: made of the endpoint or region, the tags and the ' +
        'name of what holds the credentials. No secret. Sources of equal scope are swept as one; a source without one ' +
        'is swept by itself.',
    ),
  tags: z
    .record(z.string(), z.string())
    .optional()
    .describe(
      'Tags that the VMs of the class get. When they change, `updateVm` is called for its Machines. Left out: the provider ' +
        'has no `updateVm`.',
    ),
  interruptible: z
    .boolean()
    .optional()
    .describe(
      'Whether the cloud may take VMs of the class away again, as spot VMs. Where true, `listInterruptions` is called with ' +
        'the request. Left out: it may not, or the provider has no `listInterruptions`.',
    ),
});
export type ClassVerdict = z.infer<typeof ClassVerdict>;

/**
 * Input of the optional `listInterruptions`: VMs that the cloud is about to take away, as far as the credentials can
 * see.
 */
export const ListInterruptionsRequest = z.object({
  ...cloudScope,
  page: z.string().optional().describe('`nextPage` of the answer before; left out for the first page.'),
});
export type ListInterruptionsRequest = z.infer<typeof ListInterruptionsRequest>;

/** A VM that the cloud is about to take away. */
export const Interruption = z.object({
  providerID: nonEmpty.describe('Of the VM. One without a Machine is ignored.'),
  reason: nonEmpty.describe('In a word of the cloud, such as `marked-for-termination`.'),
});
export type Interruption = z.infer<typeof Interruption>;

/** Result of `listInterruptions`. */
export const InterruptionPage = z.object({ items: z.array(Interruption), nextPage: z.string().optional() });
export type InterruptionPage = z.infer<typeof InterruptionPage>;

/** Input of `volumeIds`. */
export const VolumeIdsRequest = z.object({
  volumes: z.array(
    z.object({
      name: nonEmpty,
      spec: z.unknown().describe('`spec` of the PersistentVolume, without mount options and attributes of the driver.'),
    }),
  ),
});
export type VolumeIdsRequest = z.infer<typeof VolumeIdsRequest>;

/** Result of `volumeIds`. A volume that the provider does not know is left out. */
export const VolumeIds = z.object({
  ids: z.record(z.string(), z.string()).describe('Volume name to cloud volume ID.'),
});
export type VolumeIds = z.infer<typeof VolumeIds>;

/** Input of the optional `updateVm`: the tags of everything that belongs to the Machine. Nothing else is changed. */
export const UpdateVmRequest = z.object({
  ...cloudScope,
  machine: MachineIdentity,
  providerID: nonEmpty
    .optional()
    .describe(
      'Provider ID that the Machine has stored. The VM that it names is changed if it has the tags of `providerSpec`.',
    ),
  tags: z.record(z.string(), z.string()).describe('Tags to set. All others stay, but for those in `removedTags`.'),
  removedTags: z.array(z.string()).default([]).describe('Keys of tags that its class had before and has no more.'),
});
export type UpdateVmRequest = z.infer<typeof UpdateVmRequest>;

/** The first of the details of a failure: what the cloud has said, and what the provider knows. */
export const FailureDetails = z.object({
  cloudCode: z.string().optional().describe('The cloud’s own code.'),
  requestId: z.string().optional().describe('What the cloud knows the request by.'),
  retryAfterMs: z
    .number()
    .min(0)
    .optional()
    .describe('Pause that the cloud asks for, ms. From 10000 on the failure is not retryable.'),
  nothingMade: z
    .boolean()
    .optional()
    .describe('Of `ensureVm`: true says that this call has made nothing, whatever its code says. Left out: false.'),
});
export type FailureDetails = z.infer<typeof FailureDetails>;

/**
 * The cloud activities of one provider. Every one may be repeated after a crash at any line. They fail with an
 * ApplicationFailure whose `type` is a code of api/failures.ts and whose details are `[FailureDetails]`; transient
 * codes are retryable, the others are not.
 */
export interface ProviderActivities {
  /**
   * Finds the Machine's VM by UID or provider ID, creates it when there is none, returns when the cloud has accepted
   * it.
   */
  ensureVm(request: EnsureVmRequest): Promise<Vm>;
  /**
   * Deletes everything of the Machine, by UID and provider ID. Succeeds when there is nothing; `NotFound` says the
   * same.
   */
  deleteVm(request: DeleteVmRequest): Promise<VmDeletion>;
  listVms(request: ListVmsRequest): Promise<VmPage>;
  validateClass(request: ValidateClassRequest): Promise<ClassVerdict>;
  volumeIds(request: VolumeIdsRequest): Promise<VolumeIds>;
  updateVm?(request: UpdateVmRequest): Promise<void>;
  listInterruptions?(request: ListInterruptionsRequest): Promise<InterruptionPage>;
}
