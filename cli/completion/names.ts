/** Names of objects, for the completion of a command line. */

import { personFlags } from '../flag-groups.ts';
import { parseKind } from '../kinds.ts';
import { resolveOptions } from '../resolve-options.ts';

/** A shell waits for the answer, ms. */
const timeoutMs = 1_500;

/** Of a kind, in the namespace that the words or the environment name. Empty where they cannot be read. */
export async function namesOf(kind: string, words: readonly string[]): Promise<string[]> {
  try {
    const { connectCluster } = await import('../servers.ts');
    const { dialect } = await import('../dialect.ts');
    const given = Object.fromEntries(personFlags.map((name) => [name, valueIn(words, name)]));
    const options = await resolveOptions(personFlags, given, process.env);
    const { machine, set, deployment } = dialect.kinds;
    const resource = { Machine: machine, MachineSet: set, MachineDeployment: deployment }[parseKind(kind)];
    const control = await connectCluster('control', options, 'completion');
    const query = { namespace: options.namespace, metadataOnly: true, timeoutMs, failFast: true };
    const { items } = await control.list(resource, query);
    await control.close();
    return items.map(({ metadata }) => metadata.name);
  } catch {
    return [];
  }
}

function valueIn(words: readonly string[], name: string): string | undefined {
  const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const at = words.findIndex((word) => word === flag || (name === 'namespace' && word === '-n'));
  const inline = words.find((word) => word.startsWith(`${flag}=`));
  return inline?.slice(flag.length + 1) ?? (at < 0 ? undefined : words[at + 1]);
}
