/** The settings of a command: read from flags and the environment, checked and converted. */
import type { z } from 'zod';
import { type Flag, type FlagName, flags } from './flags.ts';

type Parsed<F extends Flag> = z.output<F['schema']> | (F extends { readonly default: string } ? never : undefined);

/** Checked settings of a command that takes these flags. */
export type Options<N extends FlagName> = { readonly [K in N]: Parsed<(typeof flags)[K]> };

const ownPrefix = 'MILLWRIGHT_';

/**
 * The command line or environment is unusable. Each line names a flag or variable, its value and the accepted values.
 */
export class UsageError extends Error {}

/** `kubeApiQps` as flag: `--kube-api-qps`. */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/**
 * Environment variables of a flag, in order of precedence: `kubeApiQps` has `MILLWRIGHT_KUBE_API_QPS`. None where it
 * says what one call does.
 */
export function envOf(name: FlagName): string[] {
  const { alsoEnv, flagOnly }: Flag = flags[name];
  if (flagOnly) return [];
  const own = `${ownPrefix}${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
  return alsoEnv === undefined ? [own] : [own, alsoEnv];
}

/** Whether there is no flag, but a variable alone. */
export function isEnvOnly(name: FlagName): boolean {
  const { envOnly }: Flag = flags[name];
  return envOnly ?? false;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The settings of a command, from its flags, else the environment, else defaults. Throws UsageError with all problems.
 * @param given - Values on the command line, by name.
 */
export function parseOptions<N extends FlagName>(
  names: readonly N[],
  given: Readonly<Record<string, string | undefined>>,
  env: Environment,
): Options<N> {
  const problems = unknownVariables(env);
  const entries = names.map((name) => {
    const { schema, ...flag }: Flag = flags[name];
    const source = given[name] === undefined ? fromEnvironment(name, env) : { from: flagOf(name), value: given[name] };
    const value = source?.value ?? flag.default;
    if (value === undefined) return [name, undefined];
    const { data, error } = schema.safeParse(value);
    if (error) {
      const shown = flag.envOnly ? 'not usable' : `'${value}'`;
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

/** The rules of client-go: a leader gives up before standbys take over, and has time for a second attempt. */
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

/** Whether a flag or a variable gives a setting. */
export function isGiven(
  name: FlagName,
  given: Readonly<Record<string, string | undefined>>,
  env: Environment,
): boolean {
  return given[name] !== undefined || fromEnvironment(name, env) !== undefined;
}

/**
 * An empty variable counts as unset, and so does the address that Kubernetes gives to pods next to a Service
 * `millwright`.
 */
function fromEnvironment(name: FlagName, env: Environment): { from: string; value: string } | undefined {
  const found = envOf(name).find((variable) => env[variable] && !/^(tcp|udp|sctp):\/\//.test(env[variable]));
  return found === undefined ? undefined : { from: found, value: env[found] ?? '' };
}

/** Variables that Kubernetes sets for Services, and those of `npm test` and `npm run stack`. */
const foreignVariables =
  /_(SERVICE|PORT)(_|$)|^MILLWRIGHT_(TEST_\w+|ETCD|KUBE_APISERVER|KUBE_CONTROLLER_MANAGER|KUBECTL|TEMPORAL)$/;

function unknownVariables(env: Environment): string[] {
  const known = (Object.keys(flags) as FlagName[]).flatMap((name) => envOf(name).slice(0, 1));
  return Object.keys(env)
    .filter((name) => name.startsWith(ownPrefix) && !known.includes(name) && !foreignVariables.test(name))
    .map((name) => {
      const alike = known.filter((each) => each[ownPrefix.length] === name[ownPrefix.length]);
      return `${name} is not known: unset it, or give one of ${(alike.length > 0 ? alike : known).join(', ')}`;
    });
}
