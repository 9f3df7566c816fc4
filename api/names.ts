/**
 * Names that Millwright writes or reads and that no single dialect owns. Plain values: workflow code imports this file.
 * A dialect's own names are in its folder (`api/gardener/names.ts`).
 */

/** Prefix of every label and annotation of our own. Manifests for the replaced systems work without them. */
export const prefix = 'millwright.dev/';

/**
 * Labels, annotations and a taint of our own. A comment names the objects that carry it, what it means and who writes
 * it: docs/reference/names.md is made from them.
 */
export const names = {
  /**
   * Secret that Millwright makes for one Machine: label with the Machine's UID. Written by the `machine` workflow.
   */
  machineUid: `${prefix}machine-uid`,
  /**
   * Machine: JSON list of the places where VMs of it may be, whatever its class says now. Written by the `machine`
   * workflow.
   */
  places: `${prefix}places`,
  /**
   * Machine: signature of its places. Without a valid one they count only while a class says the same. Written by the
   * `machine` workflow and the `sourceCheck` workflow.
   */
  placesSignature: `${prefix}places-signature`,
  /**
   * Machine: `true` if another system has begun its creation, so that its VM may have no UID tag. Written by the
   * `machine` workflow, with the first places.
   */
  begunElsewhere: `${prefix}begun-elsewhere`,
  /**
   * Machine: its UID when its first VM was asked for. With another one it was restored, and its Node may be older than
   * it. Written by the `machine` workflow.
   */
  firstUid: `${prefix}first-uid`,
  /**
   * Machine that is being deleted: comma-separated names of Nodes to delete with it, even without provider ID. Written
   * by the `machine` workflow.
   */
  nodes: `${prefix}nodes`,
  /**
   * Machine that is being deleted: signature of these names. Without a valid one they do not count. Written by the
   * `machine` workflow.
   */
  nodesSignature: `${prefix}nodes-signature`,
  /**
   * Machine: how many of its VMs were replaced under it, because their Nodes were deleted. Written by the `machine`
   * workflow.
   */
  replacements: `${prefix}replacements`,
  /**
   * Machine between two VMs: provider ID of the VM that was deleted, until its Node is gone. Written by the `machine`
   * workflow.
   */
  replacedVm: `${prefix}replaced-vm`,
  /**
   * Machine that is deleted because it had Failed: its replacement need not wait until it is gone. Written by its
   * owner's workflow.
   */
  replaced: `${prefix}replaced`,
  /**
   * Machine that is unhealthy: the time of its request to be replaced, once its owner has agreed. Another time makes it
   * void. Written by its owner's workflow.
   */
  replace: `${prefix}replace`,
  /** Machine that was made in place of an unhealthy one: name of that one. Written by its owner's workflow. */
  replaces: `${prefix}replaces`,
  /**
   * Machine: it was made while its deployment rolled out, so its Node joins with the annotation that keeps the
   * autoscaler away. Written by its owner's workflow.
   */
  createdInRollout: `${prefix}created-in-rollout`,
  /**
   * Machine that is Failed: when its preservation was over. It is replaced, and not kept by its owner again. Written by
   * the `machine` workflow.
   */
  preservedUntil: `${prefix}preserved-until`,
  /**
   * Node that is drained and whose machine stays: `preservation` if it was cordoned for that, which its end undoes;
   * `others` if it was cordoned before, and stays so. Written by the `machine` workflow.
   */
  cordonedBy: `${prefix}cordoned-by`,
  /**
   * Machine whose deployment updates its machines in place: `candidate`, `selected`, `updated` or `released`, `@` and
   * the UID of its MachineSet. Void for another MachineSet. Written by the `machine` workflow and its owner's workflow.
   */
  inPlaceUpdate: `${prefix}in-place-update`,
  /**
   * Machine that is being deleted: `true` is the order of `millwright drain --skip`, with `--orders-in-annotations`.
   * Written by users.
   */
  skipDrain: `${prefix}skip-drain`,
  /**
   * Machine: each new text, such as the time, is the order of `millwright retry`, with `--orders-in-annotations`.
   * Written by users.
   */
  retry: `${prefix}retry`,
  /** MachineDeployment, MachineSet: `true` makes `spec.minReadySeconds` count. Written by users. */
  enforceMinReadySeconds: `${prefix}enforce-min-ready-seconds`,
  /**
   * MachineDeployment: `true` takes a rollout that is late back to the last revision that was complete. Written by
   * users.
   */
  rollbackWhenLate: `${prefix}rollback-when-late`,
  /**
   * MachineDeployment: whether a rollout creates a machine as soon as another one is being deleted
   * (`TerminationStarted`, the default) or not before it is gone (`TerminationComplete`). Written by users.
   */
  replacementPolicy: `${prefix}replacement-policy`,
  /**
   * MachineDeployment: hash of the last template that was taken back because its rollout was late. Written by its
   * workflow.
   */
  rolledBack: `${prefix}rolled-back`,
  /**
   * MachineSet: its revision when its rollout was last complete. Only where late rollouts are taken back. Written by
   * its owner's workflow.
   */
  completed: `${prefix}completed`,
  /**
   * MachineDeployment, in the template: when somebody wanted all of its machines replaced, RFC 3339. Written by
   * `millwright rollout restart`.
   */
  restartedAt: `${prefix}restartedAt`,
  /**
   * MachineSet: `<id>:<name>,…` of the machines that are being created in it, or were created last. Written by its
   * owner's workflow.
   */
  creating: `${prefix}creating`,
  /**
   * MachineSet: JSON of how many attempts in a row have made no machine that joined, and until when there is no other
   * one. Removed when a machine has joined. Written by its owner's workflow.
   */
  failedAttempts: `${prefix}failed-attempts`,
  /**
   * Machine without an owner: name of the MachineSet that has released it, which counts it when it looks whether it is
   * frozen. Without the annotation it does not count. Written by its owner's workflow.
   */
  releasedBy: `${prefix}released-by`,
  /** MachineDeployment, MachineSet without one: limit of the surge machines of its namespace. Written by users. */
  maxSurge: `${prefix}max-surge-in-namespace`,
  /**
   * MachineDeployment, MachineSet without one: limit of the machines of its namespace that do not run yet. Written by
   * users.
   */
  maxProvisioning: `${prefix}max-provisioning-in-namespace`,
  /**
   * MachineClass: JSON of the problems that were found in it, and the version of the class that was checked. Written by
   * the `sourceCheck` workflow.
   */
  verdict: `${prefix}verdict`,
  /**
   * MachineClass: whether the last check has accepted it, `true` or `false`, for a column of kubectl. Written by the
   * `sourceCheck` workflow.
   */
  accepted: `${prefix}accepted`,
  /**
   * MachineClass: when a Machine of it was found gone although its VM was not known to be gone, RFC 3339. Written by
   * the `machine` workflow.
   */
  lostMachine: `${prefix}lost-machine`,
  /**
   * Machine: JSON of the tags of its class that its VM has; `null` for one that only some parts may have. Written by
   * the `machine` workflow and the `tagUpdate` workflow.
   */
  vmTags: `${prefix}vm-tags`,
  /**
   * Node whose VM the cloud is about to take away: taint. Its value is the reason in the cloud's words. Written by the
   * `machine` workflow.
   */
  vmInterrupted: `${prefix}vm-interrupted`,
  /**
   * Secret that Millwright makes for one Machine: name and version of the Secret that it was rendered from. Written by
   * activities of the workers.
   */
  source: `${prefix}source`,
  /**
   * Node, Secret that Millwright makes for one Machine: `<namespace>/<name>` of its Machine. Written by the `machine`
   * workflow.
   */
  machine: `${prefix}machine`,
} as const;

