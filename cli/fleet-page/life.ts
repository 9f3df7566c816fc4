/** How the life of a machine is drawn to scale: what was when, as positions from 0 to 1. Pure. */
import { type Blocker, blockers } from '../../api/names.ts';
import type { StepFailure, Timeline, TimelineStep } from '../../temporal/timeline.ts';
import { notesOf } from '../commands/timeline/text.ts';
import { durationText } from '../duration-text.ts';

/** What is drawn from one position to another. */
interface Drawn {
  readonly from: number;
  readonly to: number;
  /** How long it has taken, so far. */
  readonly took: string;
  readonly isOpen: boolean;
}

interface DrawnCall extends Drawn {
  readonly activity: string;
  readonly attempts: number;
  readonly failure?: StepFailure;
}

interface DrawnWait extends Drawn {
  /** A key of `blockers`. */
  readonly blockedOn: string;
}

interface DrawnStep extends Drawn {
  readonly step: TimelineStep['step'];
  /** RFC 3339. */
  readonly start: string;
  /** It is rest, and longer than it is drawn. */
  readonly isCut: boolean;
  readonly notes: readonly string[];
  readonly calls: readonly DrawnCall[];
  readonly waits: readonly DrawnWait[];
}

/** The life of a machine as the page draws it. */
export interface Life {
  readonly steps: readonly DrawnStep[];
  /** Positions of lines that are equally far apart in time, but for what is cut. */
  readonly lines: readonly number[];
  /** How far apart, such as `10 s`. */
  readonly distance: string;
  readonly isGone: boolean;
  readonly isLost: boolean;
  /** There were earlier steps. */
  readonly isLimited: boolean;
}

/** Most that is drawn, the newest first. */
export const maxSteps = 100;
export const maxCalls = 500;

/** A stretch of time, ms since the epoch. */
export interface Stretch {
  readonly startMs: number;
  readonly endMs: number;
  readonly isRest: boolean;
}

/** Of all else, so much is the most that a rest takes on the scale. */
const restShare = 1 / 4;

/**
 * A scale for stretches that follow each other. Rest may last for weeks, so it is cut: no rest takes more than a quarter
 * of what all else takes together. `positionOf` takes ms since the epoch.
 */
export function toScale(stretches: readonly Stretch[]) {
  const lengthOf = ({ startMs, endMs }: Stretch) => Math.max(0, endMs - startMs);
  const busyMs = stretches.reduce((sum, each) => sum + (each.isRest ? 0 : lengthOf(each)), 0);
  const mostRestMs = busyMs > 0 ? busyMs * restShare : Number.POSITIVE_INFINITY;
  const drawnMs = (each: Stretch) => (each.isRest ? Math.min(lengthOf(each), mostRestMs) : lengthOf(each));
  const totalMs = stretches.reduce((sum, each) => sum + drawnMs(each), 0) || 1;
  return {
    totalMs,
    isCut: (each: Stretch) => drawnMs(each) < lengthOf(each),
    positionOf(ms: number): number {
      let beforeMs = 0;
      for (const each of stretches) {
        if (ms < each.endMs) {
          const share = Math.max(0, ms - each.startMs) / (lengthOf(each) || 1);
          return (beforeMs + share * drawnMs(each)) / totalMs;
        }
        beforeMs += drawnMs(each);
      }
      return beforeMs / totalMs;
    },
  };
}

/** Distances of lines, s. */
const distances = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800];
/** Most lines of a scale without cuts. */
const mostLines = 8;

