/**
 * Every name that machine-controller-manager (MCM) reads or writes: they are the contract that manifests, the cluster
 * autoscaler and Gardener rely on. Where a name is a key of an object, its value says what it means. A comment names
 * the objects that carry it, what it means and who writes it: docs/reference/names.md is made from them. Plain values:
 * workflow code imports this file.
 */

export const group = 'machine.sapcloud.io';
export const version = 'v1alpha1';
export const apiVersion = `${group}/${version}` as const;

/** Coordinates of the four kinds. */
export const resources = {
  machineClasses: { group, version, plural: 'machineclasses', kind: 'MachineClass', namespaced: true },
  machines: { group, version, plural: 'machines', kind: 'Machine', namespaced: true },
  machineSets: { group, version, plural: 'machinesets', kind: 'MachineSet', namespaced: true },
  machineDeployments: { group, version, plural: 'machinedeployments', kind: 'MachineDeployment', namespaced: true },
} as const;

export const annotations = {
  /**
   * Node: JSON of the Machine's `nodeTemplate` as applied last, the base of the three-way merge. Written by the
   * `machine` workflow.
   */
  lastAppliedNodeTemplate: 'node.machine.sapcloud.io/last-applied-anno-labels-taints',
  /**
   * Node: JSON of the virtual capacity applied last, the base of its merge. Removed when there is none. Written by the
   * `machine` workflow.
   */
  lastAppliedVirtualCapacity: 'node.machine.sapcloud.io/last-applied-virtual-capacity',
  /**
   * Machine: integer. Lower is deleted earlier; 1 marks it for deletion. What is no number counts as 3. Written by
   * users, the `machine` workflow and its owner's workflow.
   */
  priority: 'machinepriority.machine.sapcloud.io',
  /** Machine: when it was marked for deletion, RFC 3339. Written by its owner's workflow. */
  markedForDeletionTime: 'machine.sapcloud.io/marked-for-deletion-time',
  /**
   * MachineDeployment: `name~RFC3339,name~RFC3339`, the machines that the cluster autoscaler wants deleted. Written by
   * Gardener's cluster autoscaler.
   */
  triggerDeletion: 'node.machine.sapcloud.io/trigger-deletion-by-mcm',
  /**
   * MachineDeployment, MachineSet: when a scaler changed the replicas, RFC 3339. Guards marked machines. Written by
   * Gardener's cluster autoscaler.
   */
  lastReplicaChangeByScalerTime: 'machine.sapcloud.io/last-deployment-replica-change-by-scaler-time',
  /** Node: `1` when no Machine owns it. Removed when a Machine appears. Written by the controllers. */
  notManaged: 'node.machine.sapcloud.io/not-managed-by-mcm',
  /**
   * Node, Machine: `now`, `when-failed`, `auto-preserved` or `false`. Written by users and its owner's workflow.
   */
  preserve: 'node.machine.sapcloud.io/preserve',
  /**
   * Machine: last value of `preserve` on its Node; remembers that the Node owned the decision. Written by the `machine`
   * workflow.
   */
  lastAppliedNodePreserveValue: 'node.machine.sapcloud.io/last-applied-node-preserve-value',
  /**
   * MachineDeployment, MachineSet, Machine: Go duration that overrides `creationTimeout` for machines created from now
   * on. Written by users and its owner's workflow.
   */
  effectiveCreationTimeout: 'node.machine.sapcloud.io/effective-creation-timeout',
  /** Machine: Go duration from creation to join, for people. Written by machine-controller-manager only. */
  machineJoinDuration: 'node.machine.sapcloud.io/machine-join-duration',
  /** Node: why an in-place update failed. Written by the agent on the Node. */
  updateFailedReason: 'node.machine.sapcloud.io/update-failed-reason',
  /**
   * Node: `true` keeps the cluster autoscaler from removing it, during rollouts and preservation. Written by the
   * controllers and the `machine` workflow.
   */
  scaleDownDisabled: 'cluster-autoscaler.kubernetes.io/scale-down-disabled',
  /**
   * Node: `true` when `scale-down-disabled` is ours; only then it is removed again. Written by the controllers and the
   * `machine` workflow.
   */
  scaleDownDisabledByMcm: 'cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm',
  /** MachineDeployment, MachineSet: integer, revision of the template. Written by its owner's workflow. */
  revision: 'deployment.kubernetes.io/revision',
  /** MachineSet: comma-separated revisions that it had before it was used again. Written by its owner's workflow. */
  revisionHistory: 'deployment.kubernetes.io/revision-history',
  /**
   * MachineSet: last known replicas of its deployment; a difference is a scaling event. Written by its owner's
   * workflow.
   */
  desiredReplicas: 'deployment.kubernetes.io/desired-replicas',
  /**
   * MachineSet: replicas of its deployment plus surge, the base of proportional scaling. Written by its owner's
   * workflow.
   */
  maxReplicas: 'deployment.kubernetes.io/max-replicas',
  /** MachineSet: `True` when its Nodes have the taint of the same name. Written by machine-controller-manager only. */
  preferNoSchedule: 'deployment.machine.sapcloud.io/prefer-no-schedule',
  /** MachineDeployment, MachineSet: any value thaws it, and Millwright removes the annotation. Written by users. */
  unfreeze: 'safety.machine.sapcloud.io/unfreeze',
  /** Machine, in `nodeTemplate`: JSON of a legacy placement, AWS only. Written by users. */
  awsPlacement: 'machine.sapcloud.io/awsPlacement',
  /** Any object: its manifest as applied last. Written by `kubectl apply`. */
  lastAppliedConfiguration: 'kubectl.kubernetes.io/last-applied-configuration',
} as const;

