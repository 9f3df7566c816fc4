/** Keeps the Schedules: Temporal's database may have been lost. */
import { verdictOf } from '../api/verdict.ts';
import { ensureInterruptionSchedule, ensureSweepSchedule } from '../temporal/schedules.ts';
import type { Controller, ControllerContext } from './controller.ts';

/** The Schedule of the orphan sweep. */
export function createSweepScheduleController({
  dialect,
  installation,
  namespace,
  sweepPeriodSeconds,
}: Pick<ControllerContext, 'dialect' | 'installation' | 'namespace' | 'sweepPeriodSeconds'>): Controller {
  const wanted = { dialect: dialect.name, namespace, periodSeconds: sweepPeriodSeconds };
  const ensure = () => ensureSweepSchedule(installation, wanted);
  return {
    queue: 'sweep-schedule',
    hears: {},
    delayMs: 0,
    keys: () => ['orphan sweep'],
    handle: ensure,
    resync: ensure,
  };
}

/**
 * The Schedule of the checks for interruptions: it exists while there is a source whose VMs may be taken away. Without
 * one nothing is sent but one request at the start.
 */
export function createInterruptionScheduleController({
  watches,
  dialect,
  installation,
  namespace,
  interruptionPeriodSeconds,
}: Pick<
  ControllerContext,
  'watches' | 'dialect' | 'installation' | 'namespace' | 'interruptionPeriodSeconds'
>): Controller {
  let isAbsent = false;
  async function ensure(): Promise<void> {
    const isNeeded = watches.sources.list().some((source) => verdictOf(source)?.interruptionScope !== undefined);
    const periodSeconds = isNeeded ? interruptionPeriodSeconds : 0;
    if (periodSeconds === 0 && isAbsent) return;
    isAbsent = false;
    await ensureInterruptionSchedule(installation, { dialect: dialect.name, namespace, periodSeconds });
    isAbsent = periodSeconds === 0;
  }
  const keys = () => ['interruptions'];
  return {
    queue: 'interruption-schedule',
    hears: { sources: keys },
    delayMs: 500,
    keys,
    handle: ensure,
    resync: ensure,
  };
}
