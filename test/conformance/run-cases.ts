import { NotRun } from './breach.ts';
import { NobodyServes } from './calls.ts';
import type { Case, Need } from './case.ts';
import type { World } from './world.ts';

/** What came of a case. */
export interface CaseResult {
  readonly title: string;
  readonly state: 'ok' | 'failed' | 'not run';
  /** What was seen, or why it was not run. */
  readonly why?: string;
  /** Of a case that has failed: its last calls and their answers. */
  readonly calls?: readonly string[];
  readonly promise: string;
  readonly section: string;
  readonly seconds: number;
}

type CaseEnd = Pick<CaseResult, 'state' | 'why' | 'calls'>;

interface RunOptions {
  /** Aborts after the case that runs. */
  readonly signal?: AbortSignal;
  readonly onResult?: (result: CaseResult) => void;
}

/**
 * Runs the cases one after the other, each in an empty cloud. Several runs may take theirs from one iterator. Throws
 * NobodyServes when no worker polls.
 */
export async function runCases(
  world: World,
  cases: Iterable<Case>,
  { signal, onResult }: RunOptions = {},
): Promise<CaseResult[]> {
  const results: CaseResult[] = [];
  for (const { title, promise, section, needs, run } of cases) {
    if (signal?.aborted) break;
    const since = performance.now();
    const [why] = needs.flatMap((need) => lackOf(world, need) ?? []);
    const end = why === undefined ? await runOne(world, run) : ({ state: 'not run', why } as const);
    const result = { title, promise, section, ...end, seconds: (performance.now() - since) / 1_000 };
    results.push(result);
    onResult?.(result);
  }
  return results;
}

async function runOne(world: World, run: Case['run']): Promise<CaseEnd> {
  let end: CaseEnd = { state: 'ok' };
  try {
    await world.begin();
    await run(world);
  } catch (error) {
    end = endOf(error);
  }
  let calls = world.lastCalls();
  try {
    await world.end();
  } catch (error) {
    if (end.state !== 'failed') {
      end = { ...endOf(error), state: 'failed' };
      calls = world.lastCalls();
    }
  }
  return end.state === 'failed' ? { ...end, calls } : end;
}

function endOf(error: unknown): CaseEnd {
  if (error instanceof NobodyServes || !(error instanceof Error)) throw error;
  if (error instanceof NotRun) return { state: 'not run', why: error.message };
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : '';
  return { state: 'failed', why: `${error.message.trim()}${cause}` };
}

/** Why a need is not met; undefined when it is. */
function lackOf({ cloud, worker }: World, need: Need): string | undefined {
  if (need === 'worker') return worker ? undefined : 'needs a worker that it may kill: give --worker';
  if (cloud !== undefined) return need === 'cloud' ? undefined : cloud.lacks[need];
  return `needs a cloud under its control${need === 'cloud' ? '' : `, with the fault ${need}`}: give --counterpart`;
}
