import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { deploymentNeeds } from '../api/attention.ts';
import type { Machine } from '../api/gardener/machine.ts';
import type { MachineDeployment, MachineDeploymentSpec } from '../api/gardener/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/machine-set.ts';
import { annotations, finalizers, labels } from '../api/gardener/names.ts';
import { controllerOf } from '../api/gardener/owner.ts';
import { newSetName, templateHash } from '../api/gardener/template.ts';
import type { Candidate, ObjectRef, OwnerPlan } from '../api/model.ts';
import { names } from '../api/names.ts';
import { installCrds } from '../deploy/local/crds.ts';
import type { KubeClient } from '../kube/client.ts';
import { StatusError } from '../kube/errors.ts';
import type { EventRecord } from '../kube/events.ts';
import { machineDeployments, machineSets, machines } from '../kube/gardener.ts';
import { mergePatch } from '../kube/patch.ts';
import { eventually, newNamespace, testClient, testKubeconfig } from '../test/kube/setup.ts';
import { isEmpty, planLateReport, planOwner } from '../workflows/rollout/plan.ts';
import { carryOut } from './owner-acts.ts';
import { createOwnerActivities, type OwnerActivities, type OwnerKind } from './owners.ts';

const events: EventRecord[] = [];
let client: KubeClient;
let activities: OwnerActivities;
let namespace: string;

beforeAll(async () => {
  client = testClient();
  await installCrds(testKubeconfig());
  activities = activitiesOf(client);
});

beforeEach(async () => {
  namespace = await newNamespace(client);
});

afterAll(() => client.close());

/** The activities, as they are outside of a worker. */
function activitiesOf(control: KubeClient, signal = new AbortController().signal): OwnerActivities {
  const deps = {
    control,
    target: control,
    events: { record: (event: EventRecord) => events.push(event), flush: async () => undefined },
  };
  return {
    ...createOwnerActivities(deps),
    actOnOwner: (ref, kind, plan) => carryOut({ deps, ref, kind, plan, signal }),
  };
}

const template = {
  metadata: { labels: { name: 'pool' }, annotations: { note: 'a' } },
  spec: { class: { kind: 'MachineClass', name: 'small' } },
};
const spec: MachineDeploymentSpec = {
  replicas: 2,
  selector: { matchLabels: { name: 'pool' } },
  template,
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
};
const nothing: OwnerPlan = {
  generation: 1,
  sets: [],
  addFinalizers: false,
  scale: [],
  create: [],
  remove: [],
  releaseSets: [],
  release: false,
};

function refOf({ metadata }: { metadata: Machine['metadata'] }): ObjectRef {
  return { dialect: 'gardener', namespace, name: metadata.name, uid: metadata.uid };
}

async function newDeployment(change: Partial<MachineDeploymentSpec> = {}): Promise<ObjectRef> {
  const metadata = { namespace, name: 'pool', annotations: { 'example.com/copied': 'yes' } };
  return refOf(await client.create(machineDeployments, { metadata, spec: { ...spec, ...change } }));
}

async function newLoneSet(replicas: number): Promise<ObjectRef> {
  const { strategy: _, ...rest } = spec;
  return refOf(
    await client.create(machineSets, { metadata: { namespace, name: 'lone' }, spec: { ...rest, replicas } }),
  );
}

const creating = (text: string) => mergePatch({ metadata: { annotations: { [names.creating]: text } } });
const sets = async (): Promise<MachineSet[]> => (await client.list(machineSets, { namespace })).items;
const own = async (): Promise<Machine[]> => (await client.list(machines, { namespace })).items;

let counter = 0;
function newName(set: string): string {
  counter += 1;
  return `${set}-${counter}`;
}

async function read(ref: ObjectRef, kind: OwnerKind = 'MachineDeployment') {
  const reading = await activities.observeOwner(ref, kind, 0);
  if (reading === null) throw new Error('the owner is gone');
  return reading;
}

/** Steps until there is nothing to do; each is done twice, as after a crash. */
async function settle(ref: ObjectRef, kind: OwnerKind = 'MachineDeployment'): Promise<void> {
  for (let steps = 0; steps < 20; steps++) {
    const reading = await activities.observeOwner(ref, kind, 0);
    if (reading === null) return;
    const plan = planOwner(reading, newName);
    if (isEmpty(plan)) return;
    await activities.actOnOwner(ref, kind, plan);
    await activities.actOnOwner(ref, kind, plan);
  }
  throw new Error('no end after 20 steps');
}

async function setPhase({ metadata }: Machine, phase: string): Promise<void> {
  const patch = mergePatch({ status: { currentStatus: { phase } } });
  await client.patch(machines, metadata, patch, { subresource: 'status' });
}

async function manage({ metadata }: Machine): Promise<Machine> {
  return client.patch(machines, metadata, mergePatch({ metadata: { finalizers: [finalizers.machine] } }));
}

