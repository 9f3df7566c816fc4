import type { FlagName } from './flags.ts';
import { isGiven, type Options, parseOptions } from './options.ts';

/**
 * `parseOptions`, and where a command has a context and nobody names a namespace, that of the context, as kubectl does.
 * Throws UsageError.
 */
export async function resolveOptions<N extends FlagName>(
  names: readonly N[],
  given: Readonly<Record<string, string | undefined>>,
  env: NodeJS.ProcessEnv,
): Promise<Options<N>> {
  const options = parseOptions(names, given, env);
  if (!hasContext(options) || isGiven('namespace', given, env)) return options;
  const { namespaceOf } = await import('./kubeconfig.ts');
  return { ...options, namespace: namespaceOf(options) ?? options.namespace };
}

function hasContext(
  options: object,
): options is Options<'context' | 'namespace' | 'controlKubeconfig' | 'targetKubeconfig' | 'kubeconfig'> {
  return 'context' in options && 'namespace' in options;
}
