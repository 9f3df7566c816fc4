/** A version of Millwright whose workflow code fails: from the alarm to the remedy with one query and one page. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { listBlocked } from '../../temporal/blocked.ts';
import { lackOfBrowser, startBrowser } from '../support/browser.ts';
import { type ChangedBuild, makeChangedBuild } from '../support/changed-build.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { startMillwright, startProcess } from '../support/millwright.ts';
import { arePicturesTaken } from '../support/pictures.ts';
import { failingCode } from '../support/stuck-causes.ts';
import { readWorkflowPage } from '../support/temporal-page.ts';
import { until } from '../support/until.ts';

let millwright: Installation;
let build: ChangedBuild;
let browser: Browser | undefined;
beforeAll(async () => {
  build = await makeChangedBuild({
    'workflows/machine/phases/validate.ts': [
      ['showRetry(state, { doing });', "throw new Error('a mistake in validate');"],
    ],
  });
  millwright = await startInstallation({ isStopped: true, ...(arePicturesTaken && { namespace: 'lab' }) });
  if (lackOfBrowser() === undefined) browser = await startBrowser();
}, 400_000);
afterAll(async () => {
  await browser?.close();
  await millwright?.stop();
  await build?.remove();
});

it('is found by one query, understood on one page and named by `millwright stuck`, and the machine goes on with a version that is correct', async () => {
  const { namespace } = millwright;
  const isElected = false;
  const mistaken = await startMillwright({ namespace, isElected, program: build.program });
  const machine = await millwright.createMachine('worker');
  const servers = ['-n', namespace, '--temporal-address', fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')];
  const said = await until('it is listed', async () => {
    const { exited, logs } = startProcess(['stuck', ...servers]);
    return (await exited).code === 0 && logs().startsWith('WorkflowTask') ? logs() : undefined;
  });
  const metrics = await until('its metrics say so', async (see) => {
    const text = see(await (await fetch(`${mistaken.url}/metrics`)).text());
    return text.includes('cause="WorkflowTask"') ? text : undefined;
  });
  const found = await listBlocked({ client: millwright.temporal, name: namespace });
  expect(found).toMatchObject([{ blockedOn: failingCode.blockedOn }]);
  const { runId, workflowId } = await millwright.handleOf(machine).describe();
  const { shows: texts, name: picture } = failingCode;
  if (browser) await readWorkflowPage(browser, { workflowId, runId }, { tab: 'history', texts, picture });
  await mistaken.stop();
  const correct = await startMillwright({ namespace, isElected });
  await millwright.untilPhase(machine, 'Running');
  await correct.stop();

  expect(metrics).toMatch(/^millwright_blocked_workflows\{type="machine",cause="WorkflowTask"\} 1$/m);
  expect(metrics).toMatch(
    /^temporal_workflow_task_execution_failed\{(?=.*namespace="default")(?=.*task_queue=").*failure_reason="WorkflowError".*\} \d/m,
  );
  expect(said).toMatch(
    /^WorkflowTask: 1 machine\. The tasks of a workflow fail.*\n {2}worker: for .* \(since .*Z\), a mistake in validate\n/,
  );
  expect(said).toMatch(/\n {2}To unblock: The controllers do not end this run: go back to the version before/);
});
