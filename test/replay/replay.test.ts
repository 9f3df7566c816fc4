import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { DefaultLogger, makeTelemetryFilterString, Runtime, type Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { FastSandboxWorker } from '../../temporal/fast-sandbox.ts';
import { isCommand, stepOf } from '../../temporal/history.ts';
import { plainSecret } from '../support/installation.ts';
import { bundleChanged } from './changed.ts';
import { allScenarios, filesOf, type HistoryFile, historiesFolder, next } from './files.ts';
import { toText, workflowTypeOf } from './history.ts';
import { explain, type Replayed, replay, withOtherEnd } from './replay.ts';
import { DefaultWorker } from './workers.ts';

const scenarios = allScenarios();
const files = scenarios.flatMap((scenario) => filesOf(historiesFolder, scenario));
/** Of each scenario and workflow type the most telling one. */
const first = files.filter(({ name }) => name.endsWith('-1.json'));
let bundle: { readonly code: string };

beforeAll(async () => {
  // Every error that is looked for would be on the screen, too, in words of the SDK.
  const filter = makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' });
  Runtime.install({ logger: new DefaultLogger('ERROR'), telemetryOptions: { logging: { filter } } });
  bundle = await loadWorkflowBundle();
});

/** Replays histories as they were recorded, and with another end. */
async function replayTwice(of: readonly HistoryFile[], worker?: typeof Worker) {
  const replayed = await replay(bundle, [...of, ...of.map(withOtherEnd)], worker);
  return { asRecorded: replayed.slice(0, of.length), otherEnds: replayed.slice(of.length) };
}

async function expectSame({ asRecorded, otherEnds }: Awaited<ReturnType<typeof replayTwice>>): Promise<void> {
  const failed = asRecorded.filter(({ error }) => error !== undefined);
  if (failed.length > 0) throw new Error(await explain(bundle, failed));
  // The end of each history was reached: had the workflow ended otherwise, this would have been noticed.
  for (const { name, error } of otherEnds) {
    expect({ name, error }).toEqual({ name, error: expect.any(DeterminismViolationError) });
  }
}

describe('the workflows do again, to the last step, what they did', () => {
  let replayed: Awaited<ReturnType<typeof replayTwice>>;
  beforeAll(async () => {
    replayed = await replayTwice(files);
  }, 600_000);

  it.each(scenarios)('[invariant 10] in the scenario %s', async (scenario) => {
    const ofIt = (all: readonly Replayed[]) => all.filter(({ name }) => name.startsWith(`${scenario}/`));

    await expectSame({ asRecorded: ofIt(replayed.asRecorded), otherEnds: ofIt(replayed.otherEnds) });
  });

  it.each([
    ['the default sandbox of users', DefaultWorker],
    ['the fast sandbox', FastSandboxWorker],
  ])('in %s, one history of each workflow type', async (_, worker) => {
    const byType = Map.groupBy(first, ({ history }) => workflowTypeOf(history));
    const oneOfEach = [...byType.values()].flatMap((ofType) => ofType.slice(0, 1));

    await expectSame(await replayTwice(oneOfEach, worker));
  });
});

describe('a workflow that does something else', () => {
  const workflowTypes = new Set(files.map(({ history }) => workflowTypeOf(history)));
  const changes = {
    'waits first': {
      change: (code: string) =>
        code.replaceAll(
          new RegExp(`\\basync function (${[...workflowTypes].join('|')})\\(.*\\{$`, 'gm'),
          '$& await new Promise((done) => setTimeout(done, 1));',
        ),
      shows: () => true,
    },
    'calls some activities by other names': {
      change: (code: string) => code.replaceAll(/\b(ensureVm|writeStatus|actOnOwner)\b/g, '$1Anew'),
      shows: (step: string) =>
        /^(ACTIVITY_TASK_SCHEDULED|MARKER_RECORDED) (ensureVm|writeStatus|actOnOwner)\b/.test(step),
    },
  };

  it.each(Object.entries(changes))('[invariant 10] is found out: one that %s', async (_, { change, shows }) => {
    const replayed = await replay(await bundleChanged(change), first);

    for (const { name, history, error } of replayed) {
      const expected = history.events.map(stepOf).some(shows) ? expect.any(DeterminismViolationError) : undefined;
      expect({ name, error }).toEqual({ name, error: expected });
    }
    expect(replayed.filter(({ error }) => error !== undefined).length).toBeGreaterThan(0);
  });

  it.each([
    ['a release', '0.1.0/scale/machine-1.json', 'Workflows of release 0.1.0 are like this one.'],
    ['no release', `${next}/scale/machine-1.json`, 'npm run record -- test/end-to-end/scale.test.ts'],
  ])('is reported with the file, the event and what to do, where %s has it', async (_, name, advice) => {
    const file = { name, history: filesOf(historiesFolder, '0.1.0/scale')[0]!.history };

    const text = await explain(bundle, await replay(bundle, [withOtherEnd(file)]));

    const last = file.history.events.findLast(isCommand);
    expect(text).toContain(`test/histories/${file.name}: `);
    expect(text).toContain(`at event ${last?.eventId}, ACTIVITY_TASK_SCHEDULED anotherThing:`);
    expect(text).toContain('[TMPRL1100] Nondeterminism error');
    expect(text).toContain('patched(');
    expect(text).toContain(advice);
  });
});

describe('recorded histories', () => {
  const texts = files.map(({ name }) => ({ name, text: readFileSync(join(historiesFolder, name), 'utf8') }));

  it('are written as they are read', () => {
    for (const [i, { name, text }] of texts.entries()) {
      expect({ name, same: toText(files[i]!.history) === text }).toEqual({ name, same: true });
    }
  });

  it('[invariant 8 partly] have nothing in them of the machine that they were recorded on, and no secret', () => {
    const forbidden = [
      /\d@/, // <pid>@<host>
      /\/(?:tmp|home|root|work|Users)\//,
      /127\.0\.0\.1:(?!1234\b)/,
      /STICKY/,
      /\b[a-z0-9]{6}\.[a-z0-9]{16}\b/, // a bootstrap token
    ];
    for (const { name, text } of texts) {
      for (const pattern of forbidden) {
        expect({ name, found: pattern.exec(text)?.[0] }).toEqual({ name, found: undefined });
      }
      for (const secret of Object.values(plainSecret)) {
        expect({ name, found: text.includes(JSON.stringify(secret).slice(1, -1)) }).toEqual({ name, found: false });
      }
    }
  });

  it('of a release are few enough to be kept', () => {
    for (const [release, ofIt] of Map.groupBy(texts, ({ name }) => name.split('/')[0])) {
      const bytes = ofIt.reduce((total, { text }) => total + text.length, 0);
      expect({ release, isSmall: bytes < 6_000_000 }).toEqual({ release, isSmall: true });
    }
  });
});
