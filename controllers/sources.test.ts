import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { gardener } from '../api/gardener/index.ts';
import { finalizers } from '../api/gardener/names.ts';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineClass } from '../api/gardener/schema/machine-class.ts';
import type { KubeClient } from '../kube/client.ts';
import type { EventRecord } from '../kube/events.ts';
import { createStore } from '../kube/store.ts';
import type { Controller } from './controller.ts';
import { createSourceController } from './sources.ts';
import { indexesOf, type Watches } from './watches.ts';

let machines: ReturnType<typeof createStore<Machine>>;
let recorded: EventRecord[];
let sweeps: number;
let controller: Controller;

const metadata = { namespace: 'n', name: 'small', uid: 'class-uid', resourceVersion: '1' };
const defaults = { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };
const deletionTimestamp = '2026-08-19T10:00:00Z';

beforeEach(() => {
  jest.useFakeTimers();
  [recorded, sweeps] = [[], 0];
  machines = createStore<Machine>(indexesOf(gardener, defaults).machines);
  const classes = createStore<MachineClass>();
  classes.put({ metadata: { ...metadata, deletionTimestamp, finalizers: [finalizers.machine] } } as MachineClass);
  const none = { byIndex: () => [], has: () => false };
  const watches = { machines: machines.store, sets: none, deployments: none, sources: classes.store };
  const workflow = { start: async () => sweeps++ };
  controller = createSourceController({
    control: {} as KubeClient,
    events: { record: (event) => recorded.push(event), flush: async () => undefined },
    watches: watches as unknown as Watches,
    dialect: gardener,
    installation: { client: { workflow } as unknown as Client, name: 'i' },
    namespace: 'n',
  });
});

afterEach(() => void jest.useRealTimers());

function put(name: string): void {
  const spec = { class: { kind: 'MachineClass', name: 'small' } };
  machines.put({ metadata: { ...metadata, name, uid: name }, spec } as Machine);
}

describe('a deleted class that is in use', () => {
  it('gets an Event that names its users, and another one half an hour later', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) put(name);
    await controller.handle('small');
    machines.retain(new Set(['a']));
    await controller.handle('small');

    const about = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineClass', namespace: 'n', name: 'small' };
    expect(recorded).toEqual([
      expect.objectContaining({
        regarding: { ...about, uid: 'class-uid' },
        reason: 'SourceInUse',
        note: 'cannot be deleted yet: it is used by Machine a, Machine b, Machine c, Machine d, Machine e and 2 more',
      }),
    ]);

    jest.advanceTimersByTime(31 * 60_000);
    await controller.handle('small');
    expect(recorded.slice(1)).toMatchObject([{ note: 'cannot be deleted yet: it is used by Machine a' }]);
    expect(sweeps).toBe(0);
  });

  it('gets a sweep instead of the Event once nothing uses it', async () => {
    await controller.handle('small');

    expect([recorded, sweeps]).toEqual([[], 1]);
  });

  it.each([-3_600_000, 3_600_000])('gets both after the same pauses where the clock steps by %d ms', async (ms) => {
    await controller.handle('small');
    put('a');
    await controller.handle('small');
    jest.setSystemTime(Date.now() + ms);
    await controller.handle('small');
    machines.retain(new Set());
    await controller.handle('small');
    expect([recorded.length, sweeps]).toEqual([1, 1]);

    jest.advanceTimersByTime(30 * 60_000);
    await controller.handle('small');
    put('a');
    await controller.handle('small');
    expect([recorded.length, sweeps]).toEqual([2, 2]);
  });
});
