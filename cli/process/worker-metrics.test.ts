import { expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import { countWork } from './worker-metrics.ts';

it('shows the rates of each credentials as they are at the moment', async () => {
  const registry = new Registry();
  const { onRequestRate: show } = countWork(registry);
  const labels = { provider: 'simulated', endpoint: 'http://cloud', credentials: 'garden/one' };
  let state = { perSecond: 100, waiting: 0, throttled: 0 };
  show(labels, {
    get state() {
      return state;
    },
  });
  show({ ...labels, credentials: 'garden/two' }, { state: { perSecond: 7, waiting: 3, throttled: 2 } });
  const read = async () => (await registry.metrics()).split('\n').filter((line) => line.startsWith('millwright_cloud'));
  await read();

  state = { perSecond: 50, waiting: 12, throttled: 1 };

  const of = (name: string) => `provider="simulated",endpoint="http://cloud",credentials="garden/${name}"`;
  expect(await read()).toEqual([
    `millwright_cloud_requests_per_second_limit{${of('one')}} 50`,
    `millwright_cloud_requests_per_second_limit{${of('two')}} 7`,
    `millwright_cloud_requests_waiting{${of('one')}} 12`,
    `millwright_cloud_requests_waiting{${of('two')}} 3`,
    `millwright_cloud_requests_throttled_total{${of('one')}} 1`,
    `millwright_cloud_requests_throttled_total{${of('two')}} 2`,
  ]);
});
