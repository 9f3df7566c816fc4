/**
 * Names that Millwright writes or reads and that no single dialect owns. Plain values: workflow code imports this file.
 * A dialect's own names are in its folder (`api/gardener/names.ts`).
 */

/** Prefix of every label and annotation of our own. Manifests for the replaced systems work without them. */
export const prefix = 'millwright.dev/';

/** Labels and annotations of our own. */
export const names = {
  /** Label on Secrets that Millwright makes for one Machine: the Machine's UID. */
  machineUid: `${prefix}machine-uid`,
  /** Annotation on a Machine: JSON list of the places where VMs of it may be, whatever its class says by now. */
  places: `${prefix}places`,
  /** Annotation on a Machine that is being deleted: comma-separated names of Nodes to delete with it, even without provider ID. */
  nodes: `${prefix}nodes`,
  /** Annotation on a Machine: how many of its VMs were replaced under it, because their Nodes were deleted. */
  replacements: `${prefix}replacements`,
  /** Annotation on a Machine between two VMs: provider ID of the VM that was deleted, until its Node is gone. */
  replacedVm: `${prefix}replaced-vm`,
  /** Annotation on a Machine that is deleted because it had Failed: its replacement need not wait until it is gone. */
  replaced: `${prefix}replaced`,
  /** Annotation on an unhealthy Machine whose owner has decided to replace it: when it asked for that. Void with another time. */
  replace: `${prefix}replace`,
  /** Annotation on a Machine that was made in place of an unhealthy one: name of that one. */
  replaces: `${prefix}replaces`,
  /** Annotation on a Machine: it was made while its deployment rolled out, so its Node joins with what keeps the autoscaler away. */
  createdInRollout: `${prefix}created-in-rollout`,
  /** Annotation on a Failed Machine: when its preservation was over. It is replaced, and not kept by its owner again. */
  preservedUntil: `${prefix}preserved-until`,
  /** Annotation on a Machine whose deployment updates its machines in place: one of `inPlaceOrders`. */
  inPlaceUpdate: `${prefix}in-place-update`,
  /** Annotation on a MachineDeployment or a MachineSet: `true` lets `spec.minReadySeconds` count. */
  enforceMinReadySeconds: `${prefix}enforce-min-ready-seconds`,
  /** Annotation on a MachineDeployment: `true` takes a rollout that is late back to the last revision that was complete. */
  rollbackWhenLate: `${prefix}rollback-when-late`,
  /** Annotation on a MachineDeployment: hash of the template that was rolled back last because it was late. */
  rolledBack: `${prefix}rolled-back`,
  /** Annotation on a MachineSet: its revision when its rollout was complete last. Only where late rollouts are rolled back. */
  completed: `${prefix}completed`,
  /** Annotation on the template of a MachineDeployment: when somebody wanted all of its machines replaced, RFC 3339. */
  restartedAt: `${prefix}restartedAt`,
  /** Annotation on a MachineSet: `<id>:<name>,…` of the machines that are created in it, until a rollout is complete. */
  creating: `${prefix}creating`,
  /** Annotation on a MachineDeployment or a MachineSet without one: most surge machines of its namespace. */
  maxSurge: `${prefix}max-surge-in-namespace`,
  /** Annotation on the same: most machines of its namespace that were created and do not run yet. */
  maxProvisioning: `${prefix}max-provisioning-in-namespace`,
  /** Annotation on a source of machines, such as a class: JSON of what was found wrong with it, and with which version of it. */
  verdict: `${prefix}verdict`,
  /** Annotation on a source: when a Machine of it was found gone although its VM was not known to be, RFC 3339. */
  lostMachine: `${prefix}lost-machine`,
  /** Annotation on a Machine: JSON of the tags of its source that its VM has; null for one that only some parts may have. */
  vmTags: `${prefix}vm-tags`,
  /** Taint of a Node whose VM the cloud is about to take away. Its value is the reason in the cloud's words. */
  vmInterrupted: `${prefix}vm-interrupted`,
  /** Annotation on such a Secret: name and version of the Secret that it was rendered from. */
  source: `${prefix}source`,
  /** Annotation on such a Secret in the target cluster, and on a Node: `<namespace>/<name>` of its Machine. */
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

/** Kubernetes' finalizer on an object deleted with `--cascade=orphan`, until its dependents have no reference to it. */
export const orphanFinalizer = 'orphan';

/** Search attributes that Millwright registers, all of type Keyword. A workflow has those that apply. */
export const searchAttributes = {
  installation: 'MillwrightInstallation',
  phase: 'MillwrightPhase',
  provider: 'MillwrightProvider',
  deployment: 'MillwrightDeployment',
  revision: 'MillwrightRevision',
  blockedOn: 'MillwrightBlockedOn',
} as const;

/** What a workflow waits for that somebody or something else has to provide. Values of `MillwrightBlockedOn`. */
export const blockers = {
  Source: 'what the Machine is made from, its class or a Secret, is missing or not usable',
  MachineSpec: 'the Machine itself is not valid',
  Credentials: 'the cloud refuses the credentials',
  CloudCapacity: 'the cloud has no capacity or the quota is used up',
  CloudApi: 'the cloud refuses or does not answer',
  ProviderWorker: 'no worker polls the task queue of the provider',
  NodeJoin: 'the VM exists, and its Node takes longer than most to become ready',
  NodeHealth: 'the Node is unhealthy or missing',
  PodDisruptionBudget: 'a PodDisruptionBudget allows no eviction',
  Drain: 'pods are still on the Node',
  KubernetesApi: 'a Kubernetes API server does not answer or refuses',
  Brake: 'a sweep would delete many resources, or does not trust the list of Machines, and waits for approval',
  Rollout: 'a rollout makes no progress, and none of its machines reports a cause',
} as const;
export type Blocker = keyof typeof blockers;

/** Header of the activities of a workflow: `cluster` of the reference that it was started with. */
export const clusterHeader = 'millwright-cluster';

/** What identifies a provider: `AWS` and `aws` are one. */
export function providerKey(provider: string): string {
  return provider.toLowerCase();
}

/** Task queue of a provider's cloud activities, in whatever language its worker is written. */
export function providerTaskQueue(installation: string, provider: string): string {
  return `${installation}.provider-${providerKey(provider)}`;
}

/** Task queue of the drains, which may last for hours and so hold no slot that anything else needs. */
export function drainTaskQueue(installation: string): string {
  return `${installation}.drain`;
}

/** The alphabet of generated names in Kubernetes: nothing that could spell a word. */
export const safeAlphabet = 'bcdfghjklmnpqrstvwxz2456789';