async function finish({ metadata }: Machine): Promise<void> {
  await client.patch(machines, metadata, mergePatch({ metadata: { finalizers: null } }));
}

const candidate = ({ metadata }: Machine, change: Partial<Candidate> = {}): Candidate => {
  const { name, uid, resourceVersion } = metadata;
  return { name, uid, resourceVersion, set: '', failed: false, ...change };
};

describe('a deployment from beginning to end', () => {
  it('[mcm 70] [mcm 59] [mcm 69] gets its set and machines, is scaled, and leaves nothing behind', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const [set, ...others] = await sets();
    expect(others).toEqual([]);
    expect(set?.spec?.replicas).toBe(2);
    const made = await own();
    expect(made.map((machine) => controllerOf(machine))).toEqual([set?.metadata.uid, set?.metadata.uid]);
    for (const machine of made) {
      await manage(machine);
      await setPhase(machine, 'Running');
    }
    await settle(ref);
    expect(deploymentNeeds((await read(ref)).view)).toEqual([]);

    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 4 } }), { subresource: 'scale' });
    await settle(ref);
    expect(await own()).toHaveLength(4);

    await client.delete(machineDeployments, ref);
    await settle(ref);
    for (const machine of await own()) await finish(machine);
    await settle(ref);
    expect([await own(), await sets(), await client.find(machineDeployments, ref)]).toEqual([[], [], undefined]);
  });

  it('[mcm 63] replaces a Failed machine before the old one is gone', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    const [first] = await own();
    if (first === undefined) throw new Error('there is no machine');
    await manage(first);
    await setPhase(first, 'Failed');
    await settle(ref);
    const both = await own();
    expect(both).toHaveLength(2);
    const old = both.find(({ metadata }) => metadata.uid === first.metadata.uid);
    expect(old?.metadata.deletionTimestamp).toBeDefined();
    expect(old?.metadata.annotations).toHaveProperty([names.replaced]);
  });

  it('begins again with a set that somebody deleted', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    for (const machine of await own()) await manage(machine);
    await client.delete(machineSets, set.metadata);
    await settle(ref);
    for (const machine of await own()) await finish(machine);
    await settle(ref);
    const [next] = await sets();
    expect(next?.metadata.name).toBe(set.metadata.name);
    expect(next?.metadata.uid).not.toBe(set.metadata.uid);
    expect(await own()).toHaveLength(1);
  });
});

