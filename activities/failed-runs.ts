/** Reports runs of workflows that have failed: Events on their objects, and a metric. */
import { Context } from '@temporalio/activity';
import { dialectOf } from '../api/dialects.ts';
import { type MachineEvent, machineEvents } from '../api/events.ts';
import { type FailedRun, type ObjectRef, workflowObjects } from '../api/model/ref.ts';
import { referenceTo } from '../api/objects.ts';
import type { EventRecorder } from '../kube/events.ts';

export interface FailedRunDeps {
  readonly events: EventRecorder;
  /** Counts a run that has failed. */
  readonly onFailedRun: (workflowType: string, reason: string) => void;
}

export type FailedRunActivities = ReturnType<typeof createFailedRunActivities>;

export function createFailedRunActivities({ events, onFailedRun }: FailedRunDeps) {
  return {
    /** Reports the run from which the caller has taken over. Sends no request by itself, so it is never waited for. */
    async reportFailedRun(
      { reason, message }: FailedRun,
      about?: { readonly kind: keyof typeof workflowObjects; readonly ref: ObjectRef },
    ): Promise<void> {
      onFailedRun(Context.current().info.workflowType ?? 'unknown', reason);
      if (about === undefined) return;
      const { kind, ref } = about;
      const event: MachineEvent = 'RunFailed';
      events.record({
        regarding: referenceTo(dialectOf(ref.dialect).kinds[workflowObjects[kind]], ref),
        type: machineEvents[event].type,
        reason: event,
        action: event,
        note: `a run of its workflow failed and a new run took over; nothing has to be done: ${reason}: ${message}`,
      });
    },
  };
}
