/** The update on a real Temporal server, with a source and a provider that the tests play. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import type { TagUpdate } from '../../activities/vm-tags.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { providerTaskQueue } from '../../api/names.ts';
import type { UpdateVmRequest } from '../../api/provider.ts';
import { setUpWorkers } from '../../test/support/shared-workers.ts';
import type { TagUpdateResult } from './tag-update.ts';

const ref: ObjectRef = { dialect: 'gardener', namespace: 'n', name: 'small', uid: 'uid-of-small' };
const scope = { providerSpec: { size: 'huge' }, credentials: [{ namespace: 'n', name: 'pool' }] };
const elsewhere = { providerSpec: { size: 'tiny' }, credentials: [] };

/** Tags that the Machines say their VMs have, by name; undefined: nothing. */
let noted: Record<string, string | undefined>;
let team: string;
let refused: string[];
let asked: UpdateVmRequest[];
let uncertain: string[];
let reported: [number, string][];
let onAsked: (request: UpdateVmRequest) => void;

beforeEach(() => {
  [noted, team] = [{ a: 'a', b: 'a', c: 'a' }, 'b'];
  [refused, asked, uncertain, reported] = [[], [], [], []];
  onAsked = () => undefined;
});

const workers = setUpWorkers((taskQueue) => ({
  [taskQueue]: {
    readTagUpdate: async (_: ObjectRef, after: string): Promise<TagUpdate | null> => {
      const due = Object.keys(noted).filter((name) => name > after && noted[name] !== team);
      const machines = due.slice(0, 2).map((name) => ({
        ...{ uid: `uid-of-${name}`, name, providerID: `fake:///${name}`, place: name === 'c' ? 1 : 0 },
        ...(noted[name] !== undefined && { removedTags: ['old'] }),
      }));
      const places = [scope, elsewhere].map((place) => ({ provider: 'fake', ...place }));
      return machines.length === 0 ? null : { tags: { team }, places, machines };
    },
    noteVmTags: async ({ name }: ObjectRef, given: TagUpdate['tags'], isCertain: boolean) => {
      if (isCertain) noted[name] = given['team'];
      else uncertain.push(name);
    },
    reportTagFailures: async (_: ObjectRef, count: number, message: string) => void reported.push([count, message]),
  },
  [providerTaskQueue(taskQueue, 'fake')]: {
    updateVm: async (request: UpdateVmRequest) => {
      onAsked(request);
      asked.push(request);
      if (refused.includes(request.machine.name))
        throw ApplicationFailure.create({ type: 'PermissionDenied', message: 'no', nonRetryable: true });
    },
  },
}));

async function update(): Promise<TagUpdateResult> {
  const { taskQueue, client } = workers;
  const workflowId = workers.newWorkflowId();
  return client.workflow.execute<(ref: ObjectRef) => Promise<TagUpdateResult>>('tagUpdate', {
    ...{ taskQueue, workflowId, args: [ref] },
  });
}

const askedFor = () => asked.map(({ machine: { name }, tags: given }) => `${name} ${given['team']}`);

describe('tagUpdate', () => {
  it('asks for every Machine in its place, some in each run, and notes the tags on it', async () => {
    expect(await update()).toEqual({ failed: 0 });

    expect(asked).toContainEqual({
      ...scope,
      machine: { uid: 'uid-of-a', namespace: 'n', name: 'a' },
      providerID: 'fake:///a',
      tags: { team: 'b' },
      removedTags: ['old'],
    });
    expect(askedFor().toSorted()).toEqual(['a b', 'b b', 'c b']);
    expect(asked.find(({ machine }) => machine.name === 'c')).toMatchObject(elsewhere);
    expect(noted).toEqual({ a: 'b', b: 'b', c: 'b' });
    expect([uncertain, reported]).toEqual([[], []]);
  });

  it('asks for no Machine that says nothing of its tags, and notes them', async () => {
    noted = { a: undefined };

    expect(await update()).toEqual({ failed: 0 });
    expect([noted, asked]).toEqual([{ a: 'b' }, []]);
  });

  it('goes on after a refusal, notes that those VMs may have the tags, and reports how many there were', async () => {
    refused = ['a', 'c'];

    expect(await update()).toEqual({ failed: 2, message: 'a: no' });
    expect(askedFor().toSorted()).toEqual(['a b', 'b b', 'c b']);
    expect([noted, uncertain.toSorted()]).toEqual([{ a: 'a', b: 'b', c: 'a' }, ['a', 'c']]);
    expect(reported).toEqual([[2, 'a: no']]);
  });

  it('leaves the others to the next update after 20 failures', async () => {
    noted = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`m${i + 10}`, 'a']));
    refused = Object.keys(noted);

    expect(await update()).toMatchObject({ failed: 20 });
    expect(asked).toHaveLength(20);
  });

  it.each(['a', 'c'])('gives tags that are edited while %s is asked for to all VMs', async (name) => {
    onAsked = ({ machine }) => {
      if (machine.name === name) team = 'c';
    };
    expect(await update()).toEqual({ failed: 0 });

    expect(noted).toEqual({ a: 'c', b: 'c', c: 'c' });
  });
});