/** What a Machine and its owner tell each other about the in-place update of its Node. */
export const inPlaceOrders = {
  /** By the owner: it has an old template. */
  candidate: 'candidate',
  /** By the owner, or by the Machine where a person has labelled its Node: it is its turn. */
  selected: 'selected',
  /** By the Machine: the agent on its Node has succeeded, and it may be handed over to the set of the new template. */
  updated: 'updated',
  /** By the owner: it has the current template after all. */
  released: 'released',
} as const;

/** Secret with the key of the signatures, in the namespace of the Machines. */
export const signingKeySecret = 'millwright-signing-key';

/** Values of the annotation `cordonedBy`. */
export const cordoners = { preservation: 'preservation', others: 'others' } as const;

/** Lease that remembers the cluster of the Nodes of an installation, in the namespace of the Machines. */
export function clusterRecordName(installation: string): string {
  return `millwright-${installation}-target`;
}

/** Name of the installation whose record a Lease with this name is; undefined: it is none. */
export function installationOfRecord(lease: string): string | undefined {
  return /^millwright-(.+)-target$/.exec(lease)?.[1];
}

/** Kubernetes' finalizer on an object deleted with `--cascade=orphan`, until its dependents have no reference to it. */
export const orphanFinalizer = 'orphan';

/** Search attributes that Millwright registers, all of type Keyword. A workflow has those that apply. */
export const searchAttributes = {
  /** Name of the installation. */
  installation: 'MillwrightInstallation',
  /** Phase in the status of the Machine; `Pending` while the status has none. */
  phase: 'MillwrightPhase',
  /** Provider of the class; empty until the machine runs or is blocked. */
  provider: 'MillwrightProvider',
  /** Name of the MachineDeployment that owns the MachineSet of the Machine. */
  deployment: 'MillwrightDeployment',
  /** Template hash of the MachineSet. */
  revision: 'MillwrightRevision',
  /** What a person or another system must provide; empty when the workflow is not blocked. */
  blockedOn: 'MillwrightBlockedOn',
} as const;

