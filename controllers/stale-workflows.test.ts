import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { gardener } from '../api/gardener/index.ts';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import { createStore } from '../kube/store.ts';
import type { Controller } from './controller.ts';
import { createStaleWorkflowFinder } from './stale-workflows.ts';
import type { Watches } from './watches.ts';

/** Phases of the machines whose workflows are open, by their names, as the server shows them. */
let open: Map<string, string>;
/** When their runs started. */
let startTime: Date;
let lists: number;
let isDown: boolean;
let refreshed: string[];
let finder: Controller;
let machines: ReturnType<typeof createStore<Machine>>;

const workflow = {
  async *list() {
    lists++;
    if (isDown) throw new Error('no answer');
    for (const [name, phase] of open) {
      yield { workflowId: idOf(name), typedSearchAttributes: { get: () => phase }, startTime };
    }
  },
};
const idOf = (name: string) => `i/machine/n/${name}/${name}-uid`;

function put(name: string, phase: string): void {
  const metadata = { namespace: 'n', name, uid: `${name}-uid`, resourceVersion: '1' };
  machines.put({ metadata, status: { currentStatus: { phase } } } as Machine);
}

async function resync(times: number): Promise<void> {
  for (let time = 0; time < times; time++) await finder.resync?.('open workflows');
}

beforeEach(async () => {
  [open, lists, refreshed] = [new Map(), 0, []];
  isDown = false;
  startTime = new Date(0);
  machines = createStore<Machine>();
  for (const name of ['a', 'b', 'c']) {
    put(name, 'Running');
    open.set(name, 'Running');
  }
  const [sets, deployments] = [createStore<MachineSet>(), createStore<MachineDeployment>()];
  const watches = { machines: machines.store, sets: sets.store, deployments: deployments.store };
  finder = createStaleWorkflowFinder({
    watches: watches as unknown as Watches,
    dialect: gardener,
    defaults: { creationSeconds: 60, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] },
    installation: { client: { workflow } as unknown as Client, name: 'i' },
    refresh: (id) => refreshed.push(id),
  });
  await finder.handle('open workflows');
});

describe('the finder of stale workflows', () => {
  it('lists the open workflows at the start and at every tenth resync', async () => {
    expect(lists).toBe(1);
    await resync(9);
    expect(lists).toBe(1);
    await resync(11);

    expect([lists, refreshed]).toEqual([3, []]);
  });

  it('refreshes a workflow whose Machine is gone', async () => {
    machines.retain(new Set(['a-uid', 'b-uid']));
    await resync(10);

    expect(refreshed).toEqual([idOf('c')]);
  });

  it('refreshes a workflow that shows another phase than its Machine', async () => {
    open.set('b', 'Pending');
    await resync(10);

    expect(refreshed).toEqual([idOf('b')]);
  });

  it('leaves a run of the last seconds to the next list', async () => {
    startTime = new Date(Date.now() - 1_000);
    open.set('b', 'Pending');
    open.set('new', '');
    await resync(10);
    expect([lists, refreshed]).toEqual([2, []]);

    startTime = new Date(0);
    await resync(10);
    expect(refreshed).toEqual([idOf('b'), idOf('new')]);
  });

  it('leaves no run twice, whatever the difference of its clock to that of Temporal', async () => {
    startTime = new Date(Date.now() + 2 * 3_600_000);
    open.set('b', 'Pending');
    await resync(10);
    expect(refreshed).toEqual([]);

    await resync(10);
    expect(refreshed).toEqual([idOf('b')]);
  });

  it('lists again at once after a list that failed', async () => {
    isDown = true;
    await expect(resync(10)).rejects.toThrow('no answer');
    isDown = false;
    await resync(1);

    expect(lists).toBe(3);
  });

  it('ignores machines at rest whose workflows were terminated', async () => {
    open.delete('a');
    await resync(10);

    expect(refreshed).toEqual([]);
  });
});
