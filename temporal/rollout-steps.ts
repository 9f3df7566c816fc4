/** What the workflow of a MachineDeployment did, step by step: from the histories of its runs. Pure. */
import { attributesOf, type HistoryEvent, isObject, type Json, payloadsOf, textOf } from './history.ts';

/** What was read, and what was done then. */
export interface RolloutStep {
  /** When it was read, RFC 3339. */
  readonly at: string;
  /** Numbers of machines of old sets, of the set of the current template, and of those that are available. */
  readonly old: number;
  readonly updated: number;
  readonly available: number;
  /** As the deployment said then. */
  readonly replicas: number;
  /** Names of machines. Most of what was planned is done at once; what was refused is planned again. */
  readonly created: readonly string[];
  readonly deleted: readonly string[];
  /** Whose in-place update began. */
  readonly selected: readonly string[];
}

type Open = { -readonly [K in keyof RolloutStep]: RolloutStep[K] };

/** @param runs the events of each run, the oldest first, see `readable`. Readings that change nothing are left out. */
export function toRolloutSteps(runs: readonly (readonly HistoryEvent[])[]): RolloutStep[] {
  const steps: Open[] = [];
  for (const events of runs) {
    const readings = new Set<string>();
    for (const event of events) {
      const attributes = attributesOf(event);
      const activity = event.activityTaskScheduledEventAttributes?.activityType.name;
      if (activity === 'observeOwner') readings.add(event.eventId);
      const last = steps.at(-1);
      if (activity === 'actOnOwner' && last !== undefined) addPlan(last, payloadsOf(attributes['input'])[2]);
      const isRead =
        event.eventType.endsWith('ACTIVITY_TASK_COMPLETED') && readings.has(textOf(attributes['scheduledEventId']));
      const step = isRead ? toStep(event.eventTime, payloadsOf(attributes['result'])[0]) : undefined;
      if (step === undefined) continue;
      if (last === undefined || isChange(last, step)) steps.push(step);
    }
  }
  return steps;
}

function isChange(last: RolloutStep, next: RolloutStep): boolean {
  const hasActed = last.created.length + last.deleted.length + last.selected.length > 0;
  const counts = ['old', 'updated', 'available', 'replicas'] as const;
  return hasActed || counts.some((count) => last[count] !== next[count]);
}

/** undefined: the deployment was gone. */
function toStep(at: string, reading: Json | undefined): Open | undefined {
  const view = isObject(reading) ? reading['view'] : undefined;
  if (!isObject(view) || !Array.isArray(view['sets'])) return undefined;
  const sets = view['sets'].filter(isObject);
  const sum = (field: string, isCounted: (set: { readonly [key: string]: Json }) => boolean = () => true) =>
    sets.filter(isCounted).reduce((total, set) => total + Number(set[field] ?? 0), 0);
  return {
    at,
    old: sum('total', (set) => set['isNew'] !== true),
    updated: sum('total', (set) => set['isNew'] === true),
    available: sum('available'),
    replicas: Number(view['replicas'] ?? 0),
    ...{ created: [], deleted: [], selected: [] },
  };
}

function addPlan(step: Open, plan: Json | undefined): void {
  if (!isObject(plan)) return;
  const namesIn = (value: Json | undefined) =>
    (Array.isArray(value) ? value.filter(isObject) : []).map(({ name }) => textOf(name));
  const creations = Array.isArray(plan['create']) ? plan['create'].filter(isObject) : [];
  const created = creations.flatMap(({ names }) => (Array.isArray(names) ? names.map(textOf) : []));
  step.created = [...step.created, ...created];
  step.deleted = [...step.deleted, ...namesIn(plan['remove'])];
  step.selected = [...step.selected, ...namesIn(isObject(plan['update']) ? plan['update']['select'] : undefined)];
}
