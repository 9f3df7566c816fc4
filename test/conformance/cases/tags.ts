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
    promise:
      'updateVm sets, changes and removes tags of what belongs to the Machine, leaves all others, and needs no VM.',
    section: 'updateVm',
    needs: [],
    async run(world) {
      const { calls, scope } = world;
      const verdict = answerOf('validateClass', await (await calls.start('validateClass', scope)).outcome());
      const { tags } = verdict;
      if (tags === undefined) throw new NotRun('validateClass answers no tags: the provider changes none');
      const [machine, other] = [world.newMachine(), world.newMachine()];
      const { providerID, tags: given = tags } = await world.ensure(machine);
      check(isDeepStrictEqual(given, tags), `ensureVm answers the tags ${JSON.stringify(given)}`);
      await world.ensure(other);
      await world.existing(); // without the cloud under control: once everything has to be listed
      const own = new Set([machine.uid, other.uid]);
      const before = await tagsNow(world, own);
      const vms = [...before.keys()].filter((name) => name.startsWith('vm ')).length;
      check(vms === 2, `listVms has ${vms} of 2 VMs`);
      const change = async (request: Pick<UpdateVmRequest, 'tags' | 'removedTags'> & Partial<UpdateVmRequest>) => {
        const call = await calls.start('updateVm', { ...scope, machine, ...request });
        answerOf('updateVm', await call.outcome());
      };
      const expect = (found: Tagged, value?: string) => {
        for (const [name, { uid, tags: had }] of before) {
          const isChanged = value !== undefined && uid === machine.uid;
          const wanted = { uid, tags: { ...had, ...(isChanged && { [key]: value }) } };
          const has = found.get(name);
          check(isDeepStrictEqual(has, wanted), `${name} has ${JSON.stringify(has)}, not ${JSON.stringify(wanted)}`);
        }
      };

      for (const value of ['a', 'b']) {
        await change({ providerID, tags: { ...tags, [key]: value }, removedTags: [] });
        expect(await tagsNow(world, own), value);
      }
      await change({ tags, removedTags: [key] });
      expect(await tagsNow(world, own));
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