/** What a workflow waits for that somebody or something else has to provide. Values of `MillwrightBlockedOn`. */
export const blockers = {
  Source: 'what the Machine is made from, its class or a Secret, is missing or not usable',
  MachineSpec: 'the Machine itself is not valid',
  OwnerSpec: 'the spec of the MachineDeployment or MachineSet is not valid',
  Credentials: 'the cloud refuses the credentials',
  CloudCapacity: 'the cloud has no capacity or the quota is used up',
  CloudApi: 'the cloud refuses or does not answer',
  ProviderWorker: 'no worker polls the task queue of the provider, or the worker lacks an activity',
  NodeJoin: 'the VM exists, and its Node takes longer than most to become ready',
  NodeHealth: 'the Node is unhealthy or missing',
  Outage: 'so many Nodes are unhealthy or missing together that no machine is replaced',
  PodDisruptionBudget: 'a PodDisruptionBudget allows no eviction',
  Drain: 'pods or volumes do not leave the Node',
  KubernetesApi: 'a Kubernetes API server does not answer, refuses, or does not keep what is written',
  Brake:
    'a sweep would delete many resources or healthy VMs, or does not trust the list of Machines, and waits for approval',
  Freeze: 'a MachineSet has too many machines, with those that it has released, and none is created until it has fewer',
  Rollout: 'a rollout makes no progress, and none of its machines reports a cause',
  WorkflowTask: 'the tasks of a workflow fail, and Temporal tries them again and again',
} as const;
export type Blocker = keyof typeof blockers;

/** Header of the activities of a workflow: `cluster` of the reference that it was started with. */
export const clusterHeader = 'millwright-cluster';

/** How the message of an exception begins that the code of a workflow throws where its history goes on. */
export const throwsInReplayMark = 'The code throws where its history goes on';

/** Global in the sandbox of workflows whose worker has keys for payloads: the messages of failures are payloads. */
export const encodesFailuresMark = 'millwrightEncodesFailures';

/** What identifies a provider: `AWS` and `aws` are one. */
export function providerKey(provider: string): string {
  return provider.toLowerCase();
}

/** Longest name of a provider in a class. */
export const maxProviderLength = 200;

/** Why a class may not name a provider; undefined: it may. Release 0.1.0 has made VMs with longer names. */
export function providerNameProblem(provider: string): string | undefined {
  if (provider.length <= maxProviderLength) return undefined;
  const most = `${maxProviderLength} is the most for the task queue of its workers`;
  return `provider has ${provider.length} characters, and ${most}: set it to the name of a provider`;
}

/** Task queue of a provider's cloud activities, in whatever language its worker is written. */
export function providerTaskQueue(installation: string, provider: string): string {
  return `${installation}.provider-${providerKey(provider)}`;
}

/** Whether a provider can have workers: Temporal refuses a task queue whose name is longer, in characters. */
export function canHaveWorkers(installation: string, provider: string): boolean {
  return providerTaskQueue(installation, provider).length <= 1_000;
}

/** Task queue of the drains, which may last for hours and so hold no slot that anything else needs. */
export function drainTaskQueue(installation: string): string {
  return `${installation}.drain`;
}

/** Most characters of the value of a label, and so of the name of a Machine, which its Node has as one. */
export const maxLabelLength = 63;

/** The alphabet of generated names in Kubernetes: nothing that could spell a word. */
export const safeAlphabet = 'bcdfghjklmnpqrstvwxz2456789';
