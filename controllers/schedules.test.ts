import { beforeEach, describe, expect, it } from '@jest/globals';
import { type Client, ScheduleNotFoundError } from '@temporalio/client';
import { gardener } from '../api/gardener/index.ts';
import type { KubeObject } from '../api/objects.ts';
import { verdictAnnotations } from '../api/verdict.ts';
import { createStore } from '../kube/store.ts';
import type { Controller } from './controller.ts';
import { createInterruptionScheduleController } from './schedules.ts';
import type { Watches } from './watches.ts';

let classes: ReturnType<typeof createStore<KubeObject>>;
/** What was asked of Temporal. */
let sent: string[];
let exists: boolean;

beforeEach(() => {
  [sent, exists] = [[], false];
  classes = createStore();
});

function newController(interruptionPeriodSeconds = 60): Controller {
  const handle = {
    async describe() {
      sent.push('describe');
      if (!exists) throw new ScheduleNotFoundError('none', 'i/interruptions');
      return { spec: {}, action: {}, policies: {}, info: { recentActions: [] } };
    },
    async update() {
      sent.push('update');
    },
    async delete() {
      sent.push('delete');
      exists = false;
    },
  };
  const schedule = {
    getHandle: () => handle,
    async create() {
      sent.push('create');
      exists = true;
    },
  };
  return createInterruptionScheduleController({
    watches: { sources: classes.store } as unknown as Watches,
    dialect: gardener,
    installation: { client: { schedule } as unknown as Client, name: 'i' },
    namespace: 'n',
    interruptionPeriodSeconds,
  });
}

function putClass(resourceVersion: string, interruptionScope?: string): void {
  const verdict = { version: '1', problems: [], ...(interruptionScope !== undefined && { interruptionScope }) };
  const annotations = { ...verdictAnnotations(verdict) };
  classes.put({ metadata: { namespace: 'n', name: 'a', uid: 'a', resourceVersion, annotations } } as KubeObject);
}

describe('the Schedule of the checks for interruptions', () => {
  it('is asked for once where no class needs it, and resyncs send nothing', async () => {
    putClass('1');
    const controller = newController();
    await controller.handle('interruptions');
    await controller.resync?.('interruptions');
    await controller.resync?.('interruptions');
    expect(sent).toEqual(['describe']);
  });

  it('is created with the first class whose VMs may be taken away, and deleted with the last', async () => {
    const controller = newController();
    await controller.handle('interruptions');
    putClass('1', 'one');
    await controller.handle('interruptions');
    expect(sent).toEqual(['describe', 'describe', 'create']);

    putClass('2');
    await controller.handle('interruptions');
    await controller.resync?.('interruptions');
    expect(sent.slice(3)).toEqual(['describe', 'delete']);
  });

  it('is there no more when the period is 0', async () => {
    exists = true;
    putClass('1', 'one');
    await newController(0).handle('interruptions');
    expect(sent).toEqual(['describe', 'delete']);
  });
});
