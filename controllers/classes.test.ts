import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { finalizers } from '../api/gardener/names.ts';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineClass } from '../api/gardener/schema/machine-class.ts';
import type { KubeClient } from '../kube/client.ts';
import type { EventRecord } from '../kube/events.ts';
import { createStore } from '../kube/store.ts';
import { type ClassKeeper, createClassKeeper } from './classes.ts';
import { byClass, type Watches } from './watches.ts';

let machines: ReturnType<typeof createStore<Machine>>;
let told: EventRecord[];
let sweeps: number;
let keeper: ClassKeeper;

const metadata = { namespace: 'n', name: 'small', uid: 'class-uid', resourceVersion: '1' };
const deletionTimestamp = '2026-08-19T10:00:00Z';

beforeEach(() => {
  [told, sweeps] = [[], 0];
  machines = createStore<Machine>({ [byClass]: ({ spec }) => [spec?.class?.name ?? ''] });
  const classes = createStore<MachineClass>();
  classes.put({ metadata: { ...metadata, deletionTimestamp, finalizers: [finalizers.machine] } } as MachineClass);
  const none = { list: () => [], byIndex: () => [] };
  const watches = { machines: machines.store, sets: none, deployments: none, classes: classes.store };
  const workflow = { start: async () => sweeps++ };
  keeper = createClassKeeper({
    control: {} as KubeClient,
    events: { record: (event) => told.push(event), flush: async () => undefined },
    watches: watches as unknown as Watches,
    installation: { client: { workflow } as unknown as Client, name: 'i' },
    namespace: 'n',
  });
});

function put(name: string): void {
  const spec = { class: { kind: 'MachineClass', name: 'small' } };
  machines.put({ metadata: { ...metadata, name, uid: name }, spec } as Machine);
}

describe('a deleted class that is in use', () => {
  it('has an Event that names what uses it, and has another half an hour later', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) put(name);
    await keeper.handle();
    machines.retain(new Set(['a']));
    await keeper.handle();

    const about = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineClass', namespace: 'n', name: 'small' };
    expect(told).toEqual([
      expect.objectContaining({
        regarding: { ...about, uid: 'class-uid' },
        reason: 'ClassInUse',
        note: 'deleted, and stays while it is named by Machine a, Machine b, Machine c, Machine d, Machine e and 2 more',
      }),
    ]);

    jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 31 * 60_000);
    try {
      await keeper.handle();
    } finally {
      jest.restoreAllMocks();
    }
    expect(told.slice(1)).toMatchObject([{ note: 'deleted, and stays while it is named by Machine a' }]);
    expect(sweeps).toBe(0);
  });

  it('has no such Event once nothing uses it: a sweep tells what keeps it then', async () => {
    await keeper.handle();

    expect([told, sweeps]).toEqual([[], 1]);
  });
});