/** @param nowMs ms since the epoch: the end of what is not over */
export function toLife(timeline: Timeline & { readonly omittedRuns: number }, nowMs: number): Life {
  const steps = timeline.steps.slice(-maxSteps);
  const calls = timeline.calls.slice(-maxCalls);
  const endOf = ({ end }: { readonly end?: string }) => (end === undefined ? nowMs : Date.parse(end));
  const stretches = steps.map((step) => ({
    ...{ step, startMs: Date.parse(step.start), endMs: endOf(step) },
    isRest: step.step === 'run',
  }));
  const scale = toScale(stretches);
  const draw = (startMs: number, endMs: number, isOpen: boolean): Drawn => ({
    ...{ from: scale.positionOf(startMs), to: scale.positionOf(endMs) },
    ...{ took: durationText(endMs - startMs), isOpen },
  });

  const drawn = stretches.map(({ step, startMs, endMs }, i): DrawnStep => {
    const own = calls.filter(({ start }) => {
      const ms = Date.parse(start);
      return ms >= startMs && (ms < endMs || i === stretches.length - 1);
    });
    const waits = timeline.waits.slice(-maxCalls).flatMap(({ blockedOn, ...wait }) => {
      const fromMs = Math.max(startMs, Date.parse(wait.start));
      const toMs = Math.min(endMs, endOf(wait));
      return toMs > fromMs ? [{ blockedOn, fromMs, toMs, isOpen: wait.end === undefined && toMs === nowMs }] : [];
    });
    const { cause, ...others } = step;
    const causeNotes = cause === undefined ? [] : [cause];
    return {
      ...{ step: step.step, start: step.start, ...draw(startMs, endMs, step.end === undefined) },
      isCut: scale.isCut(stretches[i]!),
      notes: [...causeNotes, ...callNotes(own), ...notesOf({ ...others, blockedOn: [] }), ...waitNotes(waits)],
      calls: own.map(({ activity, attempts, failure, ...call }) => ({
        ...draw(Date.parse(call.start), endOf(call), call.end === undefined),
        ...{ activity, attempts },
        ...(failure !== undefined && { failure }),
      })),
      waits: waits.map(({ blockedOn, fromMs, toMs, isOpen }) => ({ blockedOn, ...draw(fromMs, toMs, isOpen) })),
    };
  });
  const distanceMs = 1_000 * (distances.find((each) => scale.totalMs / 1_000 / each <= mostLines) ?? distances.at(-1)!);
  return {
    steps: drawn,
    lines: linesOf(stretches, distanceMs, scale),
    distance: durationText(distanceMs),
    isGone: timeline.isGone,
    isLost: timeline.isLost,
    isLimited: timeline.omittedRuns > 0 || steps.length < timeline.steps.length,
  };
}

/** How often what was called: `ensureVm 3 times, 2 failed`. */
function callNotes(calls: Timeline['calls']): string[] {
  return [...Map.groupBy(calls, ({ activity }) => activity)].map(([activity, each]) => {
    const failed = each.filter(({ failure }) => failure !== undefined).length;
    return `${activity}${each.length > 1 ? ` ${each.length} times` : ''}${failed > 0 ? `, ${failed} failed` : ''}`;
  });
}

/** How long it was blocked on what. */
function waitNotes(waits: readonly { readonly blockedOn: string; readonly fromMs: number; readonly toMs: number }[]) {
  return [...Map.groupBy(waits, ({ blockedOn }) => blockedOn)].map(([blockedOn, each]) => {
    const ms = each.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
    return `blocked on ${blockedOn} for ${durationText(ms)}: ${blockers[blockedOn as Blocker] ?? 'unknown'}`;
  });
}

/** Lines since the first stretch, none within what is cut. */
function linesOf(stretches: readonly Stretch[], distanceMs: number, scale: ReturnType<typeof toScale>): number[] {
  const originMs = stretches[0]?.startMs ?? 0;
  return stretches
    .filter((each) => !scale.isCut(each))
    .flatMap(({ startMs, endMs }) => {
      const first = Math.floor((startMs - originMs) / distanceMs) + 1;
      const count = Math.max(0, Math.ceil((endMs - originMs) / distanceMs) - first);
      const at = Array.from({ length: Math.min(count, 2 * mostLines) }, (_, i) => originMs + (first + i) * distanceMs);
      return at.map((ms) => scale.positionOf(ms));
    });
}
