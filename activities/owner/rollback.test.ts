/** Rollbacks of deployments, and what is recorded for them. */
import { describe, expect, it } from '@jest/globals';
import { machineDeployments } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import type { KubeClient } from '../../kube/client.ts';
import { StatusError } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import { setUpOwners } from '../../test/support/live-owners.ts';
import { planLateReport } from '../../workflows/rollout/plan.ts';

const { client, events, activities, activitiesOf, newDeployment, sets, own, setPhase, read, planFor, settle } =
  setUpOwners();

const classOf = async (ref: ObjectRef) => (await client.get(machineDeployments, ref)).spec?.template?.spec?.class?.name;

async function reasonOf(ref: ObjectRef): Promise<string | undefined> {
  const { status } = await client.get(machineDeployments, ref);
  return status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
}

function toClass(ref: ObjectRef, name: string) {
  const change = { spec: { template: { spec: { class: { name } } } } };
  return client.patch(machineDeployments, ref, mergePatch(change));
}

/** Lets all machines run, until the rollout is complete. */
async function complete(ref: ObjectRef): Promise<void> {
  for (let round = 0; round < 5; round += 1) {
    await settle(ref);
    for (const machine of await own()) await setPhase(machine, 'Running');
  }
  expect(await reasonOf(ref)).toBe('NewMachineSetAvailable');
}

/** The revisions with which rollouts were complete, by class. */
async function completedOf(): Promise<Record<string, string>> {
  const all = (await sets()).map(({ metadata, spec }) => {
    return [spec?.template?.spec?.class?.name, metadata.annotations?.[names.completed]];
  });
  return Object.fromEntries(all.filter(([, revision]) => revision !== undefined));
}

/** A deployment whose rollout is complete, and that is to be taken back when it is late. */
async function newCompleted(): Promise<ObjectRef> {
  const ref = await newDeployment({ replicas: 1, progressDeadlineSeconds: 60 });
  const wanted = { metadata: { annotations: { [names.rollbackWhenLate]: 'true' } } };
  await client.patch(machineDeployments, ref, mergePatch(wanted));
  await complete(ref);
  return ref;
}

/** A control cluster where writes of the deployment fail, but for those of its status. */
function failing(error: Error): KubeClient {
  return {
    ...client,
    patch: (...request) => {
      const isIt = request[0].plural === machineDeployments.plural && request[3]?.subresource === undefined;
      return isIt ? Promise.reject(error) : client.patch(...request);
    },
  };
}

describe('a rollback that is asked for', () => {
  it('is cleared, and an Event says why, when the API server refuses the earlier template for good', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    await toClass(ref, 'large');
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { rollbackTo: { revision: 1 } } }));
    const denied = new StatusError('PATCH', 422, { reason: 'Invalid', message: 'no small machines any more' });
    const control: KubeClient = {
      ...client,
      patch: (...request) => {
        const isTemplate = JSON.stringify(request[2]).includes('"small"');
        return isTemplate ? Promise.reject(denied) : client.patch(...request);
      },
    };
    await activitiesOf(control).actOnOwner(ref, 'MachineDeployment', await planFor(ref));
    const { spec } = await client.get(machineDeployments, ref);
    expect([spec?.rollbackTo, spec?.template?.spec?.class?.name]).toEqual([undefined, 'large']);
    const refused = events.filter(({ reason }) => reason === 'DeploymentRollbackRefused');
    expect(refused.map(({ note }) => note)).toEqual([expect.stringContaining('no small machines any more')]);
    expect((await planFor(ref)).rollback).toBeUndefined();
  });
});

const lateStep = async (ref: ObjectRef) => planLateReport((await read(ref)).view, 'no progress');

describe('a rollout that is taken back when it is late', () => {
  it('records with which revision it was complete, and not what is only wanted again', async () => {
    const ref = await newCompleted();
    expect(await completedOf()).toEqual({ small: '1' });
    await toClass(ref, 'large');
    await settle(ref);
    await toClass(ref, 'small');
    await complete(ref);
    expect(await completedOf()).toEqual({ small: '3' });
    await toClass(ref, 'large');
    await settle(ref);
    expect(await completedOf()).toEqual({ small: '3' });
  });

  it('is not late before it was taken back: a run that takes over does that', async () => {
    const ref = await newCompleted();
    await toClass(ref, 'large');
    await settle(ref);
    const plan = await lateStep(ref);
    const killed = activitiesOf(failing(new Error('killed'))).actOnOwner(ref, 'MachineDeployment', plan);
    await expect(killed).rejects.toThrow('killed');
    expect([await reasonOf(ref), await classOf(ref)]).not.toContain('ProgressDeadlineExceeded');
    await activities.actOnOwner(ref, 'MachineDeployment', await lateStep(ref));
    expect(await classOf(ref)).toBe('small');
    expect((await client.get(machineDeployments, ref)).metadata.annotations).toHaveProperty([names.rolledBack]);
  });

  it('is taken back once, also when a person removes the annotation that says so and applies the template again', async () => {
    const ref = await newCompleted();
    await toClass(ref, 'large');
    await settle(ref);
    await activities.actOnOwner(ref, 'MachineDeployment', await lateStep(ref));
    await settle(ref);
    const removed = { metadata: { annotations: { [names.rolledBack]: null } } };
    await client.patch(machineDeployments, ref, mergePatch(removed));
    await toClass(ref, 'large');
    await settle(ref);
    await activities.actOnOwner(ref, 'MachineDeployment', await lateStep(ref));
    expect([await reasonOf(ref), await classOf(ref)]).toEqual(['ProgressDeadlineExceeded', 'large']);
  });

  it('is neither late nor taken back when it has changed meanwhile', async () => {
    const ref = await newCompleted();
    await toClass(ref, 'large');
    await settle(ref);
    const plan = await lateStep(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { paused: true } }));
    expect(await activities.actOnOwner(ref, 'MachineDeployment', plan)).toEqual({ isVoid: true });
    expect([await reasonOf(ref), await classOf(ref)]).toEqual(['MachineSetUpdated', 'large']);
  });

  it('stays late, and says why, when the API server refuses the earlier template', async () => {
    const ref = await newCompleted();
    await toClass(ref, 'large');
    await settle(ref);
    const denied = new StatusError('PATCH', 403, { reason: 'Forbidden', message: 'no small machines any more' });
    const { rolledBack } = await activitiesOf(failing(denied)).actOnOwner(
      ref,
      'MachineDeployment',
      await lateStep(ref),
    );
    expect(rolledBack).toMatch(/refuses that: .*no small machines any more/);
    expect([await reasonOf(ref), await classOf(ref)]).toEqual(['ProgressDeadlineExceeded', 'large']);
  });
});
