/** Why an owner has deleted a machine: from the history of a run of its workflow. Pure. */
import { deletionCause } from '../api/owner/deletion-cause.ts';
import { attributesOf, type HistoryEvent, isObject, type Json, payloadsOf, textOf } from './history.ts';

/** By how much the clocks of Temporal and of the API server may differ, ms. */
export const clockSkewMs = 60_000;

/**
 * As a clause; undefined: no step of the run was to delete the machine at that time.
 * @param events of a run, see `readable`
 * @param machine its UID, and its deletionTimestamp in ms since the epoch
 */
export function causeInRun(
  events: readonly HistoryEvent[],
  { uid, deletedMs }: { readonly uid: string; readonly deletedMs: number },
): string | undefined {
  let view: Json | undefined;
  let cause: string | undefined;
  const readings = new Set<string>();
  /** The one under way that was to delete it. */
  let step: { readonly eventId: string; readonly cause: string } | undefined;
  for (const event of events) {
    const attributes = attributesOf(event);
    const atMs = Date.parse(event.eventTime);
    const activity = event.activityTaskScheduledEventAttributes?.activityType.name;
    if (activity === 'observeOwner') readings.add(event.eventId);
    if (activity === 'actOnOwner' && atMs <= deletedMs + clockSkewMs) {
      const [ref, , plan] = payloadsOf(attributes['input']);
      const planned = causeInPlan(ref, plan, view, uid);
      if (planned !== undefined) step = { eventId: event.eventId, cause: planned };
    }
    const scheduledId = textOf(attributes['scheduledEventId']);
    if (readings.has(scheduledId) && event.eventType.endsWith('ACTIVITY_TASK_COMPLETED')) {
      const [reading] = payloadsOf(attributes['result']);
      if (isObject(reading)) view = reading['view'];
    }
    const isEnd = /ACTIVITY_TASK_(COMPLETED|FAILED|TIMED_OUT|CANCELED)$/.test(event.eventType);
    if (step === undefined || !isEnd || scheduledId !== step.eventId) continue;
    if (atMs >= deletedMs - clockSkewMs) ({ cause } = step);
    step = undefined;
  }
  return step?.cause ?? cause;
}

/** @param view what the plan was made from */
function causeInPlan(
  ref: Json | undefined,
  plan: Json | undefined,
  view: Json | undefined,
  uid: string,
): string | undefined {
  if (!isObject(plan) || !isObject(view) || !Array.isArray(plan['remove']) || !Array.isArray(view['sets']))
    return undefined;
  const machine = plan['remove'].filter(isObject).find((each) => each['uid'] === uid);
  if (machine === undefined) return undefined;
  const set = view['sets'].filter(isObject).find(({ name }) => name === machine['set']);
  return deletionCause(
    {
      failed: machine['failed'] === true,
      ...(machine['isOfReplacement'] === true && { isOfReplacement: true }),
      ...(machine['unneeded'] === true && { unneeded: true }),
    },
    {
      owner: `${textOf(view['kind'])} ${isObject(ref) ? textOf(ref['name']) : ''}`,
      isOwnerDeleted: view['deleting'] === true,
      set: `MachineSet ${textOf(machine['set'])}`,
      isSetDeleted: set?.['deleting'] === true,
      isOld: set?.['isNew'] === false,
    },
  );
}
