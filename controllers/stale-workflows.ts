/** Finds open workflows that no event concerns: their object is gone, or is in another phase than they show. */
import type { KubeObject } from '../api/objects.ts';
import { type WorkflowKind, workflowId } from '../api/workflow-id.ts';
import { listOpenWorkflows } from '../temporal/workflows.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { refOf } from './objects.ts';
import { isKnownLone } from './owners.ts';

/** A list of 5,000 open workflows costs a Temporal server 1.5 s of CPU (measured with SQLite). */
const resyncsPerList = 10;

/**
 * Younger runs are left to the next list, ms: this one may be behind them. The times are of two clocks, so only once.
 */
const youngMs = 5_000;

/**
 * Lists all open workflows at the start, after a restore, and at every tenth resync: every ten minutes. Stale ones are
 * refreshed, which ends those whose object is gone.
 */
export function createStaleWorkflowFinder({
  watches,
  dialect,
  installation,
  defaults,
  refresh,
}: Pick<ControllerContext, 'watches' | 'dialect' | 'installation' | 'defaults' | 'refresh'>): Controller {
  let resyncs = 0;
  /** IDs that were left by the last list. */
  let left = new Set<string>();

  /** The phase that each workflow should show; undefined for those that show none. */
  function expectedPhases(): Map<string, string | undefined> {
    const { machines, deployments, sets } = watches;
    const idOf = (kind: WorkflowKind, object: KubeObject) =>
      workflowId(installation.name, kind, refOf(dialect, object));
    const phases = new Map<string, string | undefined>();
    for (const machine of machines.list())
      phases.set(idOf('Machine', machine), dialect.machine.toSnapshot(machine, defaults).phase);
    for (const deployment of deployments.list()) phases.set(idOf('MachineDeployment', deployment), undefined);
    for (const set of sets.list()) if (isKnownLone(watches, set)) phases.set(idOf('MachineSet', set), undefined);
    return phases;
  }

  async function find(): Promise<void> {
    const youngAfterMs = Date.now() - youngMs;
    const open = await listOpenWorkflows(installation);
    resyncs = 0; // after an error the next attempt lists again
    const phases = expectedPhases();
    const young = new Set<string>();
    for (const { id, phase, startTime } of open) {
      const isStale = !phases.has(id) || phases.get(id) !== phase;
      if (!isStale) continue;
      if (startTime.getTime() < youngAfterMs || left.has(id)) refresh(id);
      else young.add(id);
    }
    left = young;
  }

  return {
    queue: 'stale-workflows',
    hears: {},
    delayMs: 2_000,
    keys: () => ['open workflows'],
    handle: find,
    async resync() {
      resyncs++;
      if (resyncs >= resyncsPerList) await find();
    },
  };
}
