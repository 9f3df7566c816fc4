/** From the alarm to the remedy with one query and one page, for each cause; `npm test` takes two of them. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { listBlocked } from '../../temporal/blocked.ts';
import { lackOfBrowser, startBrowser } from '../support/browser.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { isLong } from '../support/long.ts';
import { arePicturesTaken } from '../support/pictures.ts';
import { type Stuck, type StuckWorld, stuckCauses } from '../support/stuck-causes.ts';
import { readWorkflowPage } from '../support/temporal-page.ts';
import { until } from '../support/until.ts';

const lack = lackOfBrowser();
const causes = stuckCauses.filter(({ name }) => isLong() || name === 'no-capacity' || name === 'budget');

(lack === undefined ? describe : describe.skip)(`a machine that is stuck${lack ?? ''}`, () => {
  let millwright: Installation;
  let browser: Browser;
  const stuck = new Map<string, Stuck>();
  beforeAll(async () => {
    browser = await startBrowser();
    millwright = await startInstallation({
      ...(arePicturesTaken && { namespace: 'prod' }),
      flags: ['--drain-stuck-after', '1s'],
      cloud: { maxGraceMs: 100 },
    });
    const world: StuckWorld = { millwright, faults: new Map() };
    for (const { title, make } of causes) stuck.set(title, await make(world));
  }, 400_000);
  afterAll(async () => {
    await browser?.close();
    for (const { stop } of stuck.values()) await stop?.();
    await millwright?.stop();
  });

  it.each(causes)('is found by one query and understood on one page, and goes on: $title', async (cause) => {
    const { title, blockedOn, shows, isDeleted } = cause;
    const { ref, remedy } = stuck.get(title) as Stuck;
    const { namespace, temporal } = millwright;

    const { workflowId } = await until(
      'the query names it',
      async () => {
        const all = await listBlocked({ client: temporal, name: namespace });
        return all.find((each) => each.workflowId.endsWith(ref.uid) && each.blockedOn === blockedOn);
      },
      { describe: () => millwright.story() },
    );
    const { runId } = await temporal.workflow.getHandle(workflowId).describe();
    await readWorkflowPage(browser, { workflowId, runId }, { tab: 'user-metadata', texts: shows, picture: cause.name });

    await remedy();
    if (isDeleted) await millwright.untilGone(ref);
    else expect(await millwright.untilPhase(ref, 'Running')).toBeDefined(); // a call that waits for a worker does so for a minute
  });
});
