/** Keeps the Schedule of the orphan sweep: Temporal's database may have been lost. */
import { ensureSweepSchedule } from '../temporal/schedules.ts';
import type { Controller, ControllerContext } from './controller.ts';

export function createSweepScheduleController({
  dialect,
  installation,
  namespace,
  sweepPeriodSeconds,
}: Pick<ControllerContext, 'dialect' | 'installation' | 'namespace' | 'sweepPeriodSeconds'>): Controller {
  const wanted = { dialect: dialect.name, namespace, periodSeconds: sweepPeriodSeconds };
  const ensure = () => ensureSweepSchedule(installation, wanted);
  return { hears: {}, delayMs: 0, keys: () => ['orphan sweep'], handle: ensure, resync: ensure };
}
