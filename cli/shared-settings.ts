/** The settings that all processes of an installation need with one value, as each shows its own in its identity. */
import { createHash } from 'node:crypto';
import { type kubeconfigFlags, machineFlags } from './flag-groups.ts';
import { type Flag, type FlagName, flags } from './flags.ts';
import { flagOf, type Options } from './options.ts';
import { hasNoTarget } from './servers.ts';

/** Length above which a value is shortened, characters: Temporal refuses identities of more than 1000. */
const maxLength = 100;

/** The flag whose folder is never shown, but whether it is given. */
export const codecFlag = flagOf('temporalCodecKeys');
/** The flag of which is shown what kind of cluster it names. */
export const targetFlag = flagOf('targetKubeconfig');

/** The values that a process has of them where it shows none, by flag: `--machine-drain-timeout` is `7200s`. */
export const sharedDefaults: ReadonlyMap<string, string> = new Map([
  ...machineFlags.map((name) => [flagOf(name), textOf(name, flags[name].schema.parse(flags[name].default))] as const),
  [targetFlag, 'control-cluster'],
  [codecFlag, 'not given'],
]);

/**
 * Those that are not defaults, by flag. Paths are left out: they may differ from process to process.
 * @param clusters base URLs of the API servers
 */
export function sharedSettings(
  options: Options<(typeof kubeconfigFlags | typeof machineFlags)[number] | 'temporalCodecKeys'>,
  { control, target }: Readonly<Record<'control' | 'target', { readonly server: string }>>,
): Readonly<Record<string, string>> {
  const ofTarget = control.server === target.server ? 'control-cluster' : 'another-cluster';
  const all = [
    ...machineFlags.map((name) => [flagOf(name), textOf(name, options[name])] as const),
    [targetFlag, hasNoTarget(options) ? 'none' : ofTarget] as const,
    [codecFlag, options.temporalCodecKeys === undefined ? 'not given' : 'given'] as const,
  ];
  return Object.fromEntries(all.filter(([flag, text]) => text !== sharedDefaults.get(flag)));
}

/** One text for values that mean the same. A long one ends with a hash. */
function textOf(name: FlagName, value: number | boolean | readonly string[]): string {
  const { value: kind }: Flag = flags[name];
  const text = typeof value === 'object' ? value.toSorted().join(',') : `${value}${kind === 'duration' ? 's' : ''}`;
  if (text.length <= maxLength) return text;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 8);
  return `${text.slice(0, maxLength)}...${hash}`;
}
