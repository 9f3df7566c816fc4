/** Workflows of a test file, with activities that the tests play, in a Temporal whose clock only waiting moves. */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll } from '@jest/globals';
import { VirtualTemporal } from '../virtual-temporal/server.ts';

/** Functions that take the place of activities, by task queue and name. Renew their state in `beforeEach`. */
type ActivitiesOf = (taskQueue: string) => Readonly<Record<string, object>>;

export interface PlayedWorkflows {
  /** Of the workflows. */
  readonly taskQueue: string;
  /** There before the first test, and without workflows at the start of each. */
  readonly temporal: VirtualTemporal;
  /** Moves the clock, no further than needed, until the check holds. */
  advanceUntil(check: () => unknown): Promise<void>;
  /** The time of the clock, ms since the epoch. */
  now(): number;
  newWorkflowId(): string;
}

/** Prepares our workflows for the tests of a file. */
export function setUpWorkflows(activitiesOf: ActivitiesOf): PlayedWorkflows {
  const taskQueue = 'played';
  let temporal: VirtualTemporal;
  beforeAll(async () => {
    temporal = await VirtualTemporal.create(activitiesOf(taskQueue));
  });
  afterEach(() => temporal.reset());
  return {
    taskQueue,
    get temporal() {
      return temporal;
    },
    advanceUntil: (check) => temporal.advanceUntil(String(check), check),
    now: () => temporal.clock.nowMs,
    newWorkflowId: () => `${taskQueue}/${randomUUID()}`,
  };
}
