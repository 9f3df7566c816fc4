/** Records what people order with signals, which the audit logs of Kubernetes do not contain. */
import { asyncLocalStorage } from '@temporalio/activity';
import { dialectOf } from '../api/dialects.ts';
import { type MachineEvent, machineEvents } from '../api/events.ts';
import { type ObjectRef, workflowObjects } from '../api/model/ref.ts';
import { referenceTo } from '../api/objects.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Logger } from '../kube/logger.ts';

export interface OrderDeps {
  readonly events: EventRecorder;
  readonly logger: Pick<Logger, 'info'>;
}

/** What somebody has ordered. */
export interface Order {
  /** The command, such as `drain --force`. */
  readonly command: string;
  /** Who has run it, as the command says. */
  readonly by: string;
  readonly kind: keyof typeof workflowObjects;
  readonly ref: ObjectRef;
}

export type OrderActivities = ReturnType<typeof createOrderActivities>;

export function createOrderActivities({ events, logger }: OrderDeps) {
  return {
    /** Records an order in the log and in an Event of the object. Sends no request by itself. */
    async recordOrder({ command, by, kind, ref }: Order): Promise<void> {
      const reason: MachineEvent = 'Ordered';
      events.record({
        regarding: referenceTo(dialectOf(ref.dialect).kinds[workflowObjects[kind]], ref),
        type: machineEvents[reason].type,
        reason,
        action: reason,
        note: `\`millwright ${command}\` by ${by}`,
      });
      const { namespace, name } = ref;
      const workflowId = asyncLocalStorage.getStore()?.info.workflowExecution?.workflowId;
      logger.info({ kind, namespace, name, command, by, workflowId }, 'a person has given an order');
    },
  };
}
