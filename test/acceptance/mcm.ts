/**
 * What Gardener's machine-controller-manager can do, a row each: what a passing test of the row proves.
 * Titles of tests carry `[mcm <row>]`.
 */
export const mcm: readonly { row: number; title: string }[] = [
  {
    row: 1,
    title: 'All four kinds are served as the original serves them, and a typed client gets back every field it wrote',
  },
  {
    row: 2,
    title: '`kubectl scale` works on MachineDeployments and MachineSets and reports the replicas of the status',
  },
  { row: 3, title: 'A Machine that names no class, or a class without kind, calls no cloud and says what is wrong' },
  {
    row: 4,
    title:
      'A wrong strategy, surge or selector touches no machine and is reported on the object itself; no selector, no crash (better than the original)',
  },
  {
    row: 5,
    title: 'A nodeTemplate that lacks cpu, gpu or memory holds back creation; correcting it is picked up within 5 s',
  },
  { row: 6, title: 'Where both Secrets of a class have a key, the driver gets the value of credentialsSecretRef' },
  { row: 7, title: 'The Machine has its finalizer before a VM is made and keeps it until VM and Node are gone' },
  { row: 8, title: 'A MachineClass that is deleted stays for as long as a Machine needs it' },
  { row: 9, title: 'A Secret that is deleted stays for as long as a MachineClass refers to it' },
  { row: 10, title: 'Deleting a Node deletes its Machine, and the Node object stays until the VM is gone' },
  { row: 11, title: 'One new Machine causes one create call, made with its class and its merged Secrets' },
  { row: 12, title: 'A VM that already exists is taken over: no create call, provider ID and node label come from it' },
  { row: 13, title: 'A driver without a status call still creates once, because the provider ID is stored' },
  { row: 14, title: 'After creation the Machine carries provider ID, node label and the deletion priority 3' },
  {
    row: 15,
    title: 'A VM that is not initialized is asked again until it is; a driver that has no such step is not asked',
  },
  {
    row: 16,
    title:
      'Each Machine has a bootstrap token of its own before creation, with expiry, removed on join and on deletion (better than the original)',
  },
  { row: 17, title: 'The bootstrap token carries the configured auth-extra-groups' },
  {
    row: 18,
    title:
      'Both placeholders of the user data are filled in wherever they stand, also URL-encoded; no user data is an error',
  },
  { row: 19, title: 'A VM that would reuse the name of another Node is deleted and its Machine fails' },
  { row: 20, title: 'A Machine whose VM exists is Pending, its timeout runs and its operation is Create, Processing' },
  { row: 21, title: 'A Machine becomes Running when its Node is healthy, and its creation counts as successful' },
  {
    row: 22,
    title: 'The taint for critical components keeps a Machine Pending; without it, Running follows within seconds',
  },
  {
    row: 23,
    title:
      'A Machine that has not joined within its creation timeout, counted from when its workflow first saw it, fails and is replaced',
  },
  { row: 24, title: 'The annotation for the creation timeout on a deployment holds for the machines made after it' },
  {
    row: 25,
    title: 'A create error within the timeout shows as CrashLoopBackOff with the code and the words of the cloud',
  },
  { row: 26, title: 'After ResourceExhausted the next create waits for the configured pause, and the code is visible' },
  { row: 27, title: 'Transient create errors are tried again after 5 s, others after 3 min' },
  { row: 28, title: 'The same error under another request ID writes no status for 30 min' },
  { row: 29, title: 'The state that a driver returns is kept and handed back in later calls' },
  { row: 30, title: 'Changed Node conditions show on the Machine; heartbeats of the kubelet cause no write' },
  { row: 31, title: 'A Node that is not Ready, or has one of the listed conditions, makes its Machine Unknown' },
  { row: 32, title: 'A Machine may list the node conditions that count for it, instead of those of the flag' },
  {
    row: 33,
    title: 'A Running Machine whose Node is gone becomes Unknown, or is deleted when the Node was deleted on purpose',
  },
  { row: 34, title: 'An Unknown Machine whose Node recovers in time is Running again and nothing is replaced' },
  { row: 35, title: 'A Machine Unknown for longer than its health timeout fails and is replaced' },
  { row: 36, title: 'With the health timeout switched off, an Unknown Machine stays as it is for good' },
  {
    row: 37,
    title:
      'However many machines of a deployment are Unknown, one replacement runs at a time, or as many as configured (better than the original)',
  },
  { row: 38, title: 'The Node carries the name of its Machine in the label of the original' },
  {
    row: 39,
    title: 'Labels and annotations of the template are added, changed and removed on the Node; those of others stay',
  },
  { row: 40, title: 'Taints of the template follow it on the Node, told apart by key and effect' },
  { row: 41, title: 'Virtual capacity of the class comes and goes in the capacity of Nodes that exist already' },
  { row: 42, title: 'A changed nodeTemplate or timeout of a deployment reaches its live machines without a rollout' },
  {
    row: 43,
    title:
      'Deletion goes status, drain, volume attachments, VM, Node, finalizer, and resumes at its step after a restart',
  },
  { row: 44, title: 'A Machine that never had a Node is deleted without a drain, its VM included' },
  { row: 45, title: 'Deletion waits for a create call that is under way and leaves no VM behind' },
  {
    row: 46,
    title:
      'The Node is cordoned and marked Terminating, with the true reason, before the first eviction (better than the original)',
  },
  { row: 47, title: 'Mirror pods and those of DaemonSets stay; bare pods and pods with emptyDir are evicted' },
  { row: 48, title: 'Pods without persistent volumes are evicted side by side through the Eviction API' },
  { row: 49, title: 'An eviction that a budget refuses is tried every 20 s up to the limit, then the pod is deleted' },
  { row: 50, title: 'A PodDisruptionBudget that never allows an eviction is named in the status' },
  {
    row: 51,
    title:
      'Pods with volumes go one at a time by priority, each waiting for its volumes to detach and attach elsewhere',
  },
  { row: 52, title: 'Shared volumes and those unknown to the driver are not waited for' },
  {
    row: 53,
    title:
      'Past the drain timeout, counted from when the workflow first saw the deletion, the drain is forced and the VM goes',
  },
  { row: 54, title: 'The force-deletion label takes effect even in the middle of a drain (better than the original)' },
  { row: 55, title: 'On a Node that was unhealthy or read-only for 5 min, pods are force-deleted without a wait' },
  { row: 56, title: 'After a forced drain the volume attachments of the Node go before its VM' },
  {
    row: 57,
    title:
      'A VM that is not found counts as deleted; transient errors wait 5 s, others 10 min, all of it in lastOperation',
  },
  { row: 58, title: 'Once a Machine is gone, the cloud has no VM, disk or NIC of it' },
  {
    row: 59,
    title: 'A MachineSet owns as many machines as it has replicas, named after it and with a controller reference',
  },
  { row: 60, title: 'When the first create call of a pass fails, no other one is made in it' },
  { row: 61, title: 'One pass creates or deletes 100 machines at most' },
  { row: 62, title: 'A MachineSet adopts matching machines without an owner and releases those that match no more' },
  { row: 63, title: 'A Failed machine is deleted and replaced, and the replica count stays right' },
  { row: 64, title: 'A scale-down by one takes the machine with priority 1, then by marked time, phase and age' },
  {
    row: 65,
    title: 'A scale-down takes exactly the machines listed on the deployment; entries that make no sense go away',
  },
  { row: 66, title: 'A marked machine lives until the replica count has changed at or after its mark' },
  {
    row: 67,
    title: 'The status of a MachineSet counts terminating, ready and available machines and sums up the failed ones',
  },
  { row: 68, title: 'A refused create shows as ReplicaFailure on set and deployment, until one succeeds' },
  { row: 69, title: 'A deleted MachineSet deletes its machines first and then goes itself' },
  { row: 70, title: 'A deployment makes one MachineSet of its template, with the hash in name, labels and selector' },
  {
    row: 71,
    title: 'A changed class name, template label or annotation starts a rollout; a changed nodeTemplate does not',
  },
  {
    row: 72,
    title: 'A rolling update keeps within replicas + surge and replicas − maxUnavailable all the time, failures aside',
  },
  { row: 73, title: 'A rollout removes old machines that are not available before those that are' },
  {
    row: 74,
    title: 'Old Nodes are tainted PreferNoSchedule during a rollout and freed when it is rolled back onto them',
  },
  { row: 75, title: 'The autoscaler leaves all Nodes alone during a rollout, and marks that users set outlive it' },
  {
    row: 76,
    title:
      'Scaling in mid-rollout goes up on the new set, down on the old ones, in proportion while paused, whatever the strategy (better than the original)',
  },
  { row: 77, title: 'Recreate makes no new machine while an old one is left' },
  {
    row: 78,
    title: 'A paused deployment scales and does not roll, and its conditions tell about pause and resumption',
  },
  { row: 79, title: 'A rollback restores template and annotations, clears its field and emits its Event' },
  {
    row: 80,
    title: 'A rollout without progress past its deadline says so in Progressing, and recovers with the next progress',
  },
  { row: 81, title: 'Empty old MachineSets past the history limit go, oldest first' },
  { row: 82, title: 'Two templates with one hash raise collisionCount and both get a set' },
  { row: 83, title: 'Revisions only rise, and a set that is used again remembers its earlier ones' },
  { row: 84, title: 'A deployment at rest has the conditions Available and Progressing and no others' },
  {
    row: 85,
    title: 'A set that overshoots is frozen by label, condition and Event: creation stops, deletion does not',
  },
  { row: 86, title: 'A frozen set thaws when the count is down again, or by annotation, and says so' },
  { row: 87, title: 'A deployment is frozen exactly while one of its sets is' },
  {
    row: 88,
    title: 'A VM with our tags and without a Machine goes within the period; one being created for a Machine stays',
  },
  {
    row: 89,
    title:
      'The sweep needs a reachable API, a minimum age and small numbers, else it stops and raises an alarm (better than the original)',
  },
  {
    row: 90,
    title: 'Of two VMs for one Machine the surplus one goes: at once in creation, after it with the next sweep',
  },
  {
    row: 91,
    title: 'A Node without a Machine is marked as not managed and loses our finalizer, until a Machine appears',
  },
  {
    row: 92,
    title: 'While the target API is down nothing is judged or replaced, and Unknown timers start anew after it',
  },
  { row: 93, title: 'Preserve `now` protects a machine at once, with expiry, condition and a mark for the autoscaler' },
  {
    row: 94,
    title: 'Preserve `when-failed` begins at the failure with cordon and drain, ends on recovery and is armed again',
  },
  { row: 95, title: 'Failed machines are preserved by themselves up to the limit; a lower limit lets the surplus go' },
  { row: 96, title: 'Preserve `false` prevents and ends it; at expiry the marks go and a Failed machine is replaced' },
  { row: 97, title: 'A preserve value on the Node beats the one of the Machine and clears it' },
  { row: 98, title: 'A scale-down takes preserved machines only when no others are left' },
  {
    row: 99,
    title:
      'An automatic in-place update takes maxUnavailable Nodes at a time and keeps the VM, which moves to the new set',
  },
  { row: 100, title: 'A manual in-place update drains only the Nodes that a person has labelled' },
  {
    row: 101,
    title: 'An in-place update that fails or takes too long says so, stays in the old set and can be tried again',
  },
  { row: 102, title: 'While machines move in place, the old set makes no replacements' },
  { row: 103, title: 'Without a target cluster machines become Available with addresses and nothing touches a Node' },
  {
    row: 104,
    title:
      'Every field of an AWS providerSpec reaches EC2, tags identify, spot works and creates are idempotent (better than the original)',
  },
  { row: 105, title: 'An AWS machine has source/dest check and IPv6 prefixes set, else it stays Uninitialized' },
  { row: 106, title: 'Azure machines come with NIC and disks that go with them; nothing is left of failed creates' },
  { row: 107, title: 'The Azure sweep finds NICs and disks whose Machine is gone' },
  {
    row: 108,
    title:
      'OpenStack machines are created once, take ports and volumes with them and allow all pod CIDRs (better than the original)',
  },
  { row: 109, title: 'Used-up capacity or quota of every cloud becomes ResourceExhausted' },
  { row: 110, title: 'Every flag of the original has its equivalent with the same default' },
  { row: 111, title: 'The metrics of the original exist under their names and labels, with its bugs mended' },
  {
    row: 112,
    title:
      'Two replicas never act twice, and workers pause while the original leads; when one dies another goes on and makes no second VM',
  },
  { row: 113, title: 'Changes of phase and errors of the driver are Events on the Machine (better than the original)' },
  {
    row: 114,
    title: 'Hundreds of drains at once delay neither creations nor health checks (better than the original)',
  },
];
