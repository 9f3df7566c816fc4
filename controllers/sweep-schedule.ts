/** Keeps the Schedule of the orphan sweep: Temporal's database may have been lost. */
import { ensureSweepSchedule } from '../temporal/schedules.ts';
import type { Controller, ControllerContext } from './controller.ts';

export function createSweepScheduleController({
  installation,
  namespace,
  sweepPeriodSeconds,
}: Pick<ControllerContext, 'installation' | 'namespace' | 'sweepPeriodSeconds'>): Controller {
  const ensure = () => ensureSweepSchedule(installation, { namespace, periodSeconds: sweepPeriodSeconds });
  return { hears: {}, delayMs: 0, keys: () => ['orphan sweep'], handle: ensure, resync: ensure };
}