/** Annotations of an MD that its MS does not get. All others are copied; removed ones stay on the MS. */
export const annotationsNotCopied = [
  annotations.lastAppliedConfiguration,
  annotations.revision,
  annotations.revisionHistory,
  annotations.desiredReplicas,
  annotations.maxReplicas,
  annotations.preferNoSchedule,
  annotations.unfreeze,
  annotations.triggerDeletion,
] as const;

/** Values of the annotation `priority`. */
export const priorities = { marked: '1', default: '3' } as const;

/** Values of the annotation `preserve`; any other is ignored. */
export const preserveValues = {
  now: 'preserve in any phase, until expiry',
  'when-failed': 'preserve when the machine becomes Failed; stops on recovery and arms again',
  'auto-preserved': 'as when-failed, set by us; removed on recovery or expiry; counts against the maximum',
  false: 'never preserve automatically; stops an active preservation',
} as const;

export const labels = {
  /** Machine: name of its Node. Written by the `machine` workflow. */
  node: 'node',
  /** Machine: name of its deployment. Groups machines in metrics. Written by users, in the template. */
  name: 'name',
  /**
   * MachineSet, Machine: decimal FNV-32a hash of the template, also in their selectors. Written by its owner's
   * workflow.
   */
  templateHash: 'machine-template-hash',
  /** Node: name of its Machine. Written by the `machine` workflow. */
  machineName: 'node.gardener.cloud/machine-name',
  /** MachineDeployment, MachineSet: exactly `True` stops the creation of machines. Written by the controllers. */
  freeze: 'freeze',
  /** Machine: `true` drains and deletes by force. Written by users. */
  forceDeletion: 'force-deletion',
  /** Machine: exactly `True` drains by force for in-place updates and preservation. Written by users. */
  forceDrain: 'force-drain',
  /**
   * MachineSet: present on an old set of an in-place update, which creates no machines. Written by
   * machine-controller-manager only.
   */
  scaleUpDisabled: 'node.machine.sapcloud.io/scale-up-disabled',
  /** Node: `true` when it waits for an in-place update. Written by the `machine` workflow. */
  candidateForUpdate: 'node.machine.sapcloud.io/candidate-for-update',
  /** Node: `true` when it is its turn. Written by the `machine` workflow (Auto), or users (Manual). */
  selectedForUpdate: 'node.machine.sapcloud.io/selected-for-update',
  /** Node, Machine during the hand-over: `successful` or `failed`. Written by the agent on the Node. */
  updateResult: 'node.machine.sapcloud.io/update-result',
} as const;

export const finalizers = {
  /**
   * Machine, MachineSet, MachineDeployment, MachineClass: its VMs may exist, or objects refer to it. Written by the
   * workflows and the controllers.
   */
  machine: 'machine.sapcloud.io/machine-controller-manager',
  /** Secret: a MachineClass refers to it. Written by the controllers. */
  secret: 'machine.sapcloud.io/machine-controller',
  /** Node: a Machine backs it. Written by the `machine` workflow. */
  node: 'node.machine.sapcloud.io/machine-controller',
} as const;

