import { expect, it } from '@jest/globals';
import { Registry } from 'prom-client';
import type { Dialect } from '../../api/dialect.ts';
import type { MachineChange, WatchedObjects } from '../../api/metrics.ts';
import { countChanges } from './controller-metrics.ts';

const labelNames = ['pool'];
const dialect = {
  metrics: {
    ofObjects: [],
    ofMachines: (['gauge', 'counter', 'histogram'] as const).map((type) => ({
      ...{ name: `last_${type}`, help: 'Test.', type, labelNames },
      sampleOf: ({ object }: MachineChange) => ({ labels: { pool: object.metadata.name }, value: 2 }),
    })),
    toLive: ({ machines }: WatchedObjects) => {
      return ({ pool }: Readonly<Record<string, string>>) => machines.some(({ metadata }) => metadata.name === pool);
    },
  },
} as unknown as Dialect;
const machine = (name: string) => ({
  metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '2030-01-01T00:00:00Z' },
});

it('ends the series of what is gone, but not while that is unknown, and counts anew when it is back', async () => {
  const registry = new Registry();
  let objects: WatchedObjects | undefined;
  const note = countChanges(registry, dialect, () => objects);
  const change = (name: string) => note({ previous: machine(name), object: machine(name), isGone: false, nowMs: 0 });
  const read = async () =>
    (await registry.metrics()).split('\n').filter((line) => /^last_(gauge|counter|histogram_sum)/.test(line));
  change('a');
  change('b');
  change('b');

  const all = [
    'last_gauge{pool="a"} 2',
    'last_gauge{pool="b"} 2',
    'last_counter{pool="a"} 2',
    'last_counter{pool="b"} 4',
    'last_histogram_sum{pool="a"} 2',
    'last_histogram_sum{pool="b"} 4',
  ];
  expect(await read()).toEqual(all);
  objects = { machines: [machine('a')], sets: [], deployments: [], isFrozen: false };
  const left = ['last_gauge{pool="a"} 2', 'last_counter{pool="a"} 2', 'last_histogram_sum{pool="a"} 2'];
  expect(await read()).toEqual(left);

  objects = { ...objects, machines: [machine('a'), machine('b')] };
  change('b');
  expect(await read()).toContain('last_counter{pool="b"} 2');
});
