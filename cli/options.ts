/** Every flag and environment variable in one table: what it is called, what it accepts and what it means. */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { z } from 'zod';
import { parseDuration } from '../api/duration.ts';
import { providerNames } from '../temporal/providers.ts';

/** A setting that is given as flag or in the environment. */
export interface Flag {
  /** The one letter that it has, too. */
  readonly short?: string;
  /** Stands for the value in the help. */
  readonly value: string;
  readonly description: string;
  /** As it would be written. A flag without one may be left out. */
  readonly default?: string;
  /** Environment variable to which others have given this meaning; ours comes first. */
  readonly alsoEnv?: string;
  /** No flag, as everybody on a machine can see its command lines. */
  readonly envOnly?: true;
  /** Checks and converts what was given. Its messages say what is accepted. */
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
  .regex(/^(true|false|1|0)$/, 'give true or false')
  .transform((given) => given === 'true' || given === '1');
const cacheSizes = 'give 0 or a whole number from 500 to 100000';
const file = z.string().transform((path, context) => {
  return tryTo(() => readFileSync(path)) ?? refuse(context, 'give the path of a file that can be read');
});
const kubeconfig = 'path of a kubeconfig, or inClusterConfig for the service account of the pod';

/** The flags by name; `--kube-api-qps` and `MILLWRIGHT_KUBE_API_QPS` are made from `kubeApiQps`. */
export const flags = {
  controlKubeconfig: {
    value: 'path',
    default: '',
    description: `Cluster of the Machines, classes and Secrets: ${kubeconfig}. Empty: the target cluster.`,
    schema: z.string(),
  },
  targetKubeconfig: {
    value: 'path',
    default: '',
    alsoEnv: 'KUBECONFIG',
    description: `Cluster of the Nodes: ${kubeconfig}. Empty: inClusterConfig.`,
    schema: z.string(),
  },
  namespace: {
    short: 'n',
    value: 'name',
    default: 'default',
    description: 'Namespace of the control cluster whose machines are looked after.',
    schema: word('give the name of a namespace'),
  },
  installation: {
    value: 'name',
    description:
      'Name of the installation, which no other in the same Temporal namespace has: prefix of its workflow ids and task queues. Default: the namespace.',
    schema: word('give a name of letters, digits, -, _ and .'),
  },
  kubeApiQps: {
    value: 'number',
    default: '300',
    description: 'Requests a second to each API server, on average. Watches do not count.',
    schema: wholeNumber(1, 100_000),
  },
  kubeApiBurst: {
    value: 'number',
    default: '600',
    description: 'Requests to each API server at once.',
    schema: wholeNumber(1, 100_000),
  },
  temporalAddress: {
    value: 'host:port',
    default: '127.0.0.1:7233',
    alsoEnv: 'TEMPORAL_ADDRESS',
    description: 'Temporal server.',
    schema: z.string().regex(/^(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}$/, 'give host:port, without a scheme'),
  },
  temporalNamespace: {
    value: 'name',
    default: 'default',
    alsoEnv: 'TEMPORAL_NAMESPACE',
    description: 'Namespace of Temporal. It has to exist.',
    schema: text,
  },
  temporalTls: {
    value: 'true|false',
    alsoEnv: 'TEMPORAL_TLS',
    description: 'Whether to use TLS. Default: true with an API key or one of the files for TLS, else false.',
    schema: trueOrFalse,
  },
  temporalTlsCa: {
    value: 'path',
    alsoEnv: 'TEMPORAL_TLS_SERVER_CA_CERT_PATH',
    description: 'Certificates that the server is checked against, PEM. Default: those of the system.',
    schema: file,
  },
  temporalTlsCert: {
    value: 'path',
    alsoEnv: 'TEMPORAL_TLS_CLIENT_CERT_PATH',
    description: 'Our certificate, PEM.',
    schema: file,
  },
  temporalTlsKey: {
    value: 'path',
    alsoEnv: 'TEMPORAL_TLS_CLIENT_KEY_PATH',
    description: 'Key of our certificate, PEM.',
    schema: file,
  },
  temporalTlsServerName: {
    value: 'name',
    alsoEnv: 'TEMPORAL_TLS_SERVER_NAME',
    description: "Name in the server's certificate, where it is not the host of the address.",
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
    description: 'API key for Temporal, where it is not in a file.',
    schema: text,
  },
  providers: {
    value: 'names',
    default: 'simulated',
    description: `Providers to serve, with commas between them: ${providerNames.join(', ')}. Empty: none.`,
    schema: commaList(z.enum(providerNames, `give names of ${providerNames.join(', ')}`)),
  },
  machineCreationTimeout: {
    value: 'duration',
    default: '20m',
    description:
      'How long a Machine has until its Node is healthy, counted from when its workflow first saw it or from the end of the last outage. After that the Machine is Failed.',
    schema: duration,
  },
  machineDrainTimeout: {
    value: 'duration',
    default: '2h',
    description:
      'How long pods are evicted, counted from when the workflow first saw the deletion. After that they are deleted.',
    schema: duration,
  },
  machineMaxEvictRetries: {
    value: 'number',
    default: '360',
    description: 'How often an eviction that a PodDisruptionBudget refuses is tried again before the pod is deleted.',
    schema: wholeNumber(0, 2 ** 31 - 1),
  },
  nodeConditions: {
    value: 'names',
    default: 'KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable',
    description: 'Conditions of a healthy Node that are False, with commas between them. Ready has to be True anyway.',
    schema: commaList(word('give types of Node conditions')),
  },
  maxCachedWorkflows: {
    value: 'number',
    default: '2000',
    description:
      'Workflows that a worker keeps in memory, 110 to 150 KB each. Any other is replayed when it is woken, which costs about 9 ms of CPU; more than 3000 make all slower. 0, for tests alone: none, and one task at a time, which shows what is not deterministic; it is too slow for many machines, and a workflow that is asked again and again stands still.',
    // The SDK makes room in a cache that is full without regard for tasks under way: in a small one it loses them.
    schema: z
      .string()
      .regex(/^\d+$/, cacheSizes)
      .transform(Number)
      .refine((size) => size === 0 || (size >= 500 && size <= 100_000), cacheSizes),
  },
  bootstrapTokenAuthExtraGroups: {
    value: 'groups',
    default: '',
    description: 'Groups of bootstrap tokens besides system:bootstrappers, with commas between them.',
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
      'How often clouds are swept for VMs, disks and NICs that carry our tags and have no Machine. 0s: only on demand, and where a deleted class waits for it.',
    schema: duration.refine((seconds) => seconds === 0 || seconds >= 1, 'give 0s, or at least 1s'),
  },
  orphanConfirmAfter: {
    value: 'duration',
    default: '2m',
    description: 'A sweep looks again after this long, and deletes only what had no Machine both times.',
    schema: duration,
  },
  orphanMinimumAge: {
    value: 'duration',
    default: '10m',
    description: 'What a cloud has made more recently no sweep deletes.',
    schema: duration,
  },
  orphanBrakeCount: {
    value: 'number',
    default: '3',
    description:
      'How many orphans a sweep deletes without approval, unless --orphan-brake-rate allows more. With more of them it waits for `millwright sweep approve`.',
    schema: wholeNumber(0, 1_000_000),
  },
  orphanBrakeRate: {
    value: 'percent',
    default: '10',
    description:
      'Like --orphan-brake-count, in percent of the listed VMs. The larger limit applies. 0: every deletion needs approval.',
    schema: wholeNumber(0, 100),
  },
  leaderElect: {
    value: 'true|false',
    default: 'true',
    description:
      "Whether the controllers wait until they hold machine-controller-manager's Leases, so that of all replicas one acts. false: no other may run.",
    schema: trueOrFalse,
  },
  leaderElectLeaseDuration: {
    value: 'duration',
    default: '15s',
    description: 'How long the others wait for a leader that says no more.',
    schema: duration,
  },
  leaderElectRenewDeadline: {
    value: 'duration',
    default: '10s',
    description: 'How long a leader goes on without a renewal of its Leases, or stuck; then its process ends.',
    schema: duration,
  },
  leaderElectRetryPeriod: {
    value: 'duration',
    default: '2s',
    description: 'How often a leader renews its Leases. The others look 1 to 2.2 times as far apart.',
    schema: duration,
  },
  address: {
    value: 'ip',
    default: '0.0.0.0',
    description: 'Where /livez, /readyz and /metrics are served.',
    schema: z.string().refine((given) => isIP(given) !== 0, 'give an IP address'),
  },
  port: {
    value: 'number',
    default: '10258',
    description: 'Port of /livez, /readyz and /metrics. 0: any that is free, see the log.',
    schema: wholeNumber(0, 65_535),
  },
  logLevel: {
    value: 'level',
    default: 'info',
    description: 'What is logged: debug, info, warn or error.',
    schema: z.enum(['debug', 'info', 'warn', 'error'], 'give debug, info, warn or error'),
  },
  logFormat: {
    value: 'format',
    description: 'How it is logged: pretty or json. Default: pretty on a terminal, else json.',
    schema: z.enum(['pretty', 'json'], 'give pretty or json'),
  },
  dryRun: {
    value: 'true|false',
    default: 'false',
    description: 'Whether to tell only what would be deleted.',
    schema: trueOrFalse,
  },
  watch: {
    value: 'true|false',
    default: 'true',
    description: 'Whether `rollout status` waits until the rollout is complete or late. false: looks once.',
    schema: trueOrFalse,
  },
  toRevision: {
    value: 'number',
    default: '0',
    description: 'Revision that `rollout undo` goes back to, see `rollout history`. 0: the one before the present.',
    schema: wholeNumber(0, 1_000_000_000),
  },
  output: {
    short: 'o',
    value: 'format',
    default: 'text',
    description: 'How the answer is shown: text or json.',
    schema: z.enum(['text', 'json'], 'give text or json'),
  },
} as const satisfies Readonly<Record<string, Flag>>;

export type FlagName = keyof typeof flags;

type Parsed<F extends Flag> = z.output<F['schema']> | (F extends { readonly default: string } ? never : undefined);

/** Checked settings of a command that takes these flags. */
export type Options<N extends FlagName> = { readonly [K in N]: Parsed<(typeof flags)[K]> };

/** What was given cannot be used. Each line names a flag or environment variable, its value and what is accepted. */
export class UsageError extends Error {}

/** `kubeApiQps` as flag: `--kube-api-qps`. */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Environment variables of a flag, the first wins: `kubeApiQps` has `MILLWRIGHT_KUBE_API_QPS`. */
export function envOf(name: FlagName): string[] {
  const { alsoEnv }: Flag = flags[name];
  const own = `MILLWRIGHT_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
  return alsoEnv === undefined ? [own] : [own, alsoEnv];
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The settings of a command, from its flags, else the environment, else defaults. Throws UsageError with all problems.
 * @param given - What the command line has, by name.
 */
export function parseOptions<N extends FlagName>(
  names: readonly N[],
  given: Readonly<Record<string, string | undefined>>,
  env: Environment,
): Options<N> {
  const problems = misspelled(env);
  const entries = names.map((name) => {
    const { schema, ...flag }: Flag = flags[name];
    const source = given[name] === undefined ? fromEnvironment(name, env) : { from: flagOf(name), value: given[name] };
    const value = source?.value ?? flag.default;
    if (value === undefined) return [name, undefined];
    const { data, error } = schema.safeParse(value);
    if (error) {
      const shown = flag.envOnly ? 'what it is' : `'${value}'`;
      problems.push(`${source?.from ?? flagOf(name)} is ${shown}: ${error.issues[0]?.message}`);
    }
    return [name, data];
  });
  const options = Object.fromEntries(entries);
  if ((options.temporalTlsCert === undefined) !== (options.temporalTlsKey === undefined)) {
    problems.push('--temporal-tls-cert and --temporal-tls-key belong together: give both or none');
  }
  problems.push(...electionProblems(options));
  if (problems.length > 0) throw new UsageError(problems.join('\n'));
  return options;
}

/** As client-go: a leader has to give up before the others begin, and needs time for a second try. */
function electionProblems(options: Partial<Options<FlagName>>): string[] {
  const { leaderElect, leaderElectLeaseDuration: lease, leaderElectRenewDeadline: renew } = options;
  const { leaderElectRetryPeriod: retry } = options;
  if (!leaderElect || lease === undefined || renew === undefined || retry === undefined) return [];
  const bounds: readonly [FlagName, number, boolean, string][] = [
    ['leaderElectLeaseDuration', lease, lease >= 1, 'at least 1s'],
    ['leaderElectRenewDeadline', renew, renew < lease, `less than ${flagOf('leaderElectLeaseDuration')}`],
    ['leaderElectRetryPeriod', retry, retry > 0, 'more than 0s'],
    ['leaderElectRetryPeriod', retry, retry * 1.2 < renew, `less than ${flagOf('leaderElectRenewDeadline')} / 1.2`],
  ];
  return bounds
    .filter(([, , holds]) => !holds)
    .map(([name, seconds, , fix]) => `${flagOf(name)} is ${seconds}s: give ${fix}`);
}

/** An empty variable is as good as none. So is the address that Kubernetes gives to pods beside a Service `millwright`. */
function fromEnvironment(name: FlagName, env: Environment): { from: string; value: string } | undefined {
  const found = envOf(name).find((variable) => env[variable] && !/^(tcp|udp|sctp):\/\//.test(env[variable]));
  return found === undefined ? undefined : { from: found, value: env[found] ?? '' };
}

/** Variables that nearly have the name of one of ours. */
function misspelled(env: Environment): string[] {
  const known = Object.keys(flags).flatMap((name) => envOf(name as FlagName).slice(0, 1));
  return Object.keys(env)
    .filter((variable) => variable.startsWith('MILLWRIGHT_') && !known.includes(variable))
    .flatMap((variable) => {
      const meant = known.find((name) => distance(name, variable) <= 2);
      return meant === undefined ? [] : [`${variable} is not known: did you mean ${meant}?`];
    });
}

/** How many letters have to be added, removed or replaced to make one of the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

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
