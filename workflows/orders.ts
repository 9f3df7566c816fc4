/** Orders of people: who has given them is recorded. */
import { patched, proxyLocalActivities } from '@temporalio/workflow';
import type { Order, OrderActivities } from '../activities/orders.ts';

const { recordOrder } = proxyLocalActivities<OrderActivities>({
  startToCloseTimeout: '3 seconds',
  scheduleToCloseTimeout: '5 seconds',
  retry: { maximumAttempts: 2, initialInterval: '200 ms' },
});

/**
 * Records an order in an Event and in the log, without waiting for it. A failure to do so is ignored: the history has
 * the order, too.
 * @param by who has given it; undefined: an older command, or no command at all
 */
export function noteOrder(by: string | undefined, order: Omit<Order, 'by'>): void {
  if (by === undefined || !patched('orders-are-recorded')) return;
  recordOrder({ ...order, by }).catch(() => undefined);
}
