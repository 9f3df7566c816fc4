import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CloudName } from '../../deploy/local/demo/clouds.ts';
import { runTour } from '../../deploy/local/demo/run-tour.ts';
import { setUp } from '../../deploy/local/demo/set-up.ts';
import { shortTour } from '../../deploy/local/demo/tour.ts';

/** Where the output of the demo would be: what is missing is in the error of the stop. */
const screen = { isTerminal: false, print: () => {}, paint: () => {}, close: () => {} };

/** Starts the demo with a cloud, runs its short tour, and stops everything. Throws for the first command without its effect. */
export async function runShortTour(cloudName: CloudName): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'millwright-demo-'));
  const ending: (() => Promise<void>)[] = [];
  try {
    await runTour(await setUp({ dir, cloudName }, screen, ending), screen, shortTour);
  } finally {
    for (const end of ending.toReversed()) await end();
    await rm(dir, { recursive: true, force: true });
  }
}
