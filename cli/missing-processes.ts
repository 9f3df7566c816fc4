/** What commands say of an installation for which nothing works. */

import type { KubeClient } from '../kube/client.ts';
import { namespaces } from '../kube/core.ts';
import { findMissingProcesses } from '../temporal/clusters.ts';
import type { Installation } from '../temporal/workflows.ts';
import type { clusterFlags } from './flag-groups.ts';
import type { Options } from './options.ts';

type ProcessOptions = Options<'namespace' | (typeof clusterFlags)[number]>;

/**
 * One line that names the processes which are missing; undefined where none is. Throws an Error where the namespace
 * does not exist. A cluster that does not answer is not asked again: then only Temporal is known.
 */
export async function missingProcessesText(
  { client, name: installation }: Installation,
  options: ProcessOptions,
  command: string,
): Promise<string | undefined> {
  const { connection, options: of } = client;
  const missing = await findMissingProcesses(connection, { namespace: of.namespace, installation });
  if (missing.length === 0) return undefined;
  if (await isNamespaceMissing(options, command)) {
    throw new Error(`namespace ${options.namespace} does not exist in the control cluster: correct --namespace`);
  }
  return `Temporal knows of no ${missing.join(' and no ')} of installation '${installation}': start what is missing, or correct --namespace, --installation or --temporal-namespace`;
}

async function isNamespaceMissing(options: ProcessOptions, command: string): Promise<boolean> {
  try {
    const { connectCluster } = await import('./servers.ts');
    const control = await connectCluster('control', options, command);
    try {
      return await lacksNamespace(control, options.namespace);
    } finally {
      await control.close();
    }
  } catch {
    return false;
  }
}

/** Whether a cluster says that it has no such namespace; false where the account may not read it. */
export async function lacksNamespace(control: KubeClient, name: string): Promise<boolean> {
  const found = control.find(namespaces, { name }, { failFast: true });
  return found.then(
    (namespace) => namespace === undefined,
    () => false,
  );
}
