import type { FlagName } from './flags.ts';
import { isGiven, type Options, parseOptions } from './options.ts';

/**
 * `parseOptions`, and where a command has a context and nobody names a namespace, that of the context, as kubectl does.
 * Throws UsageError, also for a context that does not exist: commands that ask only Temporal would not notice.
 */
export async function resolveOptions<N extends FlagName>(
  names: readonly N[],
  given: Readonly<Record<string, string | undefined>>,
  env: NodeJS.ProcessEnv,
): Promise<Options<N>> {
  const options = parseOptions(names, given, env);
  if (!hasContext(options)) return options;
  const isNamed = isGiven('namespace', given, env);
  if (isNamed && options.context === undefined) return options;
  const { namespaceOf } = await import('./kubeconfig.ts');
  const ofContext = namespaceOf(options);
  return isNamed ? options : { ...options, namespace: ofContext ?? options.namespace };
}

function hasContext(
  options: object,
): options is Options<'context' | 'namespace' | 'controlKubeconfig' | 'targetKubeconfig' | 'kubeconfig'> {
  return 'context' in options && 'namespace' in options;
}