describe('a deployment whose template changes', () => {
  const large = { ...template, spec: { class: { kind: 'MachineClass', name: 'large' } } };
  const revisionsOf = (one: { metadata: Machine['metadata'] } | undefined) => [
    one?.metadata.annotations?.[annotations.revision],
    one?.metadata.annotations?.[annotations.revisionHistory],
  ];
  const change = (ref: ObjectRef, patch: object) => client.patch(machineDeployments, ref, mergePatch({ spec: patch }));

  /** Machines come up and go away until nothing more happens. */
  async function rollOver(ref: ObjectRef): Promise<void> {
    for (let rounds = 0; rounds < 20; rounds++) {
      await settle(ref);
      const moving = (await own()).filter((one) => one.metadata.deletionTimestamp || !one.status?.currentStatus?.phase);
      if (moving.length === 0) return;
      for (const machine of moving) {
        if (machine.metadata.deletionTimestamp) await finish(machine);
        else await setPhase(await manage(machine), 'Running');
      }
    }
    throw new Error('no end after 20 rounds');
  }

  it('[mcm 71] [mcm 83] rolls over to a new set, and back to the old one, which becomes the newest', async () => {
    const ref = await newDeployment();
    await rollOver(ref);
    const [first] = await sets();
    expect(revisionsOf(first)).toEqual(['1', undefined]);

    await change(ref, { template: large });
    await rollOver(ref);
    const second = (await sets()).find(({ metadata }) => metadata.uid !== first?.metadata.uid);
    expect((await own()).map((machine) => controllerOf(machine))).toEqual([second?.metadata.uid, second?.metadata.uid]);
    expect([revisionsOf(second), revisionsOf(await client.get(machineDeployments, ref))]).toEqual([
      ['2', undefined],
      ['2', undefined],
    ]);

    await change(ref, { template });
    await rollOver(ref);
    expect((await own()).map((machine) => controllerOf(machine))).toEqual([first?.metadata.uid, first?.metadata.uid]);
    expect(await sets()).toHaveLength(2);
    const [again] = (await sets()).filter(({ metadata }) => metadata.uid === first?.metadata.uid);
    const deployment = await client.get(machineDeployments, ref);
    expect([revisionsOf(again), revisionsOf(deployment)]).toEqual([
      ['3', '1'],
      ['3', undefined],
    ]);
    expect(deployment.status?.conditions).toMatchObject([
      {
        type: 'Progressing',
        status: 'True',
        reason: 'NewMachineSetAvailable',
        message: `MachineSet "${first?.metadata.name}" has successfully progressed.`,
      },
    ]);
    expect(deploymentNeeds((await read(ref)).view)).toEqual([]);
  });

  it('[mcm 73] takes an old machine that is not available before one that is, and one that never was at once', async () => {
    const ref = await newDeployment({ replicas: 4 });
    await rollOver(ref);
    const [first, second, third] = await own();
    if (first === undefined || second === undefined || third === undefined) throw new Error('there are no machines');
    await setPhase(second, 'Unknown');
    await setPhase(third, 'Pending');
    const leaving = async () =>
      (await own()).filter(({ metadata }) => metadata.deletionTimestamp).map(({ metadata }) => metadata.name);

    await change(ref, { template: large });
    await settle(ref);
    expect(await leaving()).toEqual([third.metadata.name]);
    // As many are available as have to be but for one: none of the available ones may go, and the Unknown one may.
    const fresh = (await own()).filter(({ status }) => !status?.currentStatus?.phase);
    expect(fresh).toHaveLength(1);
    for (const machine of fresh) await setPhase(await manage(machine), 'Running');
    await finish(third);
    await settle(ref);
    expect(await leaving()).toEqual([]);
    const next = (await own()).filter(({ status }) => !status?.currentStatus?.phase);
    for (const machine of next) await setPhase(await manage(machine), 'Running');
    await settle(ref);
    expect(await leaving()).toEqual([second.metadata.name]);
  });

  it('[mcm 71] makes no set and no machine for another nodeTemplate or another timeout', async () => {
    const ref = await newDeployment();
    await rollOver(ref);
    const before = [await own(), (await sets()).map(({ metadata }) => metadata.uid)];
    const nodeTemplate = { metadata: { labels: { added: 'yes' } } };
    await change(ref, { template: { spec: { nodeTemplate, drainTimeout: '1h' } } });
    await rollOver(ref);
    expect([await own(), (await sets()).map(({ metadata }) => metadata.uid)]).toEqual(before);
  });

  it('[mcm 78] scales and does not roll while it is paused, and rolls when it is resumed', async () => {
    const progressing = async () => (await client.get(machineDeployments, ref)).status?.conditions;
    const ref = await newDeployment();
    await rollOver(ref);
    await change(ref, { template: large, paused: true, replicas: 3 });
    await rollOver(ref);
    const [set, ...others] = await sets();
    expect([others, set?.spec?.replicas, (await own()).length]).toEqual([[], 3, 3]);
    expect(await progressing()).toMatchObject([
      { type: 'Progressing', status: 'Unknown', reason: 'DeploymentPaused', message: 'Deployment is paused' },
    ]);
    expect(deploymentNeeds((await read(ref)).view)).toEqual([]);

    await change(ref, { paused: false });
    await activities.actOnOwner(ref, 'MachineDeployment', planOwner(await read(ref), newName));
    expect(await progressing()).toMatchObject([
      { type: 'Progressing', status: 'Unknown', reason: 'DeploymentResumed', message: 'Deployment is resumed' },
    ]);
    await rollOver(ref);
    expect((await own()).map(({ spec: { class: used } = {} }) => used?.name)).toEqual(['large', 'large', 'large']);
    expect(await progressing()).toMatchObject([{ status: 'True', reason: 'NewMachineSetAvailable' }]);
  });
});

