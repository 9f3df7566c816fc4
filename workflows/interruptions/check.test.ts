/** The check, with places, providers and Machines that the tests play. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import type { InterruptedMachine } from '../../activities/interruptions.ts';
import type { Place } from '../../api/model/source.ts';
import { providerTaskQueue } from '../../api/names.ts';
import { inPortions } from '../../api/payloads.ts';
import type { Interruption, ListInterruptionsRequest } from '../../api/provider.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { setUpWorkflows } from '../../test/support/workflows.ts';
import type { VirtualHandle } from '../../test/virtual-temporal/server.ts';
import type { InterruptionReport } from './check.ts';

const of = { dialect: 'gardener', namespace: 'n', cluster: 'c' };
const placeOf = (size: string): Place => ({ provider: 'fake', providerSpec: { size }, credentials: [] });
const interruption = (id: string): Interruption => ({ providerID: `fake:///${id}`, reason: 'soon' });

let places: Place[];
let answer: (request: ListInterruptionsRequest) => unknown;
let asked: ListInterruptionsRequest[];
/** What Machines were looked for with. */
let sought: (readonly Interruption[])[];
let found: InterruptedMachine[];

beforeEach(() => {
  [places, asked, sought, found] = [[placeOf('small')], [], [], []];
  answer = () => ({ items: [] });
});

const workflows = setUpWorkflows((taskQueue) => ({
  [taskQueue]: {
    listInterruptible: async (_: unknown, after = '0') => {
      const [page = [], ...more] = inPortions(places.slice(Number(after)));
      return { places: page, ...(more.length > 0 && { next: String(Number(after) + page.length) }) };
    },
    findInterrupted: async (_: unknown, interruptions: readonly Interruption[]) => {
      sought.push(interruptions);
      return found.filter(({ providerID }) => interruptions.some((each) => each.providerID === providerID));
    },
    observeMachine: async () => {
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'away' });
    },
  },
  [providerTaskQueue(taskQueue, 'fake')]: {
    listInterruptions: async (request: ListInterruptionsRequest) => {
      asked.push(request);
      return answer(request);
    },
  },
}));

async function check(): Promise<InterruptionReport> {
  const options = { taskQueue: workflows.taskQueue, workflowId: workflows.newWorkflowId(), args: [of] };
  return workflows.temporal.execute<InterruptionReport>('interruptionCheck', options as never);
}

describe('interruptionCheck', () => {
  it('asks for every page of every place, and looks for nothing where there is nothing', async () => {
    places = [placeOf('small'), placeOf('large')];
    answer = ({ page }) => (page === undefined ? { items: [], nextPage: 'two' } : { items: [] });

    expect(await check()).toEqual({ told: [], failures: [] });
    const questions = asked.map(({ providerSpec, page }) => `${JSON.stringify(providerSpec)} ${page}`);
    expect(questions.toSorted()).toEqual([
      '{"size":"large"} two',
      '{"size":"large"} undefined',
      '{"size":"small"} two',
      '{"size":"small"} undefined',
    ]);
    expect(asked[0]).toMatchObject({ cluster: 'c', credentials: [] });
    expect(sought).toEqual([]);
  });

  it('tells the workflows of the Machines, and goes on where one has none or a place cannot be asked', async () => {
    places = [placeOf('small'), placeOf('refused')];
    answer = ({ providerSpec }) => {
      if (Object(providerSpec).size === 'small') return { items: [interruption('vm-1'), interruption('vm-2')] };
      throw ApplicationFailure.create({ type: 'PermissionDenied', message: 'not you', nonRetryable: true });
    };
    found = [
      { ...interruption('vm-1'), name: 'gone', uid: 'uid-0' },
      { ...interruption('vm-2'), name: 'm', uid: 'uid-1' },
    ];
    const machine = await startMachine('m', 'uid-1');

    expect(await check()).toMatchObject({ told: ['m'], failures: [{ code: 'PermissionDenied' }] });
    expect(sought).toEqual([[interruption('vm-1'), interruption('vm-2')]]);
    await workflows.advanceUntil(async () => (await signalsOf(machine)).length === 1);
    expect(await signalsOf(machine)).toEqual([['interrupted', interruption('vm-2')]]);
    await machine.terminate();
  });

  it('asks in portions that are payloads for 1,000 places, and looks for the Machines of 5,000 VMs', async () => {
    places = Array.from({ length: 1_000 }, (_, i) => placeOf(`${i} ${'x'.repeat(3_000)}`));
    answer = ({ providerSpec }) => {
      const place = Number(String(Object(providerSpec).size).split(' ')[0]);
      if (place >= 100) throw ApplicationFailure.create({ message: 'é'.repeat(1_900), nonRetryable: true });
      return { items: Array.from({ length: 50 }, (_, i) => interruption(`vm-${place}-${i}-${'x'.repeat(200)}`)) };
    };

    const { failures } = await check();

    expect(new Set(asked.map(({ providerSpec }) => Object(providerSpec).size)).size).toBe(1_000);
    expect(sought.map(({ length }) => length)).toEqual([1_000, 1_000, 1_000, 1_000, 1_000]);
    expect(failures.length).toBeGreaterThan(100);
  });

  it('reports an answer that it does not understand', async () => {
    answer = () => ({ items: [{ id: 'vm-1' }] });
    expect(await check()).toMatchObject({ told: [], failures: [{ code: 'Internal' }] });
  });
});

/** The workflow of a Machine, which waits for its API server. */
async function startMachine(name: string, uid: string): Promise<VirtualHandle> {
  const ref = { ...of, name, uid };
  const { temporal, taskQueue } = workflows;
  const options = { taskQueue, workflowId: workflowId(taskQueue, 'Machine', ref), args: [ref] };
  return temporal.start('machine', options);
}

async function signalsOf(machine: VirtualHandle): Promise<[string, unknown][]> {
  const { events } = await machine.fetchHistory();
  return events.flatMap(({ workflowExecutionSignaledEventAttributes: signal }): [string, unknown][] => {
    const [payload] = signal?.input?.payloads ?? [];
    return signal ? [[signal.signalName ?? '', JSON.parse(Buffer.from(payload?.data ?? []).toString())]] : [];
  });
}
