import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import { createStore } from '../kube/store.ts';
import { createStraySearch } from './strays.ts';
import type { Watches } from './watches.ts';

/** Phases of the machines whose workflows are open, by their names, as the server shows them. */
let open: Map<string, string>;
/** When their runs began. */
let startTime: Date;
let lists: number;
let looks: string[];
let search: () => Promise<void>;
let machines: ReturnType<typeof createStore<Machine>>;

const workflow = {
  count: async () => ({ count: open.size }),
  async *list() {
    lists++;
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

/** As many as until every open workflow has been compared, without counting that helps. */
async function searchOften(): Promise<void> {
  for (let times = 0; times < 30; times++) await search();
}

beforeEach(async () => {
  [open, lists, looks] = [new Map(), 0, []];
  startTime = new Date(0);
  machines = createStore<Machine>();
  for (const name of ['a', 'b', 'c']) {
    put(name, 'Running');
    open.set(name, 'Running');
  }
  const [sets, deployments] = [createStore<MachineSet>(), createStore<MachineDeployment>()];
  const watches = { machines: machines.store, sets: sets.store, deployments: deployments.store };
  search = createStraySearch({
    watches: watches as unknown as Watches,
    installation: { client: { workflow } as unknown as Client, name: 'i' },
    look: (id) => looks.push(id),
  });
  await search();
});

describe('the search for workflows that nobody tells of', () => {
  it('lists them once, and then seldom while nothing is open for nothing', async () => {
    expect(lists).toBe(1);
    await searchOften();
    await searchOften();

    expect([lists, looks]).toEqual([3, []]);
  });

  it('has one look at once whose Machine is gone', async () => {
    machines.retain(new Set(['a-uid', 'b-uid']));
    await search();

    expect(looks).toEqual([idOf('c')]);
  });

  it('finds it although another was terminated in the same minute', async () => {
    open.delete('a');
    machines.retain(new Set(['a-uid', 'b-uid']));
    await searchOften();

    expect(looks).toEqual([idOf('c')]);
  });

  it('has one look that thinks its machine is in another phase', async () => {
    open.set('b', 'Pending');
    await searchOften();

    expect(looks).toEqual([idOf('b')]);
  });

  it('leaves one alone that began after the search before, whose phase changes, until the next', async () => {
    startTime = new Date(Date.now() + 1_000);
    open.set('b', 'Pending');
    open.set('new', '');
    await search();
    expect([lists, looks]).toEqual([2, []]);

    startTime = new Date(0);
    await search();
    expect(looks).toEqual([idOf('b'), idOf('new')]);
  });

  it('takes no offence at machines at rest whose workflows stay terminated', async () => {
    open.delete('a');
    await search();
    await search();

    expect([lists, looks]).toEqual([2, []]);
  });
});
