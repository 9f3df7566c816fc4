import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { machines } from '../../../api/gardener/resources.ts';
import type { OwnerView } from '../../../api/model/owner.ts';
import { deletedByOthers } from '../../../api/owner/deletion-cause.ts';
import { events } from '../../../kube/core.ts';
import { mergePatch } from '../../../kube/patch.ts';
import { newNamespace, testClient } from '../../../test/support/kube.ts';
import type { OwnerState } from '../../owner-state.ts';
import { type DescribeSource, describeObject, whyNoneOfOwner } from './object.ts';
import { ownerRows } from './rows.ts';

const control = testClient();
let namespace: string;
beforeAll(async () => {
  namespace = await newNamespace(control);
});
afterAll(() => control.close());

it('says of a deployment that waits for its machines alone that it waits, and not that there is nothing to do', () => {
  const blockedBy = { count: 1, machines: [{ name: 'pool-a', reason: 'Pending' }], blockedOn: 'NodeJoin' } as const;
  const atRest = { view: { sets: [] } as unknown as OwnerView, needs: [], waitsFor: undefined, blockedBy: undefined };
  const waiting = { ...atRest, waitsFor: '1 machine is not running', blockedBy };
  const owner = {
    metadata: { name: 'pool', uid: 'p', resourceVersion: '1', creationTimestamp: '2026-11-23T10:00:00Z' },
  };
  const toDo = (state: OwnerState) => ownerRows(owner, state).find(([title]) => title === 'To do')?.[1];

  expect([whyNoneOfOwner(atRest), toDo(atRest)]).toEqual(['there is nothing to do', 'nothing']);
  expect(whyNoneOfOwner(waiting)).toMatch(/^it waits for its machines, /);
  expect(toDo(waiting)).toBeUndefined();
});

/** The row `Deleted` of a Machine. @param causeOf what the histories say */
async function deletedRow(name: string, causeOf: NonNullable<DescribeSource['causeOf']> = async () => undefined) {
  const ask = async () => ({ state: 'unreachable', reason: 'nobody asks' }) as const;
  const source = { control, installation: namespace, ask, causeOf, rawFlags: {} };
  const described = await describeObject('Machine', { namespace, name }, source);
  return described?.rows.find(([title]) => title === 'Deleted')?.[1];
}

it('says when a Machine was deleted, and why by an Event, or else by the histories', async () => {
  const metadata = { namespace, name: 'deleted', finalizers: ['example.com/hold'] };
  const spec = { class: { kind: 'MachineClass', name: 'small' } };
  const { metadata: made } = await control.create(machines, { metadata, spec });
  expect(await deletedRow('deleted')).toBeUndefined();

  await control.delete(machines, { namespace, name: 'deleted' });
  expect(await deletedRow('deleted')).toMatch(/ ago \(.*Z\)$/);
  const workflow = `${namespace}/machine/${namespace}/deleted/${made.uid}`;
  const byOthers = async (id: string) => `${deletedByOthers}, by ${id}`;
  expect(await deletedRow('deleted', byOthers)).toMatch(
    new RegExp(` ago \\(.*Z\\): ${deletedByOthers}, by ${workflow}$`),
  );

  await control.create(events, {
    metadata: { namespace, name: 'why' },
    ...{ reason: 'DeletedByOwner', note: 'scale-down of MachineDeployment pool', type: 'Normal', action: 'Delete' },
    ...{
      reportingController: 'example.com/test',
      reportingInstance: 'test',
      eventTime: new Date().toISOString().replace('Z', '000Z'),
    },
    regarding: {
      apiVersion: 'machine.sapcloud.io/v1alpha1',
      kind: 'Machine',
      namespace,
      name: 'deleted',
      uid: made.uid,
    },
  });
  expect(await deletedRow('deleted', byOthers)).toMatch(/ ago \(.*Z\): scale-down of MachineDeployment pool$/);

  await control.patch(machines, { namespace, name: 'deleted' }, mergePatch({ metadata: { finalizers: null } }));
});
