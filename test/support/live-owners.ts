/**
 * Owners of machines on a real API server, each test in a namespace of its own, and the activities that look after
 * them.
 */
import { afterAll, beforeEach } from '@jest/globals';
import { applyPlan } from '../../activities/owner/apply.ts';
import { createOwnerActivities, type OwnerActivities, type OwnerKind } from '../../activities/owner/index.ts';
import { contextOf } from '../../activities/owner/step.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeploymentSpec } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { OwnerPlan, OwnerSnapshot } from '../../api/model/owner.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { ObjectMeta } from '../../api/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { EventRecord } from '../../kube/events.ts';
import { mergePatch } from '../../kube/patch.ts';
import { isEmpty, planOwner } from '../../workflows/rollout/plan.ts';
import { withOwnCreations } from '../../workflows/rollout/state.ts';
import { newNamespace, testClient } from './kube.ts';
import { noReplacements } from './owner-deps.ts';
import { refOf } from './refs.ts';

export const template = {
  metadata: { labels: { name: 'pool' }, annotations: { note: 'a' } },
  spec: { class: { kind: 'MachineClass', name: 'small' } },
};

/** Of every deployment, and of every set but for the strategy. */
export const spec: MachineDeploymentSpec = {
  replicas: 2,
  selector: { matchLabels: { name: 'pool' } },
  template,
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
};

/** A plan for an owner as it was made, to do nothing. */
export const nothing: OwnerPlan = {
  generation: 1,
  sets: [],
  addFinalizers: false,
  scale: [],
  create: [],
  remove: [],
  releaseSets: [],
  release: false,
};

/** Prepares the API server for the tests of a file. */
export function setUpOwners() {
  const client = testClient();
  const events: EventRecord[] = [];
  const activities = activitiesOf(client);
  let namespace: string;
  let machinesNamed = 0;

  beforeEach(async () => {
    namespace = await newNamespace(client);
  });
  afterAll(() => client.close());

  /** The activities, as they are outside of a worker. */
  function activitiesOf(
    control: KubeClient,
    signal = new AbortController().signal,
    claimMachines = noReplacements.claimMachines,
    keepsAutoscalerAway = true,
  ): OwnerActivities {
    const deps = {
      control,
      target: control,
      events: { record: (event: EventRecord) => events.push(event), flush: async () => undefined },
      ...noReplacements,
      claimMachines,
      keepsAutoscalerAway,
    };
    return {
      ...createOwnerActivities(deps),
      actOnOwner: (ref, kind, plan) => applyPlan({ ...contextOf(deps, ref, kind), plan, signal }),
    };
  }

  async function newDeployment(change: Partial<MachineDeploymentSpec> = {}): Promise<ObjectRef> {
    const metadata = { namespace, name: 'pool', annotations: { 'example.com/copied': 'yes' } };
    return refOf(await client.create(machineDeployments, { metadata, spec: { ...spec, ...change } }));
  }

  /** A set that no deployment has made. */
  async function newLoneSet(replicas: number, change: Partial<ObjectMeta> = {}): Promise<ObjectRef> {
    const { strategy: _, ...rest } = spec;
    const metadata = { namespace, name: 'lone', ...change };
    return refOf(await client.create(machineSets, { metadata, spec: { ...rest, replicas } }));
  }

  const sets = async (): Promise<MachineSet[]> => (await client.list(machineSets, { namespace })).items;
  const own = async (): Promise<Machine[]> => (await client.list(machines, { namespace })).items;

  async function setPhase({ metadata }: Machine, phase: string): Promise<void> {
    const patch = mergePatch({ status: { currentStatus: { phase } } });
    await client.patch(machines, metadata, patch, { subresource: 'status' });
  }

  async function read(ref: ObjectRef, kind: OwnerKind = 'MachineDeployment'): Promise<OwnerSnapshot> {
    const reading = await activities.observeOwner(ref, kind, 0);
    if (reading === null) throw new Error('the owner is gone');
    return reading;
  }

  /** What the workflow would do next. */
  const planFor = async (ref: ObjectRef, kind?: OwnerKind): Promise<OwnerPlan> => decide(await read(ref, kind));
  /** By set, as one run remembers them. */
  const planned = new Map<string, string>();
  const decide = (reading: OwnerSnapshot) => {
    const known = withOwnCreations({ created: new Map(), refused: new Map(), planned }, reading);
    const plan = planOwner(known, (prefix) => `${prefix}-${++machinesNamed}`);
    for (const { set, id } of plan.create) planned.set(set, id);
    return plan;
  };

  /** Steps until there is nothing to do; each is done twice, as after a crash. */
  async function settle(ref: ObjectRef, kind: OwnerKind = 'MachineDeployment'): Promise<void> {
    for (let steps = 0; steps < 20; steps++) {
      const reading = await activities.observeOwner(ref, kind, 0);
      if (reading === null) return;
      const plan = decide(reading);
      if (isEmpty(plan)) return;
      await activities.actOnOwner(ref, kind, plan);
      await activities.actOnOwner(ref, kind, plan);
    }
    throw new Error('no end after 20 steps');
  }

  return {
    client,
    /** Events that the activities have recorded, in all tests of the file. */
    events,
    activities,
    activitiesOf,
    newDeployment,
    newLoneSet,
    sets,
    /** The machines of the namespace. */
    own,
    setPhase,
    read,
    planFor,
    settle,
  };
}
