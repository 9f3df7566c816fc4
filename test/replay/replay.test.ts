import { beforeAll, describe, expect, it } from '@jest/globals';
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { loadWorkflowBundle } from '../../temporal/bundle.ts';
import { filesOf, historiesFolder, scenariosIn } from './files.ts';
import { explain, replay, withOtherEnd } from './replay.ts';

const scenarios = scenariosIn(historiesFolder);
let bundle: { code: string };

beforeAll(async () => {
  // Every error that is looked for would be on the screen, too, in words of the SDK.
  const filter = makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' });
  Runtime.install({ logger: new DefaultLogger('ERROR'), telemetryOptions: { logging: { filter } } });
  bundle = await loadWorkflowBundle();
}, 60_000);

describe('the workflows do again, to the last step, what they did', () => {
  it.each(scenarios)(
    '[invariant 10] in the scenario %s',
    async (scenario) => {
      const files = filesOf(historiesFolder, scenario);

      const failed = (await replay(bundle, files)).filter(({ error }) => error !== undefined);

      if (failed.length > 0) throw new Error(failed.map(explain).join('\n\n'));
      // The end of each history was reached: had the workflow ended otherwise, this would have been noticed.
      for (const { name, error } of await replay(bundle, files.map(withOtherEnd))) {
        expect({ name, error }).toEqual({ name, error: expect.any(DeterminismViolationError) });
      }
    },
    60_000,
  );
});
