/**
 * Events on a Machine: every change of its stage, and every refusal with its code. And those on the sources and owners
 * of machines. Plain values: workflow code imports this file. docs/reference/events.md is made from it.
 */

interface EventMeaning {
  readonly type: 'Normal' | 'Warning';
  /** What has happened. */
  readonly when: string;
}

/** On everything that has a workflow. */
const ofWorkflows = {
  Ordered: {
    type: 'Normal',
    when: 'A person has ordered a retry or the end of a drain. The note has the command, and who has run it as the command says, or the annotation that was written.',
  },
  RunFailed: {
    type: 'Warning',
    when: 'The workflow of the object was started again, usually after an upgrade or after a restore of Temporal. Send signals such as `--force` again.',
  },
} as const satisfies Record<string, EventMeaning>;

/** Reasons of Events on a Machine, in the order of its life. */
export const machineEvents = {
  FailedCreate: {
    type: 'Warning',
    when: 'A step of the creation was refused and is tried again.',
  },
  VmCreated: { type: 'Normal', when: 'The cloud has accepted the VM. The Machine waits for its Node.' },
  FailedLookup: { type: 'Warning', when: 'Looking up the VM failed while the Machine waits for its Node.' },
  VmFailed: { type: 'Warning', when: 'The VM will never run: the Machine has failed.' },
  StaleNode: {
    type: 'Warning',
    when: 'The Node with the name of the Machine, or the VM, belongs to somebody else; the note says why. The Machine has failed, and a VM of its own was deleted. See [Nodes of others](../how-to/unhealthy-machines.md#nodes-of-others).',
  },
  NodeLeftAlone: {
    type: 'Warning',
    when: 'A Node that the Machine names is not marked, drained or deleted for it; the note says why. See [Nodes of others](../how-to/unhealthy-machines.md#nodes-of-others).',
  },
  CreationTimeout: {
    type: 'Warning',
    when: 'The Node was not healthy before the creation timeout: the Machine has failed.',
  },
  NodeJoined: { type: 'Normal', when: 'The Node is healthy for the first time.' },
  NodeTemplateRefused: {
    type: 'Warning',
    when: 'The Node does not get all labels, annotations and taints of the node template; the note says which, and why. What only a policy of this cluster refuses is tried again with growing pauses of up to ten minutes, and the taints are written without the rest.',
  },
  NodeUnhealthy: { type: 'Warning', when: 'The Node is unhealthy or missing.' },
  HealthTimeout: {
    type: 'Warning',
    when: 'The Node was unhealthy for longer than the health timeout, or was deleted while it was not ready: the Machine has failed. Its owner replaces it.',
  },
  NodeHealthy: { type: 'Normal', when: 'The Node is healthy again.' },
  VmInterrupted: {
    type: 'Warning',
    when: 'The Node or the cloud says that the VM is about to be taken away: the Machine has failed.',
  },
  Preserved: {
    type: 'Normal',
    when: 'The Machine is preserved from now on: it is not replaced, and the cluster autoscaler leaves its Node alone. The note says until when, and who has asked for it.',
  },
  PreservedDrained: { type: 'Normal', when: 'The Node of a preserved Machine that has failed is drained.' },
  PreservationEnded: {
    type: 'Normal',
    when: 'The Machine is not preserved any more; the note says why. A Failed one is replaced.',
  },
  Released: {
    type: 'Warning',
    when: 'The labels of the Machine do not match the selector of its MachineSet any more; the note names them. It has no owner now: it keeps its VM, and nobody replaces or deletes it.',
  },
  Adopted: { type: 'Normal', when: 'The MachineSet that selects the Machine has adopted it.' },
  UpdatingInPlace: { type: 'Normal', when: 'The Node is drained, and its agent may update it in place.' },
  UpdatedInPlace: { type: 'Normal', when: 'The agent on the Node says that it has updated it.' },
  UpdateInPlaceFailed: {
    type: 'Warning',
    when: 'The agent on the Node says that it could not update it, or has said nothing in time.',
  },
  NodeKept: {
    type: 'Warning',
    when: 'Somebody deleted the Node while it was not ready. The Machine stays. When it has been unhealthy for a minute, or for its health timeout if that is shorter, it asks its owner to be replaced. See [a Node is deleted](../how-to/unhealthy-machines.md#a-node-is-deleted).',
  },
  NodeDeleted: {
    type: 'Normal',
    when: 'Only in an API of machines where the deletion of a Node replaces its VM: somebody deleted the Node, and the Machine gets another VM. In the API of Gardener the Machine is deleted instead.',
  },
  DeletedByOwner: {
    type: 'Normal',
    when: 'The MachineDeployment or MachineSet has deleted the Machine. The note says why: a scale-down, a rollout, a replacement, or because the owner is being deleted.',
  },
  DeletedWithNode: { type: 'Normal', when: 'Somebody deleted the Node, and Millwright the Machine with it.' },
  Deleting: {
    type: 'Normal',
    when: 'The deletion begins. Without `DeletedByOwner` or `DeletedWithNode` a person or another program has deleted the Machine.',
  },
  FailedDrain: {
    type: 'Warning',
    when: 'The drain failed and is tried again: a PodDisruptionBudget never allows an eviction, or the API server or a webhook refuses one. See [drains](../how-to/drain.md).',
  },
  DrainTimeout: {
    type: 'Warning',
    when: 'The drain timeout is over, and pods were left on the Node. They are deleted with a grace period of 0. The note names them.',
  },
  VmFound: {
    type: 'Normal',
    when: 'The deletion has found the VM that another system had made for the Machine. The Machine has its provider ID now, so its Node is drained and deleted with it.',
  },
  FailedDelete: { type: 'Warning', when: 'Deleting the VM was refused and is tried again.' },
  VmKept: {
    type: 'Warning',
    when: 'The Machine is deleted and its VM stays, because another Machine has it. To delete the VM, delete that Machine.',
  },
  Deleted: { type: 'Normal', when: 'VM, Node and finalizer are gone.' },
  ...ofWorkflows,
} as const satisfies Record<string, EventMeaning>;

