/**
 * What the Kubermatic machine-controller and operating-system-manager can do, a row each: what a passing test of the
 * row proves. Titles of tests carry `[kubermatic <row>]`.
 */
export const kubermatic: readonly { row: number; title: string }[] = [
  { row: 1, title: 'The 32 published example manifests apply under strict validation and come back with every field' },
  { row: 2, title: '`kubectl get ma,ms,md` prints the columns of the original' },
  {
    row: 3,
    title: "A client that writes a Machine's status through the main resource succeeds, or is told clearly why not",
  },
  { row: 4, title: '`kubectl scale` on a MachineDeployment sets its replicas and reads those of its status' },
  {
    row: 5,
    title: 'The scale subresource names a selector, so a horizontal autoscaler can use it (better than the original)',
  },
  { row: 6, title: 'A deployment of selector and template alone gets the defaults of the original' },
  { row: 7, title: 'A key that providerSpec or cloudProviderSpec does not know is refused by name' },
  { row: 8, title: 'A key that operatingSystemSpec does not know is accepted' },
  { row: 9, title: 'Every form of a ConfigVar, plain or by reference, resolves to the same string' },
  { row: 10, title: 'An empty field takes the environment variable that its provider documents' },
  {
    row: 11,
    title:
      'A reference to a missing key is an error one can see, even where a variable could stand in (better than the original)',
  },
  {
    row: 12,
    title:
      'With the policy on, references outside their namespace or the allow-list are refused at admission (better than the original)',
  },
  { row: 13, title: 'Quotes and backslashes in a ConfigVar survive decoding and encoding (better than the original)' },
  { row: 14, title: 'The spec of a Machine cannot be changed; a provider ID can be set once' },
  { row: 15, title: 'The bypass annotation lets one change pass and is not stored' },
  {
    row: 16,
    title: 'Deployments with labels that do not match, negative replicas, no surge at all or 150 % are refused',
  },
  { row: 17, title: 'Scaling a deployment works although its credentials are no longer valid' },
  { row: 18, title: 'Malformed SSH keys are refused; RSA, ECDSA and ed25519 are accepted' },
  { row: 19, title: 'A kubelet version outside the constraint is refused' },
  { row: 20, title: 'Objects with fields of older releases are stored in the new form' },
  {
    row: 21,
    title:
      'Admission asks no cloud unless told to: a slow cloud delays no apply, its findings become a condition (better than the original)',
  },
  {
    row: 22,
    title: 'A passing refusal of the cloud is forgotten: the next try within 10 s succeeds (better than the original)',
  },
  { row: 23, title: 'A Machine that names another controller is not touched' },
  { row: 24, title: 'Initializers on a Machine hold back all calls to the cloud until they are removed' },
  { row: 25, title: 'Both finalizers are stored before the first call that changes anything in the cloud' },
  { row: 26, title: 'Creation waits for a bootstrap Secret of the revision of the MachineSet' },
  { row: 27, title: 'A Machine without a deployment gets user data and a VM (better than the original)' },
  {
    row: 28,
    title:
      'A machine of the old set that dies in a paused rollout comes back with the old template (better than the original)',
  },
  {
    row: 29,
    title:
      'However often a worker is killed between create and answer, one VM per UID lives (better than the original)',
  },
  { row: 30, title: 'Addresses are sorted by type and value and each has a type (better than the original)' },
  { row: 31, title: 'Nodes are matched by provider ID whatever its case, and by the short form of AWS' },
  {
    row: 32,
    title:
      'Matching by IP takes no Node that belongs to another Machine or has another known name (better than the original)',
  },
  {
    row: 33,
    title: 'A Node that appears soon carries its owner label, and its Machine the node reference and kubelet version',
  },
  {
    row: 34,
    title: "The provider ID of a Machine is the cloud's own and equals that of its Node (better than the original)",
  },
  { row: 35, title: 'Without a cloud controller manager the Node gets a provider ID made of provider and UID' },
  {
    row: 36,
    title: 'Labels, annotations and taints reach the Node at once, all of them, and replace nothing that is there',
  },
  { row: 37, title: 'The Node names its Machine, so that the autoscaler finds its group' },
  {
    row: 38,
    title:
      'A VM that never gets an address is replaced after the join timeout, counted from its creation (better than the original)',
  },
  { row: 39, title: 'A lost Node clears the reference, and a Node that registers again is adopted' },
  { row: 40, title: 'A VM that is lost in the cloud is made anew, with and without a cloud controller manager' },
  { row: 41, title: 'A terminal error names its reason and is tried again slowly (better than the original)' },
  { row: 42, title: 'Reason and message of an error go away when it is over' },
  {
    row: 43,
    title: 'The Ready condition follows the Node in both directions, with its time (better than the original)',
  },
  {
    row: 44,
    title:
      'Where asked for, a Node that stays NotReady is replaced, within a limit of unhealthy ones (better than the original)',
  },
  { row: 45, title: 'The six cases of whether to drain are decided as in the original' },
  {
    row: 46,
    title: 'Draining evicts what has to go, leaves DaemonSet, mirror and finished pods, and waits for budgets',
  },
  { row: 47, title: 'The skip-eviction annotation means that no eviction is asked for' },
  {
    row: 48,
    title:
      'Past the drain deadline, settable per deployment and 2 h by default, the VM goes whatever a budget says (better than the original)',
  },
  { row: 49, title: 'A vSphere VM is deleted only when its volumes are detached' },
  {
    row: 50,
    title: 'A cloud that takes its time to delete is asked until all is gone, and the finalizer stays until then',
  },
  { row: 51, title: 'The Node goes after the VM, and its finalizer after the Node' },
  { row: 52, title: 'A Machine of the external provider keeps its finalizer until an outside client removes it' },
  {
    row: 53,
    title:
      'A KubeVirt VM that shuts down has its Machine deleted without a drain and replaced (better than the original)',
  },
  {
    row: 54,
    title:
      'Cloud resources whose Machine is gone are reported, and removed where asked for, within one scan (better than the original)',
  },
  { row: 55, title: 'A valid serving certificate request is approved, and none with any one detail wrong' },
  {
    row: 56,
    title:
      'Requests with another signer, or with a URI or e-mail among their names, are not approved (better than the original)',
  },
  { row: 57, title: 'A MachineSet scales from 0 to 5 to 2, and its machines bear its name and reference' },
  { row: 58, title: 'A MachineSet adopts orphans with its labels and releases machines whose labels change' },
  { row: 59, title: 'Each delete policy takes machines in its order, those annotated for deletion first' },
  { row: 60, title: 'A large scale-down has no more deletes in flight than configured (better than the original)' },
  { row: 61, title: 'Available replicas follow the ready ones after minReadySeconds' },
  { row: 62, title: 'A MachineSet that names no replicas has one (better than the original)' },
  { row: 63, title: 'A rolling update keeps to surge and unavailable under any order of events' },
  { row: 64, title: 'A new set carries the hash of its template and the next revision' },
  { row: 65, title: 'Going back to an old template uses its old set again and records the revision' },
  { row: 66, title: 'A history limit of one keeps one empty old set' },
  { row: 67, title: 'A paused deployment makes no set and scales those it has in proportion' },
  { row: 68, title: 'A rollout that is stuck past its deadline says so in Progressing (better than the original)' },
  { row: 69, title: 'The delete policy of a deployment reaches its new sets (better than the original)' },
  { row: 70, title: 'Changing the restart annotation makes one new revision and no more (better than the original)' },
  { row: 71, title: 'A deployment deleted in the foreground outlives its sets, machines and VMs' },
  {
    row: 72,
    title:
      'The unmodified cluster autoscaler scales a deployment up for pods that wait and deletes the machine it marked',
  },
  {
    row: 73,
    title: 'AWS requests for eight kinds of spec hold the expected parameters, the UID as client token among them',
  },
  { row: 74, title: 'What a failed Azure create leaves behind is cleaned up in the order VM, disk, NIC, address' },
  {
    row: 75,
    title: 'Azure takes the image of the generation that the size needs and refuses TrustedLaunch on the first',
  },
  { row: 76, title: 'On GCE a VM of the same name without our label is never deleted (better than the original)' },
  { row: 77, title: 'Passing errors of GCE are tried again and not reported as terminal (better than the original)' },
  { row: 78, title: 'Temporary SSH keys of DigitalOcean and Hetzner go away, also when the create fails' },
  { row: 79, title: 'Hetzner placement groups are filled in turn and removed when empty' },
  { row: 80, title: 'OpenStack releases only floating IPs of ours, and ten creates at once do not race for one' },
  {
    row: 81,
    title: 'Each OpenStack option for boot volume, server group, config drive and port security is in the request',
  },
  { row: 82, title: 'OpenStack addresses are told apart as internal and external (better than the original)' },
  { row: 83, title: 'KubeVirt VMs come out as the published examples of the original do' },
  { row: 84, title: 'A vSphere machine is cloned, found and removed without leaving a VM, image, tag or rule' },
  { row: 85, title: 'A vSphere machine without a hyphen in its name works (better than the original)' },
  { row: 86, title: 'Long tasks of Nutanix do not delay a delete elsewhere (better than the original)' },
  { row: 87, title: 'VMware Cloud Director sizing policies, cpu and memory are sent and checked as in the original' },
  { row: 88, title: 'Looking up a VM of Alibaba or Scaleway changes nothing (better than the original)' },
  { row: 89, title: 'An Anexia provisioning resumes under the same ID after a restart' },
  {
    row: 90,
    title:
      'Equinix devices carry the tags of the user, and the UID tag is replaced on migration (better than the original)',
  },
  {
    row: 91,
    title: 'Tinkerbell hardware is free for the next Machine when the first is gone (better than the original)',
  },
  {
    row: 92,
    title: 'Vultr, Linode and OpenNebula machines are created, found and deleted, also beyond one page of results',
  },
  { row: 93, title: 'The fake provider carries a whole rollout without cloud or kubelet; edge and external work' },
  {
    row: 94,
    title:
      'Every provider reports how many VMs each Machine has, and any number but one raises an alarm (better than the original)',
  },
  { row: 95, title: 'The machine metrics carry the labels of each provider' },
  { row: 96, title: 'The arguments of an existing Deployment start the program, and those without effect are logged' },
  { row: 97, title: 'Health, readiness, metrics and profiling answer as in the original, under its metric names' },
  { row: 98, title: 'Of two replicas one acts; the other takes over within 30 s and creates nothing twice' },
  { row: 99, title: 'The default installation may not read Secrets of the whole cluster (better than the original)' },
  { row: 100, title: 'No credential shows in the debug logs of a whole run (better than the original)' },
  { row: 101, title: 'The six default operating system profiles load and render for all their providers' },
  { row: 102, title: 'A deployment without a profile annotation gets that of its operating system' },
  {
    row: 103,
    title:
      'A new revision, profile version or annotation that matters renders anew; one of the autoscaler does not (better than the original)',
  },
  { row: 104, title: 'While a bootstrap Secret is rotated a reader always finds one (better than the original)' },
  {
    row: 105,
    title:
      'A bootstrap token has 15 min left whenever a machine is created, and old ones go (better than the original)',
  },
  {
    row: 106,
    title:
      'User data holds only a token of its machine and checks the certificate of the server (better than the original)',
  },
  { row: 107, title: 'Generated cloud-init is valid for every operating system and provider' },
  { row: 108, title: 'Generated Ignition is valid for Flatcar' },
  {
    row: 109,
    title: 'The first stage of user data fits the limit of AWS in every combination (better than the original)',
  },
  { row: 110, title: 'Values with quotes and colons come out as valid YAML (better than the original)' },
  { row: 111, title: 'containerd accepts the configuration of each published scenario' },
  { row: 112, title: 'containerd gets the schema of its version (better than the original)' },
  { row: 113, title: "Each of the ten kubelet annotations changes the kubelet's file, and bad values are refused" },
  { row: 114, title: 'Kernel settings, node IP and route detection suit each of the four IP families' },
  { row: 115, title: 'Proxies, mirrors, CA bundle and pause image reach the files they concern and no others' },
  { row: 116, title: 'RHEL machines subscribe in each variant, unsubscribe on deletion, and retry for seconds only' },
  { row: 117, title: 'On RHEL the CA lands where the system reads it (better than the original)' },
  {
    row: 118,
    title:
      'A container that runs the Ubuntu user data joins a cluster as a Node, without a cloud (better than the original)',
  },
  {
    row: 119,
    title:
      'Events have the reasons of the original, and finding a VM is told only when it is news (better than the original)',
  },
  {
    row: 120,
    title: 'Taking over objects that the original made creates and deletes nothing (better than the original)',
  },
  {
    row: 121,
    title:
      'One very slow create among 1000 machines delays no other, and at rest the API is hardly asked (better than the original)',
  },
  {
    row: 122,
    title:
      'A cloud that throttles slows down everything under its credential, without a hot loop (better than the original)',
  },
];
