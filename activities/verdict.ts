/** Writes verdicts on sources of machines. */
import { isDeepStrictEqual } from 'node:util';
import { dialectOf } from '../api/dialects.ts';
import { type SourceEvent, sourceEvents } from '../api/events.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { referenceTo } from '../api/objects.ts';
import { type Verdict, verdictAnnotations, verdictOf } from '../api/verdict.ts';
import type { KubeClient } from '../kube/client.ts';
import type { EventRecorder } from '../kube/events.ts';
import { update } from '../kube/update.ts';
import { localRequest } from './local-request.ts';

export interface VerdictDeps {
  /** Cluster of the sources and their Secrets. */
  readonly control: KubeClient;
  readonly events: EventRecorder;
}

export type VerdictActivities = ReturnType<typeof createVerdictActivities>;

export function createVerdictActivities({ control, events }: VerdictDeps) {
  return {
    /**
     * Writes a verdict on a source object, with an Event if it is a refusal or follows one. Writes nothing where it
     * says so already, or where the source is of another version by now, which is checked by itself.
     */
    async writeVerdict(ref: ObjectRef, verdict: Verdict): Promise<void> {
      const { kinds, source } = dialectOf(ref.dialect);
      if (kinds.source === undefined) return;
      const find: typeof control.find = (resource, key) => control.find(resource, key, localRequest());
      if ((await source.read(find, ref, ref.name)).version !== verdict.version) return;

      let before: Verdict | undefined;
      let isWritten = false;
      const change = (live: Parameters<typeof verdictOf>[0]) => {
        before = verdictOf(live);
        isWritten = !isDeepStrictEqual(before, verdict);
        return isWritten ? { metadata: { annotations: verdictAnnotations(verdict) } } : undefined;
      };
      const live = await update(control, kinds.source, ref, change, localRequest());
      if (live === undefined || !isWritten) return;

      const { problems } = verdict;
      const wasRefused = before !== undefined && before.problems.length > 0;
      if (problems.length > 0) record('SourceRefused', `no VM can be made from it: ${problems.join('; ')}`);
      else if (wasRefused) record('SourceAccepted', 'VMs can be made from it now');

      function record(reason: SourceEvent, note: string): void {
        const regarding = referenceTo(kinds.source ?? kinds.machine, ref);
        events.record({ regarding, type: sourceEvents[reason].type, reason, note, action: 'Check' });
      }
    },
  };
}