export const taints = {
  /** Node of an old set during a rollout. Written by the controllers. */
  preferNoSchedule: {
    key: 'deployment.machine.sapcloud.io/prefer-no-schedule',
    value: 'True',
    effect: 'PreferNoSchedule',
  },
  /**
   * Node of a machine that is preserved and Failed. Millwright cordons the Node instead, and removes the taint when the
   * machine recovers or the preservation ends. Written by machine-controller-manager only, from v0.63 on.
   */
  preserved: { key: 'node.machine.sapcloud.io/preserved', effect: 'NoSchedule' },
  /**
   * Node: keeps a Pending machine from becoming Running; added again after an in-place update. Written by the agent on
   * the Node and the `machine` workflow.
   */
  criticalComponentsNotReady: { key: 'node.gardener.cloud/critical-components-not-ready', effect: 'NoSchedule' },
} as const;

/** Types of the conditions that are written to a Node. */
export const nodeConditionTypes = {
  Terminating: 'its machine is being deleted; written before the drain',
  InPlaceUpdate: 'how far the in-place update of its machine is',
  Preserved: 'its machine is preserved, or was',
} as const;

/** Reasons of the node condition Terminating. */
export const terminatingReasons = {
  Unhealthy: 'the machine was Failed or Unknown',
  ScaleDown: 'any other deletion',
} as const;

/** Reasons of the node condition Preserved: who has asked for it, or that it is over. */
export const preservedReasons = {
  byMcm: 'Preserved by MCM.',
  byUser: 'Preserved by user.',
  stopped: 'Preservation stopped.',
} as const;

/** Parts of the message of the node condition Preserved. MCM reads the first two back. */
export const preservedMessages = {
  drained: 'Preserved node drained successfully.',
  notDrained: 'Preserved node could not be drained.',
  until: 'Machine preserved until',
} as const;

/** Reasons of the node condition InPlaceUpdate, and its messages. */
export const inPlaceMessages = {
  CandidateForUpdate: 'Node is a candidate for in-place update',
  SelectedForUpdate: 'Node is selected for in-place update',
  DrainSuccessful: 'Node draining successful',
  ReadyForUpdate: 'Node is ready for in-place update',
  UpdateSuccessful: 'Node in-place update successful',
  UpdateFailed: 'Node in-place update failed',
} as const;
export type InPlaceReason = keyof typeof inPlaceMessages;

/** The reasons of the condition InPlaceUpdate from the selection of a machine on, until its agent has succeeded. */
export const reasonsUnderWay: ReadonlySet<string> = new Set<InPlaceReason>([
  'SelectedForUpdate',
  'DrainSuccessful',
  'ReadyForUpdate',
  'UpdateFailed',
]);

/** Values of the label `updateResult`. */
export const updateResults = { successful: 'successful', failed: 'failed' } as const;

/** `status.currentStatus.phase` of a Machine. */
export const phases = {
  '': 'the object is new and its VM is being created',
  Pending: 'the VM exists and its node has not joined',
  Available: 'the VM exists and there is no target cluster',
  Running: 'the node is healthy',
  Unknown: 'the node is unhealthy or missing',
  Failed: 'the owner will replace it',
  Terminating: 'it is being deleted',
  CrashLoopBackOff: 'creating or initializing the VM failed and is tried again',
  InPlaceUpdating: 'drained and being updated in place',
  InPlaceUpdateSuccessful: 'the node agent reported success',
  InPlaceUpdateFailed: 'the node agent reported failure, or nothing in time',
} as const;
export type MachinePhase = keyof typeof phases;

/** `lastOperation.type`. */
export const operationTypes = {
  Create: 'the VM is created and its node joins',
  Update: 'the object is updated',
  InPlaceUpdate: 'the node is updated in place',
  DrainNode: 'the node is drained for an update in place',
  HealthCheck: 'the health of the node has changed',
  Delete: 'the machine is deleted',
} as const;
export type OperationType = keyof typeof operationTypes;

/** `lastOperation.state`. */
export const operationStates = {
  Processing: 'under way',
  Failed: 'failed, and may be tried again',
  Successful: 'done',
} as const;
export type OperationState = keyof typeof operationStates;

