/** Recording: what the workflows of an installation have done becomes files, of which replay.test.ts replays each. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { searchAttributes } from '../../api/names.ts';
import { isCommand, readable, stepOf } from '../../temporal/history.ts';
import { recordVariable } from './files.ts';
import { type RecordedHistory, toText, workflowTypeOf } from './history.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Of one scenario and workflow type. Many machines do the same, and there is little that a fourth adds. */
const mostFiles = 3;

/**
 * Writes the most telling histories of an installation as `<scenario>/<workflow type>-<number>.json`, if this run of
 * the tests records. Throws when it has recorded this scenario before: each belongs to one installation.
 */
export async function recordHistories(of: {
  readonly client: Client;
  readonly installation: string;
  readonly scenario: string;
}): Promise<void> {
  const folder = process.env[recordVariable];
  if (folder === undefined) return;
  const { client, installation, scenario } = of;
  const histories: RecordedHistory[] = [];
  const query = `${searchAttributes.installation} = '${installation}'`;
  const recordedBy = relative(root, expect.getState().testPath ?? '');
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    const events = readable(historyToJSON(await client.workflow.getHandle(workflowId, runId).fetchHistory()));
    // Nothing was asked of a workflow that ended before a worker took it up.
    if (!events.some(isCommand)) continue;
    histories.push({ recordedBy, workflowId, events });
  }
  if (histories.length === 0) throw new Error(`scenario ${scenario}: ${installation} has no workflow`);
  await mkdir(folder, { recursive: true });
  await mkdir(join(folder, scenario)); // throws when it is there
  for (const workflowType of new Set(histories.map(workflowTypeOf))) {
    const ofType = histories.filter((history) => workflowTypeOf(history) === workflowType);
    for (const [i, history] of mostTelling(ofType).entries()) {
      const text = withoutNumbers(toText(history), installation, scenario);
      await writeFile(join(folder, scenario, `${workflowType}-${i + 1}.json`), text);
    }
  }
}

/** Those that together show the most ways from one step to the next, the one that shows the most first. */
function mostTelling(histories: readonly RecordedHistory[]): RecordedHistory[] {
  const left = histories.map((history) => ({ history, ways: waysOf(history) }));
  const chosen: RecordedHistory[] = [];
  const shown = new Set<string>();
  while (chosen.length < mostFiles) {
    const counted = left.map((each) => ({ ...each, count: each.ways.filter((way) => !shown.has(way)).length }));
    const [best] = counted.toSorted((a, b) => b.count - a.count || a.history.events.length - b.history.events.length);
    if (best === undefined || best.count === 0) break;
    chosen.push(best.history);
    for (const way of best.ways) shown.add(way);
  }
  return chosen;
}

function waysOf({ events }: RecordedHistory): string[] {
  const steps = events.map(stepOf).filter((step) => !/^WORKFLOW_TASK_(SCHEDULED|STARTED|COMPLETED)$/.test(step));
  return [...new Set(steps.map((step, i) => `${steps[i - 1]} > ${step}`))];
}

/** The namespace has a random name and servers random ports: no two recordings would be alike in any line. */
function withoutNumbers(text: string, installation: string, scenario: string): string {
  return text.replaceAll(installation, scenario).replace(/\b127\.0\.0\.1:\d+/g, '127.0.0.1:1234');
}
