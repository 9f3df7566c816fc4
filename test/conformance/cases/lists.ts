/** What `listVms` and `validateClass` promise. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { vmOf } from '../../../api/provider-id.ts';
import { check, NotRun } from '../breach.ts';
import type { Case } from '../case.ts';
import { answerOf } from '../world.ts';

export const listCases: readonly Case[] = [
  {
    title: 'list many VMs beside those of another cluster',
    promise: 'listVms returns every VM with the tags of the class once, page by page, and none without them.',
    section: 'listVms, validateClass and the sweep',
    needs: ['cloud'],
    async run({ cloud, list }) {
      if (cloud === undefined) return;
      const [own, others] = [await cloud.makeVms('class', cloud.manyVms), await cloud.makeVms('another', 3)];
      const foreign = new Set([...others, ...(await cloud.makeVms('nobody', 3))].map(vmOf));

      const listed = (await list()).filter(({ kind }) => kind === 'vm').map(({ id }) => vmOf(id));
      check(!listed.some((id) => foreign.has(id)), 'it lists VMs without the tags of the class');
      const missing = own.map(vmOf).filter((id) => !listed.includes(id));
      check(missing.length === 0, `it lists ${own.length - missing.length} of ${own.length} VMs`);
      check(new Set(listed).size === listed.length, 'it lists a VM twice');
    },
  },
  {
    title: 'list by tags of another cluster',
    promise: 'listVms returns nothing for tags of a class that nothing has.',
    section: 'listVms, validateClass and the sweep',
    needs: [],
    async run({ ensure, newMachine, onlyVm, list, scope }) {
      const other = `conformance-${randomUUID()}`;
      const changed = withTagValues(scope.providerSpec, other);
      if (isDeepStrictEqual(changed, scope.providerSpec))
        throw new NotRun('providerSpec has no map under a key "tags", of which the suite could change the values');
      await ensure(newMachine());
      await onlyVm();
      const listed = await list(changed);
      const ids = listed.slice(0, 3).map(({ kind, id }) => `${kind} ${id}`);
      check(
        listed.length === 0,
        `with the value ${other} for all tags of providerSpec it lists ${listed.length} resources, such as ${ids.join(', ')}: ` +
          'the sweep would take them for its own and delete them. List only what has the tags of providerSpec',
      );
    },
  },
  {
    title: 'validate a class',
    promise: 'validateClass finds no problem, returns the same listScope every time, and asks no cloud.',
    section: 'listVms, validateClass and the sweep',
    needs: [],
    async run({ calls, scope, cloud }) {
      const calledBefore = await cloud?.calls();
      const validate = async () =>
        answerOf('validateClass', await (await calls.start('validateClass', scope)).outcome());
      const [first, second] = [await validate(), await validate()];

      check(first.problems.length === 0, `it finds: ${first.problems.join('; ')}`);
      check(first.listScope === second.listScope, `the scope was ${first.listScope} and is ${second.listScope}`);
      check((await cloud?.calls()) === calledBefore, 'it asks the cloud');
    },
  },
];

/** The same with this value for every tag: of each map under a key `tags`, at any depth. */
function withTagValues(providerSpec: object, value: string): object {
  const isMap = (each: unknown): each is object => typeof each === 'object' && each !== null && !Array.isArray(each);
  const replaced = (key: string, each: unknown): unknown =>
    key === 'tags' && isMap(each) ? Object.fromEntries(Object.keys(each).map((name) => [name, value])) : each;
  return JSON.parse(JSON.stringify(providerSpec, replaced)) as object;
}
