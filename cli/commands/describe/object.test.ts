import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { machines } from '../../../api/gardener/resources.ts';
import { events } from '../../../kube/core.ts';
import { mergePatch } from '../../../kube/patch.ts';
import { newNamespace, testClient } from '../../../test/support/kube.ts';
import { describeObject } from './object.ts';

const control = testClient();
let namespace: string;
beforeAll(async () => {
  namespace = await newNamespace(control);
});
afterAll(() => control.close());

/** The row `Deleted` of a Machine. */
async function deletedRow(name: string): Promise<string | undefined> {
  const ask = async () => ({ state: 'unreachable', reason: 'nobody asks' }) as const;
  const source = { control, installation: namespace, ask, rawFlags: {} };
  const described = await describeObject('Machine', { namespace, name }, source);
  return described?.rows.find(([title]) => title === 'Deleted')?.[1];
}

it('says when a Machine was deleted, and why as far as an Event says so', async () => {
  const metadata = { namespace, name: 'deleted', finalizers: ['example.com/hold'] };
  const spec = { class: { kind: 'MachineClass', name: 'small' } };
  const { metadata: made } = await control.create(machines, { metadata, spec });
  expect(await deletedRow('deleted')).toBeUndefined();

  await control.delete(machines, { namespace, name: 'deleted' });
  expect(await deletedRow('deleted')).toMatch(/ ago \(.*Z\)$/);

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
  expect(await deletedRow('deleted')).toMatch(/ ago \(.*Z\): scale-down of MachineDeployment pool$/);

  await control.patch(machines, { namespace, name: 'deleted' }, mergePatch({ metadata: { finalizers: null } }));
});