describe('machines that the API server refuses', () => {
  const refusal = new StatusError('POST machines', 403, { reason: 'Forbidden', message: 'exceeded quota: 2 machines' });
  const failureOf = async (ref: ObjectRef) => {
    const { status } = await client.get(machineDeployments, ref);
    const told = (await sets()).map((set) => set.status?.machineSetCondition ?? []);
    return [...told, status?.conditions?.filter(({ type }) => type === 'ReplicaFailure') ?? []];
  };
  const toldOf = (reason: string) => ({
    type: 'ReplicaFailure',
    status: 'True',
    reason,
    message: expect.stringContaining('exceeded quota'),
  });

  it('[mcm 68] are told by set and deployment, and not any more once they are there', async () => {
    const ref = await newDeployment();
    await activities.actOnOwner(ref, 'MachineDeployment', planOwner(await read(ref), newName));
    const refused: KubeClient = {
      ...client,
      create: async () => {
        throw refusal;
      },
    };
    const fail = async () =>
      activitiesOf(refused).actOnOwner(ref, 'MachineDeployment', planOwner(await read(ref), newName));
    await expect(fail()).rejects.toThrow('exceeded quota');
    expect(await failureOf(ref)).toMatchObject([[toldOf('FailedCreate')], [toldOf('FailedCreate')]]);
    const [set] = await sets();
    const told = events.filter(({ regarding }) => regarding.uid === set?.metadata.uid);
    expect(told).toMatchObject([{ type: 'Warning', reason: 'FailedCreate' }]);
    expect(deploymentNeeds((await read(ref)).view)).toContain('observed');

    await expect(fail()).rejects.toThrow('exceeded quota');
    expect((await sets())[0]?.metadata.resourceVersion).toBe(set?.metadata.resourceVersion);
    await activities.actOnOwner(ref, 'MachineDeployment', planLateReport((await read(ref)).view, 'no progress'));
    expect(await failureOf(ref)).toMatchObject([[toldOf('FailedCreate')], [toldOf('FailedCreate')]]);

    await settle(ref);
    expect(await own()).toHaveLength(2);
    expect(await failureOf(ref)).toEqual([[], []]);
  });

  it('[mcm 68] are told when they cannot be deleted, and not any more once nothing is to go', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const refused: KubeClient = {
      ...client,
      delete: async () => {
        throw refusal;
      },
    };
    const plan = planOwner(await read(ref), newName);
    const step = activitiesOf(refused).actOnOwner(ref, 'MachineDeployment', plan);
    await expect(step).rejects.toThrow('exceeded quota');
    expect(await failureOf(ref)).toMatchObject([[toldOf('FailedDelete')], [toldOf('FailedDelete')]]);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }));
    await settle(ref);
    expect(await failureOf(ref)).toEqual([[], []]);
  });

  it('[mcm 68] are told by a set without a deployment', async () => {
    const ref = await newLoneSet(1);
    const refused: KubeClient = {
      ...client,
      create: async () => {
        throw refusal;
      },
    };
    await activities.actOnOwner(ref, 'MachineSet', { ...nothing, addFinalizers: true });
    const plan = planOwner(await read(ref, 'MachineSet'), newName);
    await expect(activitiesOf(refused).actOnOwner(ref, 'MachineSet', plan)).rejects.toThrow('exceeded quota');
    expect((await client.get(machineSets, ref)).status?.machineSetCondition).toMatchObject([toldOf('FailedCreate')]);
    await settle(ref, 'MachineSet');
    expect((await client.get(machineSets, ref)).status?.machineSetCondition ?? []).toEqual([]);
    expect(deploymentNeeds((await read(ref, 'MachineSet')).view)).toEqual([]);
  });
});

describe('a set without a deployment', () => {
  it('[mcm 59] [mcm 69] keeps its machines, and leaves nothing behind', async () => {
    const ref = await newLoneSet(2);
    await settle(ref, 'MachineSet');
    expect(await own()).toHaveLength(2);
    expect(deploymentNeeds((await read(ref, 'MachineSet')).view)).toEqual([]);
    await client.delete(machineSets, ref);
    await settle(ref, 'MachineSet');
    expect([await own(), await sets()]).toEqual([[], []]);
  });

  it('is not observed as such when it has a deployment', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    expect(await activities.observeOwner(refOf(set), 'MachineSet', 0)).toBeNull();
  });
});

describe('a set whose deployment is gone', () => {
  it('looks after itself', async () => {
    const { strategy: _, ...rest } = spec;
    const gone = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineDeployment', name: 'pool', uid: 'gone' };
    const metadata = { namespace, name: 'left', ownerReferences: [{ ...gone, controller: true }] };
    const ref = refOf(await client.create(machineSets, { metadata, spec: rest }));
    await newDeployment({ replicas: 0 });
    await settle(ref, 'MachineSet');
    expect(await own()).toHaveLength(2);
    await client.delete(machineSets, ref);
    await settle(ref, 'MachineSet');
    expect(await own()).toEqual([]);
    expect(await client.find(machineSets, ref)).toBeUndefined();
  });
});

describe('an owner that is not valid', () => {
  it('[mcm 4] gets a condition that says why and nothing else, until it is mended', async () => {
    const ref = await newDeployment({ selector: {} });
    await settle(ref);
    const { metadata, status } = await client.get(machineDeployments, ref);
    expect(status?.conditions).toMatchObject([
      {
        type: 'Progressing',
        status: 'False',
        reason: 'InvalidSpec',
        message: expect.stringContaining('spec.selector'),
      },
    ]);
    expect(status?.observedGeneration).toBe(metadata.generation);
    expect(metadata).not.toHaveProperty('finalizers');
    expect([await sets(), deploymentNeeds((await read(ref)).view)]).toEqual([[], []]);

    await client.patch(machineDeployments, ref, mergePatch({ spec: { selector: spec.selector } }));
    await settle(ref);
    expect(await own()).toHaveLength(2);
    expect((await client.get(machineDeployments, ref)).status?.conditions).toMatchObject([{ status: 'True' }]);
  });

  it('keeps its machines when it was valid before, and can be deleted', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { selector: { matchLabels: null }, replicas: 0 } }));
    await settle(ref);
    expect(await own()).toHaveLength(2);
    await client.delete(machineDeployments, ref);
    await settle(ref);
    expect([await own(), await sets(), await client.find(machineDeployments, ref)]).toEqual([[], [], undefined]);
  });

  it('[mcm 4] says it as ReplicaFailure when it is a set', async () => {
    const ref = await newLoneSet(1);
    await client.patch(machineSets, ref, mergePatch({ spec: { selector: { matchLabels: null } } }));
    await settle(ref, 'MachineSet');
    const failure = { type: 'ReplicaFailure', status: 'True', reason: 'InvalidSpec' };
    expect((await client.get(machineSets, ref)).status?.machineSetCondition).toMatchObject([failure]);
    expect([await own(), deploymentNeeds((await read(ref, 'MachineSet')).view)]).toEqual([[], []]);
    await client.patch(machineSets, ref, mergePatch({ spec: { selector: spec.selector } }));
    await settle(ref, 'MachineSet');
    expect(await own()).toHaveLength(1);
    expect((await client.get(machineSets, ref)).status).not.toHaveProperty('machineSetCondition.0');
  });
});

