/** Every flag and environment variable in one table: its name, the values it accepts and its meaning. */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { z } from 'zod';
import { parseDuration } from '../api/duration.ts';
import { type Blocker, blockers } from '../api/names.ts';
import { standardTokenFolder } from '../api/secret.ts';
import { providerNames } from '../temporal/providers.ts';

/** A setting that is given as a flag or in the environment. */
export interface Flag {
  /** One-letter alias, without the dash. */
  readonly short?: string;
  /** Placeholder for the value in the help. */
  readonly value: string;
  readonly description: string;
  /** As written on a command line. A flag without a default is optional. */
  readonly default?: string;
  /** Environment variable that other programs use for the same setting. Ours takes precedence. */
  readonly alsoEnv?: string;
  /** There is no variable, because it says what one call does. */
  readonly flagOnly?: true;
  /** There is no flag, because every user of a host can read its command lines. */
  readonly envOnly?: true;
  /** Checks and converts the given text. Its messages name the accepted values. */
  readonly schema: z.ZodType<unknown, string>;
}

const text = z.string().min(1, 'give a value');
const word = (accepted: string) => z.string().regex(/^[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$/, accepted);
const duration = z.string().transform((given, context) => {
  const seconds = tryTo(() => parseDuration(given));
  if (seconds !== undefined && seconds >= 0) return seconds;
  return refuse(context, 'give a duration such as 90s, 20m or 1h30m');
});
const trueOrFalse = z
  .string()
  .regex(/^(1|t|true|0|f|false)$/i, 'give true or false')
  .transform((given) => /^[1t]/i.test(given));
const requestRates = 'give a number from above 0 to 100000';
const cacheSizes = 'give 0 or a whole number from 500 to 100000';
const file = z
  .string()
  .refine((path) => tryTo(() => readFileSync(path)) !== undefined, 'give the path of a file that can be read');
const kubeconfig = 'a path, or inClusterConfig for the service account of the pod';

/** The flags by name: `kubeApiQps` is `--kube-api-qps` and `MILLWRIGHT_KUBE_API_QPS`. */
export const flags = {
  controlKubeconfig: {
    value: 'path',
    default: '',
    description: `Kubeconfig of the cluster with the Machines, classes and Secrets: ${kubeconfig}. Empty: the target cluster.`,
    schema: z.string(),
  },
  kubeconfig: {
    value: 'path',
    default: '',
    alsoEnv: 'KUBECONFIG',
    description:
      'Kubeconfig of the clusters that --control-kubeconfig and --target-kubeconfig do not name. Several, separated by colons, are merged as kubectl does. Empty: commands that serve use inClusterConfig, others ~/.kube/config if there is one.',
    schema: z.string(),
  },
  context: {
    value: 'name',
    description:
      'Context in the kubeconfig of the cluster with the Machines. Default: its current context. The default of --namespace is the namespace of the context.',
    schema: text,
  },
  targetKubeconfig: {
    value: 'path',
    default: '',
    description: `Kubeconfig of the cluster with the Nodes: ${kubeconfig}. Empty: that of --kubeconfig. none: there is no such cluster, and a Machine is Available when its VM runs; this needs --control-kubeconfig.`,
    schema: z.string(),
  },
  namespace: {
    short: 'n',
    value: 'name',
    default: 'default',
    description: 'Namespace of the Machines in the control cluster.',
    schema: word('give the name of a namespace'),
  },
  installation: {
    value: 'name',
    description:
      'Name of this installation, the prefix of its workflow ids and task queues. It must be unique in the Temporal namespace. Default: the namespace.',
    schema: word('give a name of letters, digits, -, _ and .'),
  },
  kubeApiQps: {
    value: 'number',
    default: '300',
    description:
      'Average requests per second to each API server. Watches do not count. MCM has 20 for each of six clients.',
    schema: z
      .string()
      .regex(/^\d{1,6}([.]\d{1,6})?$/, requestRates)
      .transform(Number)
      .refine((rate) => rate > 0 && rate <= 100_000, requestRates),
  },
  kubeApiBurst: {
    value: 'number',
    default: '600',
    description: 'Requests to each API server in one burst. MCM has 30 for each of six clients.',
    schema: wholeNumber(1, 100_000),
  },
  temporalAddress: {
    value: 'host:port',
    alsoEnv: 'TEMPORAL_ADDRESS',
    description: 'Address of the Temporal server. Default: that of --temporal-profile, else 127.0.0.1:7233.',
    schema: z.string().regex(/^(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}$/, 'give host:port, without a scheme'),
  },
  temporalNamespace: {
    value: 'name',
    alsoEnv: 'TEMPORAL_NAMESPACE',
    description: 'Temporal namespace. It must exist. Default: that of --temporal-profile, else default.',
    schema: text,
  },
  temporalProfile: {
    value: 'name',
    alsoEnv: 'TEMPORAL_PROFILE',
    description:
      "Profile of Temporal's configuration file, for what neither flags nor variables say about the Temporal server. Default: the profile default, if there is one.",
    schema: text,
  },
  temporalConfigFile: {
    value: 'path',
    alsoEnv: 'TEMPORAL_CONFIG_FILE',
    description:
      "Temporal's configuration file. Default: temporalio/temporal.toml under $XDG_CONFIG_HOME or ~/.config, where `temporal` has it.",
    schema: text,
  },
  temporalTls: {
    value: 'true|false',
    alsoEnv: 'TEMPORAL_TLS',
    description:
      'Whether to use TLS. Default: true if an API key, a TLS file or a TLS server name is given, else false. false is refused with an API key, unless the address is a loopback such as 127.0.0.1.',
    schema: trueOrFalse,
  },
  temporalTlsCa: {
    value: 'path',
    alsoEnv: 'TEMPORAL_TLS_SERVER_CA_CERT_PATH',
    description: 'PEM file with the CA certificates that verify the Temporal server. Default: those of the system.',
    schema: file,
  },
  temporalTlsCert: {
    value: 'path',
    alsoEnv: 'TEMPORAL_TLS_CLIENT_CERT_PATH',
    description: 'PEM file with the client certificate.',
    schema: file,
  },
  temporalTlsKey: {
    value: 'path',
    alsoEnv: 'TEMPORAL_TLS_CLIENT_KEY_PATH',
    description: 'PEM file with the key of the client certificate.',
    schema: file,
  },
  temporalTlsServerName: {
    value: 'name',
    alsoEnv: 'TEMPORAL_TLS_SERVER_NAME',
    description: 'Name to verify in the certificate of the Temporal server. Default: the host of --temporal-address.',
    schema: text,
  },
  temporalApiKeyFile: {
    value: 'path',
    description: 'File with the API key for Temporal.',
    schema: file,
  },
  temporalApiKey: {
    value: 'key',
    envOnly: true,
    alsoEnv: 'TEMPORAL_API_KEY',
    description: 'API key for Temporal. --temporal-api-key-file takes precedence.',
    schema: text,
  },
  temporalCodecKeys: {
    value: 'folder',
    description:
      'Folder with the keys that encrypt what Temporal stores: a file for each key, with 32 bytes in base64, and a file `current` with the name of the key that encrypts, or none. All processes and commands need it. Changed files are read again. Default: nothing is encrypted.',
    schema: text,
  },
  providers: {
    value: 'names',
    default: 'simulated',
    description: `Providers that the worker serves, comma-separated: ${providerNames.join(', ')}. Empty: none.`,
    schema: commaList(z.enum(providerNames, `give names of ${providerNames.join(', ')}`)),
  },
  defaultCredentials: {
    value: 'true|false',
    default: 'false',
    description:
      'Whether a class whose Secrets have no credentials uses those of the worker, as the SDK of its cloud finds them (environment, files, the role of the VM). true: whoever may create classes acts with the rights of the worker.',
    schema: trueOrFalse,
  },
  tokenFolder: {
    value: 'path',
    default: standardTokenFolder,
    description:
      'Folder in the worker below which the token files are that Secrets of classes may name as workloadIdentityTokenFile.',
    schema: z.string().startsWith('/', 'give the path of a folder, beginning with /'),
  },
  machineCreationTimeout: {
    value: 'duration',
    default: '20m',
    description:
      'How long a Machine may take until its Node is healthy, counted from when its workflow first saw the Machine or from the end of the last outage. After that the Machine is Failed.',
    schema: duration,
  },
  machineHealthTimeout: {
    value: 'duration',
    default: '10m',
    description:
      'How long the Node of a Machine may be unhealthy, without an outage of its API server in between, until the Machine may be replaced.',
    schema: duration,
  },
  resourceExhaustedRetry: {
    value: 'duration',
    default: '10m',
    description:
      'How long a Machine waits after the cloud had no room or no quota for its VM, until it is tried again. A change of the class, its Secrets or the Machine ends the wait.',
    schema: duration.refine((seconds) => seconds >= 1, 'give at least 1s'),
  },
  maxHealthReplacements: {
    value: 'number|percent',
    default: '1',
    description:
      'How many Machines of a MachineDeployment, or of a MachineSet without one, are replaced at once because they were unhealthy for longer than their health timeout: a number, or a percentage of the replicas such as 10%, which is 1 at least. 0: none.',
    schema: z.string().transform((given, context) => {
      const [, digits, sign] = /^(\d{1,6})(%?)$/.exec(given) ?? [];
      const number = Number(digits);
      if (digits === undefined || (sign && number > 100)) {
        return refuse(context, 'give a whole number such as 1, or a percentage such as 10%');
      }
      return sign ? { percent: number } : { count: number };
    }),
  },
  outageShare: {
    value: 'percent',
    default: '55',
    description:
      'While more than this percentage of the Nodes in a zone or in the whole cluster are unhealthy, and at least 3 of them, that is an outage: no unhealthy Machine is replaced. 100: nothing is taken for an outage.',
    schema: wholeNumber(0, 100),
  },
  machineSafetyApiserverStatuscheckTimeout: {
    value: 'duration',
    default: '30s',
    description:
      'How long the API server of the Nodes may not answer until that counts as an outage: the health timeouts start again after it.',
    schema: duration,
  },
  machineDrainTimeout: {
    value: 'duration',
    default: '2h',
    description:
      'How long a drain evicts pods, counted from when the workflow first saw the deletion of the Machine. After that the pods are deleted.',
    schema: duration,
  },
  machinePreserveTimeout: {
    value: 'duration',
    default: '96h',
    description:
      'How long a Machine is preserved that is annotated so. A change holds for preservations that begin after it.',
    schema: duration,
  },
  machineInplaceUpdateTimeout: {
    value: 'duration',
    default: '20m',
    description:
      'How long the agent on a Node may take for an in-place update, from when the Node is drained. After that the update has failed.',
    schema: duration,
  },
  machineMaxEvictRetries: {
    value: 'number',
    default: '360',
    description: 'How often an eviction that a PodDisruptionBudget refuses is retried before the pod is deleted.',
    schema: wholeNumber(0, 2 ** 31 - 1),
  },
  machinePvDetachTimeout: {
    value: 'duration',
    default: '2m',
    description:
      'How long a drain waits until the volumes of an evicted pod are detached from the Node, counted from the end of its grace period.',
    schema: duration,
  },
  machinePvReattachTimeout: {
    value: 'duration',
    default: '90s',
    description: 'How long a drain then waits until they are attached to another Node.',
    schema: duration,
  },
  serialVolumeDrain: {
    value: 'true|false',
    default: 'false',
    description:
      'true: a drain evicts pods with volumes one by one, as MCM does. false: as many at once as other Nodes can attach volumes.',
    schema: trueOrFalse,
  },
  drainStuckAfter: {
    value: 'duration',
    default: '10m',
    description:
      'A drain is reported as stuck when for this long no pod and no volume has left the Node. The grace periods of pods that are ending do not count.',
    schema: duration,
  },
  nodeConditions: {
    value: 'names',
    default: 'KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable',
    description:
      'Types of Node conditions that are False on a healthy Node, comma-separated. Ready must be True in any case.',
    schema: commaList(word('give types of Node conditions')),
  },
  controlPlaneNodes: {
    value: 'true|false',
    default: 'false',
    description:
      'Whether Nodes with the label node-role.kubernetes.io/control-plane or master are marked, drained and deleted with their machines. false: they are left alone, with an Event NodeLeftAlone. Give it to controllers and workers.',
    schema: trueOrFalse,
  },
  ordersInAnnotations: {
    value: 'true|false',
    default: 'false',
    description:
      'Whether the annotations millwright.dev/retry and millwright.dev/skip-drain of a Machine are orders, like the commands retry and drain --skip. Give it to controllers and workers.',
    schema: trueOrFalse,
  },
  maxCachedWorkflows: {
    value: 'number',
    default: '2000',
    description:
      'Workflows that a worker keeps in memory, 110 to 150 KB each. Any other workflow is replayed when it wakes, which takes about 9 ms of CPU. Above 3000, all workflows get slower. 0 disables the cache, for tests only.',
    // The SDK evicts from a full cache without regard for tasks under way: a small cache loses them.
    schema: z
      .string()
      .regex(/^\d+$/, cacheSizes)
      .transform(Number)
      .refine((size) => size === 0 || (size >= 500 && size <= 100_000), cacheSizes),
  },
  fastWorkflowSandbox: {
    value: 'true|false',
    default: 'false',
    description:
      'Whether workflows take less CPU and memory. true: the query __stack_trace has no stack traces, and the time limit of 5 s is for a whole activation of a workflow and not for each call in it. It works with one version of the Temporal SDK; with any other the worker does not start.',
    schema: trueOrFalse,
  },
  bootstrapTokenAuthExtraGroups: {
    value: 'groups',
    default: '',
    description: 'Groups of bootstrap tokens in addition to system:bootstrappers, comma-separated.',
    schema: commaList(
      z
        .string()
        .regex(/^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$/, 'give groups that begin with system:bootstrappers:'),
    ).transform((groups) => groups.join(',')),
  },
  machineSafetyOrphanVmsPeriod: {
    value: 'duration',
    default: '15m',
    description:
      'How often the clouds are swept for orphans: VMs, disks, NICs, ports and addresses that carry our tags and have no Machine. 0s: only on demand, and when a deleted class waits for a sweep.',
    schema: duration.refine((seconds) => seconds === 0 || seconds >= 1, 'give 0s, or at least 1s'),
  },
  interruptionCheckPeriod: {
    value: 'duration',
    default: '1m',
    description:
      'How often clouds are asked which VMs they are about to take away, while there is a class whose VMs they may take, as spot VMs. 0s: never.',
    schema: duration.refine((seconds) => seconds === 0 || seconds >= 1, 'give 0s, or at least 1s'),
  },
  safetyUp: {
    value: 'number',
    default: '2',
    description:
      'Machines of a MachineSet above replicas and surge at which it is frozen: no machine is created in it any more.',
    schema: wholeNumber(0, 1_000_000),
  },
  safetyDown: {
    value: 'number',
    default: '1',
    description: 'How many machines fewer than those that freeze a MachineSet thaw it.',
    schema: wholeNumber(0, 1_000_000),
  },
  machineSafetyOvershootingPeriod: {
    value: 'duration',
    default: '1m',
    description:
      'How long a MachineSet that a person has thawed, and that still has too many machines, is not frozen again, unless a machine is added. Freezes themselves wait for no period.',
    schema: duration,
  },
  orphanConfirmAfter: {
    value: 'duration',
    default: '2m',
    description:
      'How long a sweep waits before it lists the clouds a second time. It deletes only what had no Machine both times.',
    schema: duration,
  },
  orphanMinimumAge: {
    value: 'duration',
    default: '10m',
    description: 'Resources younger than this are never deleted by a sweep.',
    schema: duration,
  },
  orphanBrakeCount: {
    value: 'number',
    default: '3',
    description:
      'A sweep deletes at most this many orphans without approval, or --orphan-brake-rate if that is more. If there are more orphans, or the sweep doubts its input, it waits for `millwright sweep approve`.',
    schema: wholeNumber(0, 1_000_000),
  },
  orphanBrakeRate: {
    value: 'percent',
    default: '10',
    description:
      'A sweep deletes at most this percentage of the listed VMs without approval, or --orphan-brake-count if that is more. 0: every deletion needs approval, whatever the count.',
    schema: wholeNumber(0, 100),
  },
  autoscalerScaledownAnnotationDuringRollout: {
    value: 'true|false',
    default: 'true',
    description:
      'Whether the Nodes of a MachineDeployment have the annotation that keeps the cluster autoscaler from removing them while it rolls out. What others have annotated stays.',
    schema: trueOrFalse,
  },
  leaderElect: {
    value: 'true|false',
    default: 'true',
    description:
      'Whether the controllers wait until they hold the Leases, which other replicas and the system that Millwright replaces use as well. false: they act at once, and you must make sure that nobody else does.',
    schema: trueOrFalse,
  },
  leaderElectLeaseDuration: {
    value: 'duration',
    default: '15s',
    description: 'How long standbys wait after the last renewal before one of them takes over.',
    schema: duration,
  },
  leaderElectRenewDeadline: {
    value: 'duration',
    default: '10s',
    description: 'How long a leader acts without a renewal of its Leases. After that its process ends.',
    schema: duration,
  },
  leaderElectRetryPeriod: {
    value: 'duration',
    default: '2s',
    description: 'How often a leader renews its Leases. Standbys read them every 1 to 2.2 periods.',
    schema: duration,
  },
  address: {
    value: 'ip',
    default: '0.0.0.0',
    description: 'IP address of /livez, /readyz and /metrics, and of the fleet page.',
    schema: z.string().refine((given) => isIP(given) !== 0, 'give an IP address'),
  },
  port: {
    value: 'number',
    default: '10258',
    description: 'Port of /livez, /readyz and /metrics. 0: any free port, which the log names.',
    schema: wholeNumber(0, 65_535),
  },
  allowedHosts: {
    value: 'names',
    default: '',
    description:
      'Hosts that requests for the fleet page, /livez, /readyz and /metrics may name, comma-separated, such as fleet.example.com of a proxy. Always allowed are IP addresses, names without a dot, and Services of a cluster: `*.svc` and `*.svc.cluster.local`. Other requests get 421, because a page of another site may have sent them.',
    schema: commaList(
      z
        .string()
        .regex(/^[\w-]+(\.[\w-]+)*$/, 'give names of hosts, without scheme and port')
        .toLowerCase(),
    ),
  },
  fleetPort: {
    value: 'number',
    description:
      'Port of the fleet page, which shows every machine to whoever can reach the port. 0: any free port, which the log names. Default: there is no such page.',
    schema: wholeNumber(0, 65_535),
  },
  temporalUi: {
    value: 'url',
    description:
      'Address of the Temporal UI as browsers reach it, such as https://temporal.example.com. The fleet page links to it, and `codec-server` answers its pages.',
    schema: z
      .url({ protocol: /^https?$/, error: 'give a URL that begins with http:// or https://' })
      .transform((url) => url.replace(/\/+$/, '')),
  },
  codecPort: {
    value: 'number',
    default: '8081',
    description: 'Port of `codec-server` on 127.0.0.1. 0: any free port, which the command prints.',
    schema: wholeNumber(0, 65_535),
  },
  logLevel: {
    value: 'level',
    default: 'info',
    description: 'Lowest level of log lines: debug, info, warn or error.',
    schema: z.enum(['debug', 'info', 'warn', 'error'], 'give debug, info, warn or error'),
  },
  logFormat: {
    value: 'format',
    description: 'Format of the log: pretty or json. Default: pretty on a terminal, else json.',
    schema: z.enum(['pretty', 'json'], 'give pretty or json'),
  },
  dryRun: {
    value: 'true|false',
    default: 'false',
    flagOnly: true,
    description: 'Whether the sweep only reports what it would delete.',
    schema: trueOrFalse,
  },
  blockedOn: {
    value: 'cause',
    flagOnly: true,
    description: 'For `retry`: everything that waits for this, as `stuck` lists it.',
    schema: z.enum(Object.keys(blockers) as [Blocker, ...Blocker[]], `give one of ${Object.keys(blockers).join(', ')}`),
  },
  force: {
    value: 'true|false',
    default: 'false',
    flagOnly: true,
    description: 'For `drain`: delete the pods with a grace period of 0, and do not wait for them.',
    schema: trueOrFalse,
  },
  skip: {
    value: 'true|false',
    default: 'false',
    flagOnly: true,
    description: 'For `drain`: delete the VM with the pods still on it.',
    schema: trueOrFalse,
  },
  yes: {
    value: 'true|false',
    default: 'false',
    flagOnly: true,
    description: 'For `uninstall`: do what it shows without this flag.',
    schema: trueOrFalse,
  },
  machines: {
    value: 'mcm|unmanaged',
    flagOnly: true,
    description:
      'For `uninstall`, where there are Machines: what becomes of them. mcm: the system that Millwright replaces continues with them, so finalizers stay. unmanaged: their VMs and Nodes stay, and nobody manages them.',
    schema: z.enum(['mcm', 'unmanaged'], 'give mcm or unmanaged'),
  },
  withoutTemporal: {
    value: 'true|false',
    default: 'false',
    flagOnly: true,
    description:
      'For `uninstall`: do without a Temporal server that is gone. Its Schedules and open workflows stay there.',
    schema: trueOrFalse,
  },
  watch: {
    short: 'w',
    value: 'true|false',
    flagOnly: true,
    description:
      '`rollout status` waits until the rollout is complete or misses its progress deadline, unless this is false. `get` goes on to print what changes, if this is true: rows without a new header, or with `-o json` an object in each line.',
    schema: trueOrFalse,
  },
  allNamespaces: {
    short: 'A',
    value: 'true|false',
    default: 'false',
    flagOnly: true,
    description: 'Whether `get` lists the objects of all namespaces.',
    schema: trueOrFalse,
  },
  selector: {
    short: 'l',
    value: 'labels',
    flagOnly: true,
    description: 'For `get`: only objects with these labels, as in `kubectl get -l`: name=workers, or a!=b,c in (d,e).',
    schema: text,
  },
  sortBy: {
    value: 'path',
    flagOnly: true,
    description:
      'For `get`: the field by which the list is sorted, as in `kubectl get --sort-by`: .metadata.creationTimestamp. Default: .metadata.name.',
    schema: z
      .string()
      .regex(/^(\{[^{}[\]]+\}|[^{}[\]]+)$/, 'give the path of a field, such as .metadata.creationTimestamp'),
  },
  toRevision: {
    value: 'number',
    default: '0',
    flagOnly: true,
    description: 'Revision that `rollout undo` restores, see `rollout history`. 0: the previous one.',
    schema: wholeNumber(0, 1_000_000_000),
  },
  filename: {
    short: 'f',
    value: 'path',
    flagOnly: true,
    description:
      'Manifest with a changed MachineDeployment, for `rollout plan`: a file in YAML or JSON, or - for standard input.',
    schema: z.string().transform((path, context) => {
      const read = tryTo(() => readFileSync(path === '-' ? 0 : path, 'utf8'));
      return read ?? refuse(context, 'give the path of a file that can be read, or -');
    }),
  },
  export: {
    value: 'path',
    flagOnly: true,
    description:
      'File that `replay` writes the history to, in JSON as Temporal has it. Temporal deletes a run when its retention ends.',
    schema: text,
  },
  output: {
    short: 'o',
    value: 'format',
    default: 'text',
    description: 'Output format: text, wide, json or yaml. wide: text, and `get` shows more columns.',
    schema: z.enum(['text', 'wide', 'json', 'yaml'], 'give text, wide, json or yaml'),
  },
} as const satisfies Readonly<Record<string, Flag>>;

export type FlagName = keyof typeof flags;

function commaList<T extends string>(item: z.ZodType<T, string>) {
  const split = (list: string) =>
    list
      .split(',')
      .map((entry) => entry.trim())
      .filter(Boolean);
  return z.string().transform(split).pipe(z.array(item));
}

function wholeNumber(min: number, max: number) {
  const accepted = `give a whole number from ${min} to ${max}`;
  return z.string().regex(/^\d+$/, accepted).transform(Number).pipe(z.number().min(min, accepted).max(max, accepted));
}

function refuse(context: z.RefinementCtx, message: string): never {
  context.addIssue({ code: 'custom', message });
  return z.NEVER;
}

function tryTo<T>(attempt: () => T): T | undefined {
  try {
    return attempt();
  } catch {
    return undefined;
  }
}
