/** The update, with a source and a provider that the tests play. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import type { TagUpdate } from '../../activities/vm-tags.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { providerTaskQueue } from '../../api/names.ts';
import type { UpdateVmRequest } from '../../api/provider.ts';
import { setUpWorkflows } from '../../test/support/workflows.ts';
import type { TagUpdateResult } from './tag-update.ts';

const ref: ObjectRef = { dialect: 'gardener', namespace: 'n', name: 'small', uid: 'uid-of-small' };
const scope = { providerSpec: { size: 'huge' }, credentials: [{ namespace: 'n', name: 'pool' }] };
const elsewhere = { providerSpec: { size: 'tiny' }, credentials: [] };

/** What the Machines say of the tag `team` of their VMs, by name; null: uncertain, undefined: nothing. */
let noted: Record<string, string | null | undefined>;
let team: string;
let refused: string[];
/** Machines on which nothing can be noted for certain. */
let unwritable: string[];
let asked: UpdateVmRequest[];
let notes: string[];
let reported: [number, string][];
let onAsked: (request: UpdateVmRequest) => void;
/** Called when it is certain what the VM of a Machine has. */
let onNoted: (name: string) => void;

beforeEach(() => {
  [noted, team] = [{ a: 'a', b: 'a', c: 'a' }, 'b'];
  [refused, unwritable, asked, notes, reported] = [[], [], [], [], []];
  onAsked = () => undefined;
  onNoted = () => undefined;
});

const workflows = setUpWorkflows((taskQueue) => ({
  [taskQueue]: {
    readTagUpdate: async (_: ObjectRef, after: string): Promise<TagUpdate | null> => {
      const due = Object.keys(noted).filter((name) => name > after && noted[name] !== team);
      const machines = due.slice(0, 50).map((name) => ({
        ...{ uid: `uid-of-${name}`, name, providerID: `fake:///${name}` },
        ...(name === 'lost' ? { place: -1, problem: 'nobody knows its place' } : { place: name === 'c' ? 1 : 0 }),
        ...(noted[name] !== undefined && { noted: String(noted[name]), removedTags: ['old'] }),
      }));
      const places = [scope, elsewhere].map((place) => ({ provider: 'fake', ...place }));
      const last = machines.at(-1)?.name;
      return last === undefined ? null : { tags: { team }, places, machines, last };
    },
    noteVmTags: async (
      { name }: ObjectRef,
      seen: { noted?: string },
      given: TagUpdate['tags'],
      isCertain: boolean,
    ): Promise<string | null> => {
      if (unwritable.includes(name)) throw ApplicationFailure.nonRetryable('it is held', 'Internal');
      const now = noted[name] === undefined ? undefined : String(noted[name]);
      if (seen.noted !== now) return null;
      notes.push(`${name} ${isCertain ? given['team'] : '?'}`);
      const note = (noted[name] = isCertain ? given['team'] : null);
      if (isCertain) onNoted(name);
      return String(note);
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
  const { taskQueue, temporal } = workflows;
  const workflowId = workflows.newWorkflowId();
  return temporal.execute<TagUpdateResult>('tagUpdate', {
    ...{ taskQueue, workflowId, args: [ref] },
  });
}

const askedFor = () => asked.map(({ machine: { name }, tags: given }) => `${name} ${given['team']}`);

describe('tagUpdate', () => {
  it('asks for every Machine in its place, and says on it before and afterwards what is known', async () => {
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
    expect(notes.filter((note) => note.startsWith('a '))).toEqual(['a ?', 'a b']);
    expect(reported).toEqual([]);
  });

  it('asks for no Machine that says nothing of its tags, and notes them', async () => {
    noted = { a: undefined };

    expect(await update()).toEqual({ failed: 0 });
    expect([noted, asked]).toEqual([{ a: 'b' }, []]);
  });

  it('goes on after a refusal, leaves those VMs uncertain, and reports how many there were', async () => {
    refused = ['a', 'c'];

    expect(await update()).toMatchObject({ failed: 2 });
    expect(askedFor().toSorted()).toEqual(['a b', 'b b', 'c b']);
    expect(noted).toEqual({ a: null, b: 'b', c: null });
    expect(reported).toEqual([[2, expect.stringMatching(/^[ac]: no$/)]]);
  });

  it('goes on where nothing can be noted, or nobody knows the place, and reports that', async () => {
    noted = { a: 'a', b: 'a', lost: undefined };
    unwritable = ['a'];

    expect(await update()).toMatchObject({ failed: 2 });
    expect([noted, askedFor()]).toEqual([{ a: 'a', b: 'b', lost: undefined }, ['b b']]);
    expect(reported).toEqual([[2, expect.stringMatching(/^(a: it is held|lost: nobody knows its place)$/)]]);
  });

  it('asks no more in a place after 20 failures, and goes on in others', async () => {
    noted = Object.fromEntries([...Array.from({ length: 60 }, (_, i) => [`b${i + 10}`, 'a']), ['c', 'a']]);
    refused = Object.keys(noted).filter((name) => name !== 'c' && name < 'b60');

    await update();
    const names = asked.map(({ machine }) => machine.name);
    expect(names.filter((name) => name < 'b60').length).toBeLessThan(50); // 20, and those under way at the same time
    expect(names).toEqual(expect.arrayContaining(['b60', 'b69', 'c'])); // they are in another run
    expect(noted['c']).toBe('b');
  });

  it.each(['a', 'c'])('gives tags that are edited while %s is asked for to all VMs', async (name) => {
    onAsked = ({ machine }) => {
      if (machine.name === name) team = 'c';
    };
    expect(await update()).toEqual({ failed: 0 });

    expect(noted).toEqual({ a: 'c', b: 'c', c: 'c' });
  });

  it('ends where others undo what it notes', async () => {
    onNoted = (name) => (noted[name] = 'theirs');

    expect(await update()).toEqual({ failed: 0 });
    expect(askedFor().toSorted()).toEqual(['a b', 'b b', 'c b']);
    expect(noted).toEqual({ a: 'theirs', b: 'theirs', c: 'theirs' });
  });
});
