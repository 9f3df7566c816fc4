/** Which kubeconfig and context a command uses, and the namespace there. */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { ContextError, contextNames, type KubeconfigAccess, loadKubeconfig } from '../kube/config.ts';
import { type Options, UsageError } from './options.ts';

export type Cluster = 'control' | 'target';
/** `context` only where a person runs the command. */
export type KubeconfigOptions = Options<'controlKubeconfig' | 'targetKubeconfig' | 'kubeconfig'> &
  Partial<Options<'context'>>;

/** Whether Machines and Nodes are in the same cluster. */
export function isOneCluster({ controlKubeconfig }: KubeconfigOptions): boolean {
  return controlKubeconfig === '';
}

/** The flag that names the kubeconfig of a cluster. */
export function kubeconfigFlag(cluster: Cluster, options: KubeconfigOptions): string {
  if (cluster === 'control' && !isOneCluster(options)) return '--control-kubeconfig';
  return options.targetKubeconfig === '' ? '--kubeconfig' : '--target-kubeconfig';
}

/** Kubeconfig of a cluster, as `loadKubeconfig` accepts it. */
export function kubeconfigOf(cluster: Cluster, options: KubeconfigOptions): string {
  if (cluster === 'control' && !isOneCluster(options)) return options.controlKubeconfig;
  return options.targetKubeconfig || options.kubeconfig || defaultKubeconfig(options);
}

/** Whose rights a command has in a cluster, for sentences. */
export function accountOf(cluster: Cluster, options: KubeconfigOptions): string {
  return `the account of the ${kubeconfigOf(cluster, options) === 'inClusterConfig' ? 'Pod' : 'kubeconfig'}`;
}

/** As kubectl: in a Pod the file in the home directory wins. Servers act only on clusters that they were given. */
function defaultKubeconfig(options: KubeconfigOptions): string {
  const own = join(homedir(), '.kube/config');
  const isInPod = Boolean(process.env['KUBERNETES_SERVICE_HOST']);
  return 'context' in options && (!isInPod || existsSync(own)) ? own : 'inClusterConfig';
}

/** Throws an Error that names the flag when the kubeconfig cannot be used, and UsageError where it lacks the context. */
export function accessTo(cluster: Cluster, options: KubeconfigOptions): KubeconfigAccess {
  const path = kubeconfigOf(cluster, options);
  const { controlKubeconfig, targetKubeconfig, kubeconfig } = options;
  const isGiven = [controlKubeconfig, targetKubeconfig, kubeconfig, 'inClusterConfig'].includes(path);
  if (!isGiven && !existsSync(path)) {
    throw new Error(`no kubeconfig is given, and there is no ${path}: set KUBECONFIG, or give --kubeconfig`);
  }
  const hasContext = 'context' in options && (cluster === 'control' || isOneCluster(options));
  const context = hasContext ? options.context : undefined;
  try {
    return loadKubeconfig(path, context);
  } catch (cause) {
    if (context !== undefined && cause instanceof ContextError) throw new UsageError(unknownText(context, path));
    const message = cause instanceof Error ? cause.message : String(cause);
    const more = hasContext && cause instanceof ContextError ? ', or give --context' : '';
    throw new Error(`${kubeconfigFlag(cluster, options)}: ${message}${more}`, { cause });
  }
}

function unknownText(context: string, path: string): string {
  const known = contextNames(path);
  const fix =
    known.length === 0
      ? `leave it out, kubeconfig ${path} has no contexts`
      : `give one of ${known.join(', ')}, which kubeconfig ${path} has`;
  return `--context is '${context}': ${fix}`;
}

/** Names of the contexts that a command can use. Throws an Error where the kubeconfig cannot be read. */
export function contextsOf(options: KubeconfigOptions): readonly string[] {
  return contextNames(kubeconfigOf('control', options));
}

/**
 * Namespace of the context. Throws UsageError when there is no context of the given name. A kubeconfig that cannot be
 * read has none: commands that need it say so.
 */
export function namespaceOf(options: KubeconfigOptions): string | undefined {
  try {
    return accessTo('control', options).namespace;
  } catch (error) {
    if (options.context === undefined) return undefined;
    throw new UsageError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}