describe('machines whose labels are not those of the selector', () => {
  it('are counted, and deleted with their owner', async () => {
    const ref = await newDeployment({ replicas: 3 });
    await settle(ref);
    const [machine] = await own();
    if (machine === undefined) throw new Error('there is no machine');
    await client.patch(machines, machine.metadata, mergePatch({ metadata: { labels: { name: 'debug' } } }));
    await settle(ref);
    expect(await own()).toHaveLength(3);
    await client.delete(machineDeployments, ref);
    await settle(ref);
    expect(await own()).toEqual([]);
    expect(await client.find(machineDeployments, ref)).toBeUndefined();
  });
});

describe('observeOwner', () => {
  it('answers null for an owner that is gone or whose name another one has', async () => {
    const ref = await newDeployment();
    expect(await activities.observeOwner({ ...ref, uid: 'other' }, 'MachineDeployment', 0)).toBeNull();
    expect(await activities.observeOwner({ ...ref, name: 'other' }, 'MachineDeployment', 0)).toBeNull();
    await activities.actOnOwner({ ...ref, uid: 'other' }, 'MachineDeployment', { ...nothing, addFinalizers: true });
    expect((await client.get(machineDeployments, ref)).metadata).not.toHaveProperty('finalizers');
  });

  it('counts machines of its own sets alone', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.create(machines, {
      metadata: { namespace, name: 'foreign', labels: { name: 'pool' } },
      spec: template.spec,
    });
    const { view, candidates } = await read(ref);
    expect(view.sets).toMatchObject([{ total: 0 }]);
    expect(candidates).toEqual([]);
  });
});

