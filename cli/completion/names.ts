/** Names of objects and contexts, and ids of orphans, for the completion of a command line. */
import { setTimeout } from 'node:timers/promises';
import { personFlags, temporalFlags } from '../flag-groups.ts';
import type { withInstallation } from '../installation.ts';
import { parseKind } from '../kinds.ts';
import { resolveOptions } from '../resolve-options.ts';

/** A shell waits for the answer, ms. */
const timeoutMs = 1_500;

/**
 * Of a kind, in the namespace that the words or the environment name; or of the contexts of the kubeconfig; or the ids
 * of what waits for approval in sweeps of the installation. Empty where they cannot be read.
 */
export async function namesOf(kind: string, words: readonly string[]): Promise<readonly string[]> {
  try {
    // What is being typed need not be a value yet: `contexts` come after --context, `namespaces` after --namespace.
    const known = personFlags.filter((name) => `${name}s` !== kind);
    const given = Object.fromEntries(known.map((name) => [name, valueIn(words, name)]));
    if (kind === 'contexts') {
      const { contextsOf } = await import('../kubeconfig.ts');
      return contextsOf(await resolveOptions(personFlags, given, process.env));
    }
    if (kind === 'orphans') {
      const ofTemporal = ['installation', ...temporalFlags] as const;
      const more = Object.fromEntries(ofTemporal.map((name) => [name, valueIn(words, name)]));
      const taken = [...personFlags, ...ofTemporal] as const;
      return await heldIds(await resolveOptions(taken, { ...given, ...more }, process.env));
    }
    const { connectCluster } = await import('../servers.ts');
    const { dialect } = await import('../dialect.ts');
    const { namespaces } = await import('../../kube/core.ts');
    const options = await resolveOptions(personFlags, given, process.env);
    const { machine, set, deployment } = dialect.kinds;
    const resources = { Machine: machine, MachineSet: set, MachineDeployment: deployment };
    const resource = kind === 'namespaces' ? namespaces : resources[await parseKind(kind)];
    return await inTime(async () => {
      const control = await connectCluster('control', options, 'completion');
      const { namespaced } = resource;
      const query = { metadataOnly: true, timeoutMs, failFast: true };
      const { items } = await control.list(resource, { ...query, ...(namespaced && { namespace: options.namespace }) });
      await control.close();
      return items.map(({ metadata }) => metadata.name);
    });
  } catch {
    return [];
  }
}

/** Nothing where a server, or a plugin that logs in, does not answer in time. The process may end meanwhile. */
function inTime(ask: () => Promise<readonly string[]>): Promise<readonly string[]> {
  return Promise.race([ask(), setTimeout(timeoutMs, [], { ref: false })]);
}

async function heldIds(options: Parameters<typeof withInstallation>[0]): Promise<readonly string[]> {
  const { withInstallation } = await import('../installation.ts');
  const { findHeldSweeps } = await import('../../temporal/schedules.ts');
  const ask = () =>
    withInstallation(options, async (to) => {
      const waiting = await findHeldSweeps(to);
      const orphans = waiting.flatMap(({ held }) => held.orphans);
      return [...new Set(orphans.flatMap(({ named }) => named.map(({ id }) => id)))];
    });
  return inTime(ask);
}

function valueIn(words: readonly string[], name: string): string | undefined {
  const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const at = words.findIndex((word) => word === flag || (name === 'namespace' && word === '-n'));
  const inline = words.find((word) => word.startsWith(`${flag}=`));
  return inline?.slice(flag.length + 1) ?? (at < 0 ? undefined : words[at + 1]);
}
