/** What the optional `updateVm` promises. */
import { isDeepStrictEqual } from 'node:util';
import type { CloudResource, UpdateVmRequest } from '../../../api/provider.ts';
import { check, NotRun } from '../breach.ts';
import type { Case } from '../case.ts';
import { answerOf, type World } from '../world.ts';

/** A tag that no class has. */
const key = 'millwright-conformance';

export const tagCases: readonly Case[] = [
  {
    title: 'change tags',
    promise: 'updateVm sets and removes tags of what belongs to the Machine, leaves all others, and needs no VM.',
    section: 'updateVm',
    needs: [],
    async run(world) {
      const { calls, scope } = world;
      const verdict = answerOf('validateClass', await (await calls.start('validateClass', scope)).outcome());
      const { tags } = verdict;
      if (tags === undefined) throw new NotRun('validateClass answers no tags: the provider changes none');
      const [machine, other] = [world.newMachine(), world.newMachine()];
      const { providerID } = await world.ensure(machine);
      await world.ensure(other);
      const own = new Set([machine.uid, other.uid]);
      const before = await tagsNow(world, own);
      const change = async (request: Pick<UpdateVmRequest, 'tags' | 'removedTags'> & Partial<UpdateVmRequest>) => {
        const call = await calls.start('updateVm', { ...scope, machine, ...request });
        answerOf('updateVm', await call.outcome());
      };
      const expect = (found: Tagged, isAdded: (uid: string | undefined) => boolean) => {
        for (const [name, { uid, tags: had }] of before) {
          const wanted = { uid, tags: { ...had, ...(isAdded(uid) && { [key]: 'a' }) } };
          const has = found.get(name);
          check(isDeepStrictEqual(has, wanted), `${name} has ${JSON.stringify(has)}, not ${JSON.stringify(wanted)}`);
        }
      };

      await change({ providerID, tags: { ...tags, [key]: 'a' }, removedTags: [] });
      expect(await tagsNow(world, own), (uid) => uid === machine.uid);
      await change({ tags, removedTags: [key] });
      expect(await tagsNow(world, own), () => false);
      await change({ machine: world.newMachine(), tags, removedTags: [key] });
    },
  },
];

type Tagged = ReadonlyMap<string, Pick<CloudResource, 'uid' | 'tags'>>;

/** Tags of all that belongs to these Machines, by kind and ID. */
async function tagsNow(world: World, uids: ReadonlySet<string>): Promise<Tagged> {
  const items = (await world.list()).filter(({ uid }) => uid !== undefined && uids.has(uid));
  return new Map(items.map(({ kind, id, uid, tags }) => [`${kind} ${id}`, { uid, tags }]));
}