describe('actOnOwner', () => {
  it('[mcm 70] makes a set with the hash in labels, selector and template', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    const hash = templateHash(template);
    const [set] = await sets();
    expect(set).toMatchObject({
      metadata: {
        name: newSetName('pool', hash),
        labels: { name: 'pool', [labels.templateHash]: hash },
        annotations: {
          'example.com/copied': 'yes',
          [annotations.revision]: '1',
          [annotations.desiredReplicas]: '0',
          [annotations.maxReplicas]: '1',
        },
        finalizers: [finalizers.machine],
        ownerReferences: [{ kind: 'MachineDeployment', name: 'pool', uid: ref.uid, controller: true }],
      },
      spec: {
        replicas: 0,
        selector: { matchLabels: { name: 'pool', [labels.templateHash]: hash } },
        template: { metadata: { labels: { name: 'pool', [labels.templateHash]: hash } }, spec: template.spec },
      },
    });
  });

  it('[mcm 82] takes another name when the first one belongs to another template', async () => {
    const name = newSetName('pool', templateHash(template));
    const { strategy: _, ...rest } = spec;
    await client.create(machineSets, { metadata: { namespace, name }, spec: { ...rest, replicas: 0 } });
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    const deployment = await client.get(machineDeployments, ref);
    expect(deployment.status?.collisionCount).toBeGreaterThan(0);
    const mine = (await sets()).filter((set) => controllerOf(set) === ref.uid);
    expect(mine).toHaveLength(1);
    expect(mine[0]?.metadata.name).not.toBe(name);
  });

  it('makes no set for a template that has changed since it was planned', async () => {
    const ref = await newDeployment();
    const plan = planOwner(await read(ref), newName);
    const other = { ...template, spec: { class: { kind: 'MachineClass', name: 'large' } } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: { template: other } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect(await sets()).toEqual([]);
  });

  it('makes nothing for an owner that was deleted since it was planned', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 5 } }));
    const plan = planOwner(await read(ref), newName);
    await client.delete(machineDeployments, ref);
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect(await own()).toHaveLength(2);
  });

  it('[mcm 59] creates a machine once, however often the step is repeated, and none in a set that is another', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    const [set] = await sets();
    const { name = '', uid = '' } = set?.metadata ?? {};
    const planned = [{ name, uid, generation: 1, replicas: 0 }];
    const plan = { ...nothing, sets: planned, create: [{ set: name, uid, names: ['m-1', 'm-2'] }] };
    await Promise.all([1, 2].map(() => activities.actOnOwner(ref, 'MachineDeployment', plan)));
    const made = await own();
    expect(made.map(({ metadata }) => metadata.name)).toEqual(['m-1', 'm-2']);
    expect(made[0]?.metadata).not.toHaveProperty('finalizers');

    const foreign = { ...plan, sets: [{ name, uid: 'other', generation: 1, replicas: 0 }] };
    await activities.actOnOwner(ref, 'MachineDeployment', foreign);
    expect(await own()).toHaveLength(2);
  });

  it('[invariant 5] deletes no machine that has changed since it was planned', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const before = await own();
    const [first, second] = before;
    if (first === undefined || second === undefined) throw new Error('there are no machines');
    await setPhase(first, 'Running');
    const another = candidate(second, { uid: 'other' });
    const [set] = await sets();
    const { name = '', uid = '' } = set?.metadata ?? {};
    const remove = [candidate(first), candidate(first, { failed: true }), another].map((one) => ({
      ...one,
      set: name,
    }));
    const planned = [{ name, uid, generation: 1, replicas: 2 }];
    await activities.actOnOwner(ref, 'MachineDeployment', { ...nothing, sets: planned, remove });
    const left = await own();
    expect(left).toHaveLength(2);
    expect(left.map(({ metadata }) => metadata.annotations)).toEqual(
      before.map(({ metadata }) => metadata.annotations),
    );
  });

  it('scales no set of which the spec has changed since it was planned', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const plan = planOwner(await read(ref), newName);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    await client.patch(machineSets, set.metadata, mergePatch({ spec: { minReadySeconds: 9 } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect((await sets())[0]?.spec?.replicas).toBe(0);
    expect(await own()).toEqual([]);
  });

  it('scales a set and creates its machines however often its counts are written meanwhile', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const plan = planOwner(await read(ref), newName);
    let counts = 0;
    const countedMeanwhile: KubeClient = {
      ...client,
      patch: async (...request) => {
        const [resource, key] = request;
        const isOfSet = resource.plural === machineSets.plural;
        counts += Number(isOfSet);
        const count = mergePatch({ status: { replicas: counts } });
        if (isOfSet && counts < 3) await client.patch(machineSets, key, count, { subresource: 'status' });
        return client.patch(...request);
      },
    };
    await client.patch(machineSets, (await sets())[0]!.metadata, mergePatch({ status: { replicas: 9 } }), {
      subresource: 'status',
    });
    await activitiesOf(countedMeanwhile).actOnOwner(ref, 'MachineDeployment', plan);
    expect(counts).toBeGreaterThan(2);
    expect([(await sets())[0]?.spec?.replicas, (await own()).length]).toEqual([1, 1]);
  });

  it('changes a set once in a step that creates machines, and names them no more once all is done', async () => {
    const ref = await newDeployment();
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 4 } }));
    let patches = 0;
    const counting: KubeClient = {
      ...client,
      patch: async (...request) => {
        patches += Number(request[0].plural === machineSets.plural);
        return client.patch(...request);
      },
    };
    const plan = planOwner(await read(ref), newName);
    const { report: _, ...silent } = plan;
    await activitiesOf(counting).actOnOwner(ref, 'MachineDeployment', silent);
    expect([patches, (await own()).length]).toEqual([1, 4]);
    const named = (await sets())[0]?.metadata.annotations?.[names.creating];
    expect(named).toBe(plan.create[0]?.names.join());

    await settle(ref);
    expect((await sets())[0]?.metadata.annotations).not.toHaveProperty([names.creating]);
    expect((await read(ref)).view.sets).toMatchObject([{ annotated: true }]);
  });

  it('tells what it did as Events on deployment and set', async () => {
    const ref = await newDeployment();
    await settle(ref);
    const told = events.filter(({ regarding }) => regarding.namespace === namespace);
    expect(new Set(told.map(({ reason, regarding }) => `${regarding.kind} ${reason}`))).toEqual(
      new Set(['MachineDeployment ScalingMachineSet', 'MachineSet SuccessfulCreate']),
    );
  });

  it('adds finalizers beside those of others', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await client.patch(machineDeployments, ref, mergePatch({ metadata: { finalizers: ['example.com/other'] } }));
    await settle(ref);
    const { metadata } = await client.get(machineDeployments, ref);
    expect(metadata.finalizers).toEqual(['example.com/other', finalizers.machine]);
  });

  it('is at rest with a released owner that others hold back', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(
      machineDeployments,
      ref,
      mergePatch({ metadata: { finalizers: ['example.com/other', finalizers.machine] } }),
    );
    const [set] = await sets();
    const { name = '' } = set?.metadata ?? {};
    await client.patch(
      machineSets,
      { namespace, name },
      mergePatch({ metadata: { finalizers: ['example.com/other', finalizers.machine] } }),
    );
    await client.delete(machineDeployments, ref);
    await settle(ref);
    expect((await client.get(machineDeployments, ref)).metadata.finalizers).toEqual(['example.com/other']);
    expect((await sets()).map(({ metadata }) => metadata.finalizers)).toEqual([['example.com/other']]);
    expect(deploymentNeeds((await read(ref)).view)).toEqual([]);
  });

  it('reports the progress and keeps the conditions of others', async () => {
    const ref = await newDeployment({ replicas: 0 });
    const available = { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable', message: 'yes' };
    await client.patch(machineDeployments, ref, mergePatch({ status: { conditions: [available] } }), {
      subresource: 'status',
    });
    await settle(ref);
    const { status, metadata }: MachineDeployment = await client.get(machineDeployments, ref);
    expect(status?.observedGeneration).toBe(metadata.generation);
    expect(status?.conditions).toMatchObject([
      available,
      { type: 'Progressing', status: 'True', reason: 'NewMachineSetAvailable' },
    ]);
    expect((await sets()).map((set) => set.status?.observedGeneration === set.metadata.generation)).toEqual([true]);
  });

  it('[invariant 5] carries out nothing that was planned for another generation of the owner', async () => {
    const ref = await newDeployment({ replicas: 5 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const plan = planOwner(await read(ref), newName);
    expect(plan.remove).toHaveLength(4);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 5 } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect((await own()).filter(({ metadata }) => metadata.deletionTimestamp === undefined)).toHaveLength(5);
    expect((await sets())[0]?.spec?.replicas).toBe(5);
  });

  it('[invariant 5] deletes and creates nothing in a set that has other replicas than were planned', async () => {
    const ref = await newDeployment({ replicas: 2 });
    await settle(ref);
    const [set] = await sets();
    if (set === undefined) throw new Error('there is no set');
    const { view } = await read(ref);
    const candidates = (await own()).map((machine) => candidate(machine, { set: set.metadata.name }));
    const plan = { ...planOwner({ view, candidates: [], begun: [] }, newName), remove: candidates };
    await client.patch(machineSets, set.metadata, mergePatch({ spec: { replicas: 7 } }));
    const create = [{ set: set.metadata.name, uid: set.metadata.uid, names: ['more'] }];
    await activities.actOnOwner(ref, 'MachineDeployment', { ...plan, create });
    expect((await own()).map(({ metadata }) => metadata.name)).toEqual(candidates.map(({ name }) => name));
  });

  it('[invariant 5] stops between two batches when the owner is changed', async () => {
    const ref = await newDeployment({ replicas: 50 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 0 } }));
    let deleted = 0;
    const meddler: KubeClient = {
      ...client,
      delete: async (...request) => {
        deleted += 1;
        if (deleted === 1) await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 50 } }));
        return client.delete(...request);
      },
    };
    await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', planOwner(await read(ref), newName));
    expect((await own()).length).toBeGreaterThanOrEqual(30);
  });

  it('leaves nothing under way and begins nothing more when a request fails', async () => {
    const ref = await newDeployment({ replicas: 60 });
    await activities.actOnOwner(ref, 'MachineDeployment', planOwner(await read(ref), newName));
    let isFirst = true;
    let underWay = 0;
    let created = 0;
    const failing: KubeClient = {
      ...client,
      create: async (...request) => {
        if (isFirst) {
          isFirst = false;
          throw new Error('the first one fails');
        }
        underWay += 1;
        const made = await client.create(...request);
        created += 1;
        underWay -= 1;
        return made;
      },
    };
    const plan = planOwner(await read(ref), newName);
    const step = activitiesOf(failing).actOnOwner(ref, 'MachineDeployment', plan);
    await expect(step).rejects.toThrow('the first one fails');
    expect(underWay).toBe(0);
    expect(created).toBeLessThan(20);
    expect(await own()).toHaveLength(created);

    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    expect(await own()).toHaveLength(60);
  });

  it('[invariant 5] creates no machine beside those of a step that was lost and is still under way', async () => {
    const ref = await newDeployment({ replicas: 60 });
    await activities.actOnOwner(ref, 'MachineDeployment', planOwner(await read(ref), newName));
    const lost = planOwner(await read(ref), newName);
    let resume = () => {};
    const isHeld = new Promise<void>((resolve) => {
      resume = resolve;
    });
    let made = 0;
    const held: KubeClient = {
      ...client,
      create: async (...request) => {
        if (++made > 5) await isHeld;
        return client.create(...request);
      },
    };
    const underWay = activitiesOf(held).actOnOwner(ref, 'MachineDeployment', lost);
    await eventually(async () => (await own()).length === 5);

    // Another run takes over, which knows nothing but what it reads.
    const reading = await read(ref);
    const next = planOwner(reading, newName);
    await activities.actOnOwner(ref, 'MachineDeployment', next);
    expect(await own()).toHaveLength(60);
    await client.delete(machines, { namespace, name: lost.create[0]?.names[50] ?? '' });
    resume();
    await underWay;

    expect(await own()).toHaveLength(59);
    // What was planned before the other run began finds that one in its place, and does nothing.
    await client.patch(machineSets, (await sets())[0]!.metadata, creating('pool-other'));
    await activities.actOnOwner(ref, 'MachineDeployment', next);
    expect(await own()).toHaveLength(59);
  });

  it('begins nothing once nobody waits for it any longer', async () => {
    const ref = await newDeployment();
    await activities.actOnOwner(ref, 'MachineDeployment', planOwner(await read(ref), newName));
    const plan = planOwner(await read(ref), newName);
    const given = activitiesOf(client, AbortSignal.abort(new Error('given up')));
    await expect(given.actOnOwner(ref, 'MachineDeployment', plan)).rejects.toThrow('given up');
    expect(await own()).toEqual([]);
  });

  it('makes no set for a deployment that is deleted while its finalizer is put on', async () => {
    const ref = await newDeployment();
    const plan = planOwner(await read(ref), newName);
    expect(plan).toMatchObject({ addFinalizers: true, createSet: { replicas: 2 } });
    const late: KubeClient = {
      ...client,
      patch: async (...request) => {
        const patched = await client.patch(...request);
        if (request[0].plural === machineDeployments.plural) await client.delete(machineDeployments, ref);
        return patched as never;
      },
    };
    await activitiesOf(late).actOnOwner(ref, 'MachineDeployment', plan);
    expect(await sets()).toEqual([]);
  });

  it.each([
    ['of the deployment', machineDeployments],
    ['of the set', machineSets],
  ])('creates no machine while the label freeze %s is True', async (_name, resource) => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 2 } }));
    const plan = planOwner(await read(ref), newName);
    const [set] = await sets();
    const key = { namespace, name: resource === machineSets ? (set?.metadata.name ?? '') : ref.name };
    await client.patch(resource as typeof machineSets, key, mergePatch({ metadata: { labels: { freeze: 'True' } } }));
    await activities.actOnOwner(ref, 'MachineDeployment', plan);
    await settle(ref);
    expect(await own()).toEqual([]);
    await client.patch(resource as typeof machineSets, key, mergePatch({ metadata: { labels: { freeze: 'true' } } }));
    await settle(ref);
    expect(await own()).toHaveLength(2);
  });

  it('tells sets and deployment what is asked for, and in which revision', async () => {
    const ref = await newDeployment({ replicas: 1 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 3 } }));
    await settle(ref);
    expect((await sets())[0]?.metadata.annotations).toMatchObject({
      [annotations.desiredReplicas]: '3',
      [annotations.maxReplicas]: '4',
    });
    const strategy = { rollingUpdate: { maxSurge: 5 } };
    await client.patch(machineDeployments, ref, mergePatch({ spec: { strategy } }));
    await settle(ref);
    expect((await sets())[0]?.metadata).toMatchObject({
      generation: 2,
      annotations: { [annotations.maxReplicas]: '8' },
    });
    const { metadata } = await client.get(machineDeployments, ref);
    expect(metadata.annotations).toMatchObject({ [annotations.revision]: '1' });
  });

  it('takes note of the generation that it acted upon, not of one that came meanwhile', async () => {
    const ref = await newDeployment({ replicas: 0 });
    const plan = planOwner(await read(ref), newName);
    const meddler: KubeClient = {
      ...client,
      create: async (...request) => {
        await client.patch(machineDeployments, ref, mergePatch({ spec: { paused: true } }));
        return client.create(...request);
      },
    };
    await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', plan);
    const { metadata, status } = await client.get(machineDeployments, ref);
    expect([metadata.generation, status?.observedGeneration]).toEqual([2, 1]);
  });

  it('takes note of the generation of a set that it has scaled itself, and of no later one', async () => {
    const ref = await newDeployment({ replicas: 0 });
    await settle(ref);
    await client.patch(machineDeployments, ref, mergePatch({ spec: { replicas: 1 } }));
    const meddler: KubeClient = {
      ...client,
      create: async (...request) => {
        const [set] = await sets();
        if (set !== undefined)
          await client.patch(machineSets, set.metadata, mergePatch({ spec: { minReadySeconds: 9 } }));
        return client.create(...request);
      },
    };
    const plan = planOwner(await read(ref), newName);
    const [set] = await sets();
    const create = [{ set: set?.metadata.name ?? '', uid: set?.metadata.uid ?? '', names: ['m-1'] }];
    await activitiesOf(meddler).actOnOwner(ref, 'MachineDeployment', { ...plan, create });
    const [after] = await sets();
    expect([after?.metadata.generation, after?.status?.observedGeneration]).toEqual([3, 2]);
  });

  it('[invariant 9] writes nothing at rest', async () => {
    const ref = await newDeployment();
    await settle(ref);
    for (const machine of await own()) await setPhase(machine, 'Running');
    await settle(ref);
    const before = [await own(), await sets(), await client.get(machineDeployments, ref)];
    await settle(ref);
    expect([await own(), await sets(), await client.get(machineDeployments, ref)]).toEqual(before);
  });
});
