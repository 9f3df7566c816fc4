/** `millwright get`: lists objects with what they wait for, from Kubernetes alone. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowKind } from '../../../api/workflow-id.ts';
import type { clusterFlags } from '../../flag-groups.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { type OwnedObjects, readOwned, watchOwned } from '../../owner-state.ts';
import { connectCluster } from '../../servers.ts';
import { say } from '../../terminal.ts';
import { changesOf, type Listed, listText, toListed } from './rows.ts';

type GetOptions = Options<'namespace' | 'output' | 'watch' | (typeof clusterFlags)[number]>;

/** How often what is watched is looked at, ms. */
const lookMs = 500;

/**
 * Prints the list, and with --watch what changes until the process ends. Throws an Error that names objects that do not
 * exist.
 */
export async function get(kind: WorkflowKind, names: readonly string[], options: GetOptions): Promise<void> {
  const { namespace, watch } = options;
  const control = await connectCluster('control', options, 'get');
  try {
    const all = toListed(kind, await readOwned(control, namespace));
    const missing = names.filter((name) => all.every((each) => each.name !== name));
    if (missing.length > 0) {
      throw new Error(
        `${kind} ${missing.join(', ')} not found in namespace ${namespace}: correct the name or --namespace`,
      );
    }
    const chosen = (listed: readonly Listed[]) =>
      names.length === 0 ? [...listed] : listed.filter(({ name }) => names.includes(name));
    const listed = chosen(all);
    const text = (isWide: boolean) =>
      listed.length === 0 ? `no ${kind} in namespace ${namespace}` : listText(listed, Date.now(), isWide);
    say(rendered(listed, options, text));
    if (watch)
      await follow(listed, watchOwned(control, namespace).read, (owned) => chosen(toListed(kind, owned)), options);
  } finally {
    await control.close();
  }
}

/** Prints a table of what has changed, and a line for what is gone, until the process ends. */
async function follow(
  first: readonly Listed[],
  read: () => Promise<OwnedObjects>,
  toChosen: (owned: OwnedObjects) => Listed[],
  options: GetOptions,
): Promise<never> {
  for (let before = first; ; ) {
    await sleep(lookMs);
    const now = toChosen(await read());
    const { changed, gone } = changesOf(before, now);
    before = now;
    if (changed.length > 0) say(rendered(changed, options, (isWide) => listText(changed, Date.now(), isWide)));
    for (const name of gone) say(rendered({ name, gone: true }, options, () => `${name} is gone`));
  }
}
