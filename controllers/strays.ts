/** Finds open workflows that nobody tells of: their object is gone, or in another phase than they think. */
import type { KubeObject } from '../api/objects.ts';
import {
  countOpenMachines,
  type Installation,
  listOpenWorkflows,
  type WorkflowKind,
  workflowId,
} from '../temporal/workflows.ts';
import { refOf } from './objects.ts';
import { isKnownLone } from './owners.ts';
import type { Watches } from './watches.ts';

export interface StraySearchOptions {
  readonly watches: Watches;
  readonly installation: Installation;
  /** Has the open workflow with this id look live soon. */
  readonly look: (workflowId: string) => void;
}

/**
 * Searches from one list to the next. Of 5,000 open workflows a list costs a Temporal server 1.5 s of CPU (measured, with
 * SQLite), a count 0.01 s.
 */
const searchesPerList = 30;

/** At the first search: a run is under way that began so shortly before, ms. */
const youngMs = 5_000;

/**
 * Searches when it is called; what was found is told to look. The first time, and when the number of open workflows and
 * that of Machines have drifted apart since, it lists all workflows, else it only counts those of machines. One that is
 * open for nothing hides behind one of a machine at rest that was terminated meanwhile: hence a list every now and then.
 * A run that began since the search before is under way, with a list that is behind it: it is compared the next time.
 * @param options.watches stores that are synced
 */
export function createStraySearch({ watches, installation, look }: StraySearchOptions): () => Promise<void> {
  /** How many more workflows of machines are open than there are Machines, as last counted. */
  let knownSurplus: number | undefined;
  let searches = 0;
  let lastSearchMs: number | undefined;

  /** What each workflow should think its phase is; undefined for those that have none. */
  function expectedPhases(): Map<string, string | undefined> {
    const { machines, deployments, sets } = watches;
    const idOf = (kind: WorkflowKind, object: KubeObject) => workflowId(installation.name, kind, refOf(object));
    const phases = new Map<string, string | undefined>();
    for (const machine of machines.list())
      phases.set(idOf('Machine', machine), machine.status?.currentStatus?.phase ?? '');
    for (const deployment of deployments.list()) phases.set(idOf('MachineDeployment', deployment), undefined);
    for (const set of sets.list()) if (isKnownLone(watches, set)) phases.set(idOf('MachineSet', set), undefined);
    return phases;
  }

  /** Answers whether there was nothing that is too young to be compared. */
  async function compareAll(beganBeforeMs: number): Promise<boolean> {
    const open = await listOpenWorkflows(installation);
    const phases = expectedPhases();
    const strays = open.filter(({ id, phase }) => !phases.has(id) || phases.get(id) !== phase);
    const old = strays.filter(({ startTime }) => startTime.getTime() < beganBeforeMs);
    for (const { id } of old) look(id);
    return old.length === strays.length;
  }

  return async () => {
    const nowMs = Date.now();
    // A difference that stays is of machines at rest whose workflows were terminated.
    const surplus = (await countOpenMachines(installation)) - watches.machines.size;
    const isDue = surplus !== knownSurplus || searches % searchesPerList === 0;
    const isComplete = !isDue || (await compareAll(lastSearchMs ?? nowMs - youngMs));
    knownSurplus = isComplete ? surplus : undefined;
    searches++;
    lastSearchMs = nowMs;
  };
}