/** Reason of an Event on a Machine. */
export type MachineEvent = keyof typeof machineEvents;

/** Reasons of Events on a source of machines, such as a MachineClass. */
export const sourceEvents = {
  SourceRefused: {
    type: 'Warning',
    when: 'No VM can be made from the class. The note lists everything that is wrong with it or its Secrets. Its Machines wait.',
  },
  SourceAccepted: { type: 'Normal', when: 'The class was refused before, and VMs can be made from it now.' },
  TagsNotUpdated: {
    type: 'Warning',
    when: 'The tags of the class were edited, and could not be changed on some VMs. Millwright tries again.',
  },
  SourceInUse: { type: 'Normal', when: 'The class was deleted, but objects that the Event lists still use it.' },
  SourceNotReleased: {
    type: 'Warning',
    when: 'A sweep could not remove the finalizer of a deleted class. The note says what is left in the cloud, or who refused the request.',
  },
  SourceNotSwept: {
    type: 'Warning',
    when: 'The finalizer of a deleted class was removed although its cloud could not be listed. This is safe, because all its Machines were deleted with their VMs.',
  },
  MachineLost: {
    type: 'Warning',
    when: 'A Machine of the class has disappeared although Millwright did not finish deleting it: somebody removed its finalizers, or etcd was restored. Its VM may still be there; the note names both. The next sweep looks for it, and waits for approval if it [may be healthy](../how-to/orphan-sweep.md#the-brake). To keep the VM, [restore the Machine](../how-to/orphan-sweep.md#restore-a-machine).',
  },
  OrphansHeld: {
    type: 'Warning',
    when: 'A sweep waits until a person approves the deletion of orphans. The note says how many, why, and which command names the orphans.',
  },
  OrphansApproved: {
    type: 'Normal',
    when: 'A person has approved the deletion of orphans. The note says how many, and who has run the command as it says.',
  },
  OrphanDeleted: {
    type: 'Warning',
    when: 'A sweep has deleted something in the cloud that had no Machine, or a VM that its Machine does not name.',
  },
  OrphanNotDeleted: { type: 'Warning', when: 'A sweep could not delete such an orphan.' },
} as const satisfies Record<string, EventMeaning>;

/** Reason of an Event on a source of machines. */
export type SourceEvent = keyof typeof sourceEvents;

