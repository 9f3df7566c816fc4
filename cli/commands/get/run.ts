/** `millwright get`: lists objects with what they wait for, from Kubernetes alone. */
import type { WorkflowKind } from '../../../api/workflow-id.ts';
import type { clusterFlags } from '../../flag-groups.ts';
import type { Options } from '../../options.ts';
import { readOwned } from '../../owner-state.ts';
import { connectCluster } from '../../servers.ts';
import { listText, toListed } from './rows.ts';

type GetOptions = Options<'namespace' | 'output' | (typeof clusterFlags)[number]>;

/** The output of the command. Throws an Error that names objects that do not exist. */
export async function get(kind: WorkflowKind, names: readonly string[], options: GetOptions): Promise<string> {
  const { namespace, output } = options;
  const control = await connectCluster('control', options, 'get');
  try {
    const all = toListed(kind, await readOwned(control, namespace));
    const missing = names.filter((name) => all.every((each) => each.name !== name));
    if (missing.length > 0) {
      throw new Error(
        `${kind} ${missing.join(', ')} not found in namespace ${namespace}: correct the name or --namespace`,
      );
    }
    const listed = names.length === 0 ? all : all.filter(({ name }) => names.includes(name));
    if (output === 'json') return JSON.stringify(listed, undefined, 2);
    return listed.length === 0 ? `no ${kind} in namespace ${namespace}` : listText(listed, Date.now());
  } finally {
    await control.close();
  }
}
