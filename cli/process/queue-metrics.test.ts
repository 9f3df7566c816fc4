import { expect, it, jest } from '@jest/globals';
import { Registry } from 'prom-client';
import { createQueue } from '../../controllers/queue.ts';
import { recordingLogger } from '../../test/support/kube.ts';
import { until } from '../../test/support/until.ts';
import { observeQueues, observeWatches } from './queue-metrics.ts';

/** Value of each series of a metric, by its labels. */
async function read(registry: Registry, metric: string): Promise<Record<string, number>> {
  const lines = (await registry.metrics()).matchAll(new RegExp(`^${metric}\\{(.*)\\} (.*)$`, 'gm'));
  return Object.fromEntries([...lines].map(([, labels = '', value]) => [labels, Number(value)]));
}

it('shows what waits, what is handled and since when, under the names of the kinds', async () => {
  const registry = new Registry();
  let release: () => void = () => undefined;
  let attempts = 0;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const queue = createQueue({
    ...{ concurrency: 1, delayMs: 0, logger: recordingLogger() },
    observer: observeQueues(registry)((key) => (key === 'a' ? 'deployments' : 'sets')),
    async handle(key) {
      if (key === 'a') await held;
      else if (++attempts === 1) throw new Error('once');
    },
  });
  const metric = (name: string) => read(registry, `mcm_workqueue_${name}`);
  queue.add('a');
  await until(
    'a is handled',
    async (see) => see(await metric('queue_duration_seconds_count'))['name="machinedeployment"'] === 1,
  );
  for (const key of ['b', 'c', 'b']) queue.add(key);
  await until('b and c wait', async (see) => see(await metric('depth'))['name="machineset"'] === 2);
  await until('the time of a is shown', async (see) => {
    const longest = see(await metric('longest_running_processor_seconds'));
    return (longest['name="machinedeployment"'] ?? 0) >= 0.02;
  });

  expect((await metric('unfinished_work_seconds'))['name="machineset"']).toBe(0);
  expect(await metric('depth')).toEqual({ 'name="machinedeployment"': 0, 'name="machineset"': 2 });

  release();
  await until('b was handled again', () => attempts === 3);
  await queue.stop();
  expect(await metric('depth')).toEqual({ 'name="machinedeployment"': 0, 'name="machineset"': 0 });
  expect((await metric('unfinished_work_seconds'))['name="machinedeployment"']).toBe(0);
  expect(await metric('adds_total')).toEqual({ 'name="machinedeployment"': 1, 'name="machineset"': 3 });
  expect(await metric('retries_total')).toEqual({ 'name="machineset"': 1 });
  expect((await metric('work_duration_seconds_count'))['name="machineset"']).toBe(3);
});

it('shows lists and watches, and how long ago the server was heard', async () => {
  const registry = new Registry();
  const now = jest.spyOn(performance, 'now').mockReturnValue(1_000);
  const age = async () => (await read(registry, 'millwright_watch_age_seconds'))['watch="sources"'];
  const watch = observeWatches(registry)('sources');
  now.mockReturnValue(61_000);
  expect(await age()).toBe(60);

  watch.onHeard();
  now.mockReturnValue(61_500);
  expect(await age()).toBe(0.5);
  now.mockRestore();
  watch.onKnown('41');
  watch.onListed({ seconds: 0.5, items: 7 });
  watch.onWatchEnded({ seconds: 0.9, items: 0 });
  watch.onWatchEnded({ seconds: 0.9, items: 1 });

  const of = async (name: string) => (await read(registry, `mcm_reflector_${name}`))['name="machineclass"'];
  expect([await of('last_resource_version'), await of('lists_total'), await of('items_per_list_sum')]).toEqual([
    41, 1, 7,
  ]);
  expect([await of('watches_total'), await of('short_watches_total')]).toEqual([2, 1]);
  expect([await of('watch_duration_seconds_sum'), await of('items_per_watch_count')]).toEqual([1.8, 2]);
});
