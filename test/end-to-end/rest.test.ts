import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { refOf } from '../../controllers/objects.ts';
import { workflowId } from '../../temporal/workflows.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

const count = 5;
/** Of this many resyncs, one a second. */
const windowMs = 10_000;

describe('machines at rest', () => {
  let millwright: WatchedInstallation;

  beforeAll(async () => {
    millwright = await startWatchedInstallation();
    await millwright.createDeployment('pool', count);
    await millwright.untilMachines(count, 'Running');
    await until('nothing happens any more', async () => {
      const before = await footprint();
      await sleep(2_000);
      return same(before, await footprint()) ? true : undefined;
    });
  }, 120_000);
  afterAll(async () => {
    await millwright?.stop();
  });

  const writes = () =>
    millwright.proxy.seen
      .filter(({ method }) => method !== 'GET')
      .map(({ method, url }) => `${method} ${url.pathname}`);

  /** Runs of all workflows of the installation with the number of their events. */
  async function histories(): Promise<Record<string, number>> {
    const { temporal, namespace } = millwright;
    const ids = (await millwright.machines()).map((machine) => workflowId(namespace, 'Machine', refOf(machine)));
    for await (const { workflowId: id } of temporal.workflow.list({
      query: `MillwrightInstallation = '${namespace}'`,
    })) {
      ids.push(id);
    }
    const found = [...new Set(ids)].map(async (id) => {
      const { runId, historyLength } = await temporal.workflow.getHandle(id).describe();
      return [`${id} ${runId}`, historyLength] as const;
    });
    return Object.fromEntries((await Promise.all(found)).toSorted());
  }

  async function footprint() {
    return { writes: writes(), histories: await histories() };
  }
  const same = (a: object, b: object) => JSON.stringify(a) === JSON.stringify(b);

  it('[invariant 9] cost no write to the API and no event of Temporal', async () => {
    const before = await footprint();

    await sleep(windowMs);

    expect(await footprint()).toEqual(before);
    expect(Object.keys(before.histories)).toHaveLength(count + 1);
  }, 60_000);

  it('[invariant 11] are told nothing when the controllers start again', async () => {
    const before = await footprint();
    await millwright.stopControllers();
    const requests = millwright.proxy.seen.length;

    millwright.startControllers();
    const watches = () => millwright.proxy.seen.slice(requests).filter(({ isWatch }) => isWatch);
    await until('everything is watched again', async () => (watches().length >= 6 ? true : undefined));
    await sleep(windowMs / 2);

    expect(await footprint()).toEqual(before);
  }, 60_000);

  it('[invariant 11] are told nothing when the workers start again', async () => {
    const before = await footprint();
    await millwright.stopWorkers();

    await millwright.startWorkers();
    await sleep(windowMs / 2);

    expect(await footprint()).toEqual(before);
  }, 60_000);
});
