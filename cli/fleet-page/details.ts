/** What the fleet page shows of a machine or a rollout that somebody has opened. */
import type { KubeObject, ObjectKey, Resource } from '../../api/objects.ts';
import { byController } from '../../controllers/watches.ts';
import type { KubeClient, KubeReader } from '../../kube/client.ts';
import type { Store } from '../../kube/store.ts';
import { describeWorkflow, openOnly } from '../../temporal/describe.ts';
import { readRollout } from '../../temporal/read-rollout.ts';
import { type KnownCauses, readTimeline } from '../../temporal/read-timeline.ts';
import type { Installation } from '../../temporal/workflows.ts';
import type { RawFlags } from '../command.ts';
import { type Answer, describeObject } from '../commands/describe/object.ts';
import { dialect } from '../dialect.ts';
import { toDeploymentState } from '../owner-state.ts';
import type { Stores } from './cells.ts';
import { toLife } from './life.ts';
import { toRollout } from './rollout.ts';

/** What can be opened, as its address has it. */
export type Kind = 'machines' | 'deployments';

export interface DetailsOptions {
  readonly watches: Stores;
  readonly control: KubeClient;
  readonly installation: Installation;
  readonly namespace: string;
  /** Address of the Temporal UI, without a slash at its end. undefined: there are no links. */
  readonly temporalUi: string | undefined;
  /** For the commands that the page recommends. */
  readonly rawFlags: RawFlags;
}

/** An answer to a request. */
interface Shown {
  readonly status: number;
  readonly body: object;
}

/** What is read in `keptMs` at most, and how long it is the answer, ms. Anybody who reaches the port can ask. */
const maxRead = 20;
const keptMs = 2_000;
/** A machine has one run for its creation, and another one from an hour later: more are those of one in trouble. */
const limits = { maxRuns: 20, timeoutMs: 10_000 };
const maxCauses = 1_000;
/** Each run of a rollout takes up to three requests, and its history may be long. */
const rolloutLimits = { maxRuns: 5, timeoutMs: 10_000 };

const tooMany: Shown = { status: 503, body: { error: 'Much is asked for: this is asked for again.' } };

/** Answers with a machine or a rollout by its name: as it is, or was some moments ago. */
export function readDetails(options: DetailsOptions): (kind: Kind, name: string) => Promise<Shown> {
  const { watches, installation, namespace, temporalUi } = options;
  const openOnes = openOnly(installation.client);
  const ask = (id: string): Promise<Answer> =>
    describeWorkflow(openOnes, id).catch((error: unknown) => ({ state: 'unreachable', reason: String(error) }));
  // The account of the controllers may not read Events.
  const control: KubeReader = { find: options.control.find, list: async () => ({ items: [] }) };
  const source = { control, installation: installation.name, ask, rawFlags: options.rawFlags };

  /** A page that is open asks again and again, and the history of an owner may be long. */
  const causes: KnownCauses = new Map();

  async function readMachine(name: string): Promise<Shown> {
    if (causes.size > maxCauses) causes.clear();
    const [description, timeline] = await Promise.all([
      describeObject('Machine', { namespace, name }, source),
      readTimeline(installation, { namespace, name }, limits, causes).catch((error: unknown) => ({
        problem: String(error),
      })),
    ]);
    if (description === undefined && timeline === undefined) {
      return { status: 404, body: { error: `no Machine ${namespace}/${name}` } };
    }
    const rows = description?.rows ?? [['Machine', `${namespace}/${name} is gone`]];
    return { status: 200, body: { rows: rows.filter(([, value]) => value), ...historyOf(timeline) } };
  }

  function historyOf(timeline: Awaited<ReturnType<typeof readTimeline>> | { readonly problem: string }) {
    if (timeline === undefined) return { problem: 'Temporal keeps no history of it.' };
    if ('problem' in timeline) return { problem: `Temporal does not say: ${timeline.problem}` };
    return { life: toLife(timeline, Date.now()), ...withLink(timeline) };
  }

  /** From the caches: who opens a rollout costs the API server nothing. */
  async function readDeployment(name: string): Promise<Shown> {
    const key = { namespace, name };
    if (!watches.deployments.synced) return { status: 503, body: { error: 'The deployments are not listed yet.' } };
    const [description, history] = await Promise.all([
      describeObject('MachineDeployment', key, { ...source, control: cachedReader(watches) }),
      readRollout(installation, key, rolloutLimits).catch((error: unknown) => ({ problem: String(error) })),
    ]);
    const deployment = watches.deployments.get(key);
    if (description === undefined || deployment === undefined) {
      return { status: 404, body: { error: `no MachineDeployment ${namespace}/${name}` } };
    }
    const sets = watches.sets.list();
    const owned = { deployments: watches.deployments.list(), sets, machines: watches.machines.list() };
    const names = new Map(
      sets.map(({ metadata }) => [
        metadata.name,
        watches.machines.byIndex(byController, metadata.uid).map((machine) => machine.metadata.name),
      ]),
    );
    const found = 'problem' in history ? { runs: [], steps: [] } : history;
    const rollout = toRollout(toDeploymentState(deployment, owned), names, found, Date.now());
    const [newest] = found.runs;
    const body = {
      // What blocks it is drawn with the names of machines as links.
      rows: description.rows.filter(([term, value]) => value && term !== 'Blocked by'),
      rollout: { ...rollout, runs: rollout.runs.map((run) => ({ ...run, ...withLink(run, 'history') })) },
      ...('problem' in history && { problem: `Temporal does not say: ${history.problem}` }),
      ...(newest && withLink(newest)),
    };
    return { status: 200, body };
  }

  /** By default the tab with what the workflow says of itself: the one that opens without it does not show that. */
  function withLink(
    { workflowId, runId }: { readonly workflowId: string; readonly runId: string },
    tab = 'user-metadata',
  ) {
    if (temporalUi === undefined) return {};
    const path = [installation.client.options.namespace, 'workflows', workflowId, runId, tab];
    return { link: `${temporalUi}/namespaces/${path.map(encodeURIComponent).join('/')}` };
  }

  const read = new Map<string, Promise<Shown>>();
  const readers = { machines: readMachine, deployments: readDeployment };

  return (kind, name) => {
    const key = `${kind}/${name}`;
    const known = read.get(key);
    if (known !== undefined) return known;
    if (read.size >= maxRead) return Promise.resolve(tooMany);
    const reading = readers[kind](name).catch((error: unknown) => ({ status: 502, body: { error: String(error) } }));
    read.set(key, reading);
    void reading.then(() => setTimeout(() => read.delete(key), keptMs).unref());
    return reading;
  };
}

/** Reads the owners and machines that the controllers watch. */
function cachedReader({ machines, sets, deployments }: Stores): KubeReader {
  const { kinds } = dialect;
  const stores = new Map<object, Store<KubeObject>>([
    [kinds.machine, machines],
    [kinds.set, sets],
    [kinds.deployment, deployments],
  ]);
  return {
    find: async <T extends KubeObject>(resource: Resource<T>, key: ObjectKey) =>
      stores.get(resource)?.get(key) as T | undefined,
    list: async <T extends KubeObject>(resource: Resource<T>) => ({
      items: (stores.get(resource)?.list() ?? []) as T[],
    }),
  };
}
