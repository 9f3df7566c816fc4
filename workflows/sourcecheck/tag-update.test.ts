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
const machineOf = (name: string) => ({ uid: `uid-of-${name}`, name, providerID: `fake:///${name}` });

let names: string[];
let tags: TagUpdate['tags'];
let refused: string[];
let asked: UpdateVmRequest[];
let written: TagUpdate['tags'][];
let reported: [number, string][];
let onAsked: (request: UpdateVmRequest) => void;

beforeEach(() => {
  [names, tags, refused, asked, written, reported] = [['a', 'b', 'c'], { team: 'b' }, [], [], [], []];
  onAsked = () => undefined;
});

const workers = setUpWorkers((taskQueue) => ({
  [taskQueue]: {
    readTagUpdate: async (_: ObjectRef, after: string): Promise<TagUpdate | null> => {
      const rest = names.filter((name) => name > after);
      const machines = rest.slice(0, 2).map(machineOf);
      return { place: { provider: 'fake', ...scope }, tags, removedTags: ['old'], machines, hasMore: rest.length > 2 };
    },
    writeVmTags: async (_: ObjectRef, given: TagUpdate['tags']) => {
      if (JSON.stringify(given) !== JSON.stringify(tags)) return false;
      written.push(given);
      return true;
    },
    reportTagFailures: async (_: ObjectRef, count: number, message: string) => void reported.push([count, message]),
  },
  [providerTaskQueue(taskQueue, 'fake')]: {
    updateVm: async (request: UpdateVmRequest) => {
      onAsked(request);
      asked.push(request);
      if (refused.includes(request.machine.name))
        throw ApplicationFailure.create({ type: 'PermissionDenied', message: 'no' });
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
  it('asks for every Machine, some in each run, and notes the tags at the end', async () => {
    expect(await update()).toEqual({ failed: 0 });

    expect(asked).toContainEqual({
      ...scope,
      machine: { uid: 'uid-of-a', namespace: 'n', name: 'a' },
      providerID: 'fake:///a',
      tags: { team: 'b' },
      removedTags: ['old'],
    });
    expect(askedFor().toSorted()).toEqual(['a b', 'b b', 'c b']);
    expect(written).toEqual([{ team: 'b' }]);
  });

  it('goes on after a refusal, reports how many there were, and notes nothing', async () => {
    refused = ['a', 'c'];

    expect(await update()).toEqual({ failed: 2, message: 'a: no' });
    expect(new Set(askedFor())).toEqual(new Set(['a b', 'b b', 'c b']));
    expect(reported).toEqual([[2, 'a: no']]);
    expect(written).toEqual([]);
  });

  it.each(['a', 'c'])('starts over when the tags are edited while %s is asked for', async (name) => {
    onAsked = ({ machine }) => {
      if (machine.name === name) tags = { team: 'c' };
    };
    await update();

    expect(askedFor().slice(-3).toSorted()).toEqual(['a c', 'b c', 'c c']);
    expect(written).toEqual([{ team: 'c' }]);
  });
});
