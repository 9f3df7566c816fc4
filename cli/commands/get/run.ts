/** `millwright get`: lists objects with what they wait for, from Kubernetes alone. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject } from '../../../api/objects.ts';
import type { WorkflowKind } from '../../../api/workflow-id.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { StatusError } from '../../../kube/errors.ts';
import type { RawFlags } from '../../command.ts';
import { pastText } from '../../command-line.ts';
import { dialect } from '../../dialect.ts';
import type { clusterFlags } from '../../flag-groups.ts';
import { type Options, UsageError } from '../../options.ts';
import { rendered } from '../../output.ts';
import { type OwnedObjects, readOwned, watchOwned } from '../../owner-state.ts';
import { connectCluster } from '../../servers.ts';
import { say } from '../../terminal.ts';
import { changesOf, growingTable, type Listed, listText, noneText, objectsOf, sortedBy, toListed } from './rows.ts';

type GetOptions = Options<
  'namespace' | 'output' | 'watch' | 'allNamespaces' | 'selector' | 'sortBy' | (typeof clusterFlags)[number]
>;

/** How often what is watched is looked at, ms. */
const lookMs = 500;

/**
 * Prints the list, and with --watch what changes until the process ends. Throws an Error that names objects that do not
 * exist, once the others are printed, and UsageError for a field that none of the objects has, or a wrong selector.
 */
export async function get(
  kind: WorkflowKind,
  names: readonly string[],
  options: GetOptions,
  rawFlags: RawFlags,
): Promise<void> {
  const { allNamespaces: hasNamespaces, watch } = options;
  const namespace = hasNamespaces ? undefined : options.namespace;
  const control = await connectCluster('control', options, 'get');
  let known: { readonly text: string; readonly isChosen: (object: KubeObject) => boolean } | undefined;
  /** The API server is asked for what is chosen only where labels differ. A later failure changes nothing. */
  const list = async (owned: OwnedObjects) => {
    const objects = objectsOf(kind, owned);
    const text = JSON.stringify(objects.map(({ metadata }) => [metadata.uid, metadata.labels]));
    const before = known;
    if (before?.text !== text) {
      const choosing = chooser(control, kind, names, options).then((isChosen) => ({ text, isChosen }));
      known = await (before === undefined ? choosing : choosing.catch(() => before));
    }
    const chosen = objects.filter((each) => known?.isChosen(each));
    return toListed(kind, owned, inOrder(kind, chosen, options, before !== undefined));
  };
  try {
    const listed = await list(await readOwned(control, namespace));
    const missing = names.filter((name) => listed.every((each) => each.name !== name));
    const past = pastText(kind, missing, options.namespace, rawFlags);
    const notFound = `${kind} ${missing.join(', ')} not found in namespace ${namespace}: correct the name or --namespace${past}`;
    if (watch && missing.length === 0) {
      const { read } = watchOwned(control, namespace);
      return await follow(kind, listed, async () => list(await read()), options);
    }
    const text = (isWide: boolean) =>
      listed.length === 0 ? noneText(kind, options) : listText(listed, Date.now(), { isWide, hasNamespaces });
    if (missing.length === 0 || listed.length > 0) say(rendered(listed, options, text));
    if (missing.length > 0) throw new Error(notFound);
  } finally {
    await control.close();
  }
}

/** Whether an object is asked for by its name or its labels, which the API server compares. */
async function chooser(
  control: KubeClient,
  kind: WorkflowKind,
  names: readonly string[],
  { allNamespaces, namespace, selector }: GetOptions,
): Promise<(object: KubeObject) => boolean> {
  if (selector === undefined) return ({ metadata }) => names.length === 0 || names.includes(metadata.name);
  const { machine, set, deployment } = dialect.kinds;
  const resource = { Machine: machine, MachineSet: set, MachineDeployment: deployment }[kind];
  const query = { labelSelector: selector, metadataOnly: true, failFast: true, ...(!allNamespaces && { namespace }) };
  const { items } = await control.list<KubeObject>(resource, query).catch((cause: unknown) => {
    if (!(cause instanceof StatusError) || cause.code !== 400) throw cause;
    const problem = `--selector is '${selector}': ${cause.status.message ?? cause.message}`;
    throw new UsageError(`${problem}; give labels as in name=workers, or a!=b,c in (d,e)`, { cause });
  });
  const uids = new Set(items.map(({ metadata }) => metadata.uid));
  return ({ metadata }) => uids.has(metadata.uid);
}

/** @param isKnown some object has had the field */
function inOrder(kind: WorkflowKind, objects: KubeObject[], { sortBy }: GetOptions, isKnown: boolean): KubeObject[] {
  if (sortBy === undefined) return objects;
  const sorted = sortedBy(objects, sortBy);
  if (sorted !== undefined || isKnown) return sorted ?? objects;
  const fix = 'give the path of another one, such as .metadata.creationTimestamp';
  throw new UsageError(`--sort-by is '${sortBy}': no ${kind} has this field; ${fix}`);
}

/**
 * Prints all, and then what has changed or is gone until the process ends: rows of one table, JSON with an object in
 * each line, or documents of YAML.
 */
async function follow(
  kind: WorkflowKind,
  first: readonly Listed[],
  list: () => Promise<readonly Listed[]>,
  options: GetOptions,
): Promise<never> {
  const { output, allNamespaces: hasNamespaces } = options;
  const table = growingTable(kind, { isWide: output === 'wide', hasNamespaces });
  const print = (changed: readonly Listed[], gone: readonly Listed[]) => {
    const ends = gone.map(({ namespace, name, created }) => ({ namespace, name, created }));
    const objects = [...changed, ...ends.map((end) => ({ ...end, gone: true }))];
    if (objects.length === 0 && output !== 'text' && output !== 'wide') return;
    if (output === 'json') say(objects.map((each) => JSON.stringify(each)).join('\n'));
    else if (output === 'yaml') say(objects.map((each) => `---\n${rendered(each, options, String)}`).join('\n'));
    else say(table([...changed, ...ends.map((end) => ({ ...end, waitsFor: '(gone)' }))], Date.now()));
  };
  print(first, []);
  for (let before = first; ; ) {
    await sleep(lookMs);
    const now = await list();
    const { changed, gone } = changesOf(before, now);
    before = now;
    if (changed.length + gone.length > 0) print(changed, gone);
  }
}