/**
 * Parts of `lastOperation.description` that MCM reads back: the step that a deletion is at, in the order of the steps.
 */
export const deletionSteps = {
  getVmStatus: 'Set machine status to termination. Now, getting VM Status',
  drain: 'Initiate node drain',
  deleteVolumeAttachments: 'Delete Volume Attachments',
  deleteVm: 'Initiate VM deletion',
  deleteNode: 'Initiate node object deletion',
  removeFinalizer: 'Initiate machine object finalizer removal',
} as const;

/** Other texts of `lastOperation.description` that people and tools know. */
export const descriptions = {
  creating: 'Creating machine on cloud provider',
  /** Prefix of the cloud's own words. */
  cloudProviderMessage: 'Cloud provider message - ',
  initializing: 'Initialize VM Instance',
  staleNode: 'VM using old node obj',
  readyForUpdate: 'Node drain successful. Node is ready for update',
} as const;

/** Types of `status.machineSetCondition` of a MachineSet. */
export const machineSetConditionTypes = {
  ReplicaFailure: 'machines could not be created or deleted',
  Frozen: 'no machines are created',
} as const;

/** Reasons of the conditions of a MachineSet. */
export const machineSetConditionReasons = {
  FailedCreate: 'ReplicaFailure True: there are fewer objects than desired',
  FailedDelete: 'ReplicaFailure True: there are more objects than desired',
  OverShootingReplicaCount: 'Frozen True: there are too many machines',
} as const;

/** Types of `status.conditions` of a MachineDeployment. */
export const machineDeploymentConditionTypes = {
  Available: 'enough machines are available',
  Progressing: 'how the rollout goes',
  ReplicaFailure: 'copied from the new MachineSet, else from any',
  Frozen: 'no machines are created',
} as const;

/** Reasons of the conditions of a MachineDeployment. */
export const machineDeploymentConditionReasons = {
  MinimumReplicasAvailable: 'Available True',
  MinimumReplicasUnavailable: 'Available False',
  NewMachineSetCreated: 'Progressing True: the set of the template was created',
  FoundNewMachineSet: 'Progressing True: the set of the template existed',
  MachineSetUpdated: 'Progressing True: the rollout moves on',
  NewMachineSetAvailable: 'Progressing True: complete; the cluster autoscaler may scale down',
  MachineSetCreateError: 'Progressing False: the set of the template could not be created',
  ProgressDeadlineExceeded: 'Progressing False: no progress within progressDeadlineSeconds',
  DeploymentPaused: 'Progressing Unknown: paused',
  DeploymentResumed: 'Progressing Unknown: no longer paused',
  FailedCreate: 'ReplicaFailure True: a set has fewer objects than desired',
  FailedDelete: 'ReplicaFailure True: a set has more objects than desired',
  OverShootingReplicaCount: 'Frozen True: a set has too many machines',
  MachineDeploymentStateSync: 'Frozen True: a set is frozen',
} as const;
export type MachineDeploymentConditionReason = keyof typeof machineDeploymentConditionReasons;

/** `spec.strategy.type` of a MachineDeployment. */
export const strategies = {
  RollingUpdate: 'new machines come while old ones go, within maxSurge and maxUnavailable',
  Recreate: 'all old machines go before the new ones come',
  InPlaceUpdate: 'machines stay and are updated by an agent on the node',
} as const;

/** `spec.strategy.inPlaceUpdate.orchestrationType` of a MachineDeployment. */
export const orchestrationTypes = {
  Auto: 'we select the nodes, within maxUnavailable',
  Manual: 'a user labels the nodes `selectedForUpdate`',
} as const;

/** Key of the user data in the merged secret of a MachineClass. Mandatory. */
export const userDataKey = 'userData';

/** Placeholders in the user data. Where the plain form is absent, the URL-encoded one is replaced. */
export const userDataPlaceholders = {
  bootstrapToken: '<<BOOTSTRAP_TOKEN>>',
  machineName: '<<MACHINE_NAME>>',
} as const;

/** Leases by which MCM's two processes elect a leader, in the watched namespace. */
export const leases = {
  machineControllerManager: 'machine-controller-manager',
  machineController: 'machine-controller',
} as const;
