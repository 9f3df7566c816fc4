/** What is wrong with a source of Machines, such as a class. */
import type { Find } from '../api/dialect.ts';
import type { KubeClient } from '../kube/client.ts';
import { dialect, dialectName } from './dialect.ts';

/**
 * That the source of this name does not exist or cannot be used, or why its provider refuses it, with the fix;
 * undefined: nothing that is known. Reads its Secrets, too.
 */
export async function sourceProblemOf(
  control: KubeClient,
  namespace: string,
  name: string,
): Promise<string | undefined> {
  const find: Find = (resource, key) => control.find(resource, key, { failFast: true });
  const { problem, refusal } = await dialect.source.read(
    find,
    { dialect: dialectName, namespace, name: '', uid: '' },
    name,
  );
  return problem ?? refusal;
}