/** On the owners of machines. */
const ownerEvents = {
  ReplacingMachine: {
    type: 'Normal',
    when: 'A Machine was unhealthy for longer than its health timeout, or its Node was deleted while it was not ready, and it is replaced. The note says since when.',
  },
  ReplacementHeld: {
    type: 'Warning',
    when: 'Many Nodes are unhealthy or missing: no unhealthy Machine is replaced meanwhile. See [an outage of many Nodes](../how-to/unhealthy-machines.md#an-outage-of-many-nodes).',
  },
  CreationPaused: {
    type: 'Warning',
    when: 'Machines of a MachineSet have failed before they joined. The next ones are created after a pause; the note says when, and why the Machines failed.',
  },
  ReleasedMachine: {
    type: 'Warning',
    when: 'The MachineSet has released a Machine, because its labels do not match the selector any more; the note names them. The Machine keeps its VM, and a new Machine is made in its place.',
  },
  AdoptedMachine: { type: 'Normal', when: 'The MachineSet has adopted a Machine without an owner.' },
  SettingsNotKept: {
    type: 'Warning',
    when: 'The API server does not keep what the owner has written to a MachineSet or a Machine, such as settings of the template; the note has it. It is written again later.',
  },
} as const satisfies Record<string, EventMeaning>;

/** On every owner of machines. */
const invalidSpec = {
  InvalidSpec: {
    type: 'Warning',
    when: 'The spec cannot be used: the note names the field, its value and what helps. No machine is changed until it is corrected.',
  },
} as const satisfies Record<string, EventMeaning>;

/** Reasons of Events on a MachineSet. */
export const setEvents = {
  SuccessfulCreate: { type: 'Normal', when: 'A Machine was created.' },
  FailedCreate: { type: 'Warning', when: 'The API server refused a Machine.' },
  SuccessfulDelete: { type: 'Normal', when: 'The deletion of a Machine was accepted.' },
  FailedDelete: { type: 'Warning', when: 'The API server refused to delete a Machine.' },
  FrozeMachineSet: {
    type: 'Normal',
    when: 'The set has too many Machines, released ones included: it creates none. See [a frozen MachineSet](../how-to/scale.md#a-frozen-machineset).',
  },
  UnfrozeMachineSet: { type: 'Normal', when: 'The set is not frozen any more.' },
  ...ownerEvents,
  ...invalidSpec,
  ...ofWorkflows,
} as const satisfies Record<string, EventMeaning>;

/** Reasons of Events on a MachineDeployment. */
export const deploymentEvents = {
  ScalingMachineSet: {
    type: 'Normal',
    when: 'A MachineSet was made with replicas, or its replicas were changed: `Scaled up machine set <name> to <replicas>`.',
  },
  AdoptedMachineSet: {
    type: 'Normal',
    when: 'The deployment has adopted a MachineSet without an owner.',
  },
  MachineSetCreateError: { type: 'Warning', when: 'The API server refused a MachineSet.' },
  ProgressDeadlineExceeded: {
    type: 'Warning',
    when: 'The rollout has made no progress for progressDeadlineSeconds. The note names the machines that it waits for, and why.',
  },
  DeploymentRollback: {
    type: 'Normal',
    when: 'The deployment has an earlier template again, as spec.rollbackTo has asked, or because its rollout was late.',
  },
  DeploymentRollbackRevisionNotFound: { type: 'Warning', when: 'No MachineSet has the revision of spec.rollbackTo.' },
  DeploymentRollbackTemplateUnchanged: {
    type: 'Warning',
    when: 'The revision of spec.rollbackTo has the template that the deployment has.',
  },
  DeploymentRollbackRefused: {
    type: 'Warning',
    when: 'The API server refuses the template that spec.rollbackTo asks for. The field is cleared. The note says why.',
  },
  ...ownerEvents,
  ...invalidSpec,
  ...ofWorkflows,
} as const satisfies Record<string, EventMeaning>;

/** Reasons of Events on owners of machines, by kind. */
export interface OwnerEvents {
  readonly MachineSet: keyof typeof setEvents;
  readonly MachineDeployment: keyof typeof deploymentEvents;
}
