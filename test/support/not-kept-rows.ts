/**
 * The writes that an API server does not keep in test/end-to-end/not-kept.long.test.ts, and what makes Millwright make
 * them.
 */
import { expect } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { annotations, labels, taints, updateResults } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import { names } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { newSetName, templateHash } from '../../api/owner/template.ts';
import { type Node, nodes, pods, secrets, volumeAttachments } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { interruptedSignal } from '../../workflows/machine/messages.ts';
import { guardNode } from './guarded-node.ts';
import { reportCondition } from './node-conditions.ts';
import { refOf } from './refs.ts';
import { makeVm } from './sweeps.ts';
import { until } from './until.ts';
import type { WatchedInstallation } from './watched-installation.ts';

/** What is made, and what is done with it, for the row with this name. Its objects have names that begin so. */
type Begin = (millwright: WatchedInstallation, name: string) => Promise<unknown>;

/** A write of the objects whose names begin with that of the row. It is answered as if it had been done. */
export interface Row {
  /** Their resource, with the subresource that is written to. */
  readonly on: string;
  /** The field that is not kept, with dots; `create` or `delete`: nothing of the request is. */
  readonly field: string;
  /** The one annotation, label or field below it that is not kept. Default: all. */
  readonly key?: string;
  /** What begins while all is kept. Default: nothing does. */
  readonly before?: Begin;
  /** Makes the write. Default: a Machine is created. */
  readonly begin?: Begin;
  /** The workflow of a MachineDeployment with the name of the row makes it. Default: that of a Machine. */
  readonly ofOwner?: true;
  /** With `ofOwner`: the workflow of the deployment's one Machine shows it. */
  readonly byMachine?: true;
  /** How often a try makes it at most. Default: once. */
  readonly perTry?: number;
  /** Nothing waits for it, or for long: no workflow shows it. */
  readonly isHidden?: true;
  /** What the workflow shows. Default: that the API server does not keep it. */
  readonly shows?: Readonly<Record<string, unknown>>;
  /** Not all of its machines are Running when all is kept again. */
  readonly isLeft?: true;
}

const classOf = (name: string) => ({ kind: 'MachineClass', name });
/** Of machines that never get a VM, and fail soon. */
const failing = { class: classOf('sold-out'), creationTimeout: '10s' };
const nodeTemplate = {
  metadata: { labels: { a: '1' }, annotations: { a: '1' } },
  spec: { taints: [{ key: 'a', effect: 'PreferNoSchedule' }] },
};

export const createMachine = (millwright: WatchedInstallation, name: string, spec: object = {}) =>
  millwright.createMachine(name, { class: classOf('small'), nodeTemplate, ...spec });

/** How long it may take until everything has begun, ms: all rows do so at once. */
export const beginMs = 8 * 60_000;

/** Waits for what a row begins with. */
const untilBegun: typeof until = (what, check) => until(what, check, { timeoutMs: beginMs });

const runMachine = async (millwright: WatchedInstallation, name: string, spec: object = {}) =>
  millwright.untilPhase(await createMachine(millwright, name, spec), 'Running', beginMs);

const find = (millwright: WatchedInstallation, name: string): Promise<Machine> =>
  millwright.control.get(machines, { namespace: millwright.namespace, name });

function edit<T extends KubeObject>(resource: Resource<T>, change: object): Begin {
  const isOfTarget = !resource.namespaced;
  return ({ control, namespace }, name) =>
    control.patch(resource, isOfTarget ? { name } : { namespace, name }, mergePatch(change));
}
const annotate = (key: string, value: string) => ({ metadata: { annotations: { [key]: value } } });

const deletion =
  (resource: Resource<KubeObject>): Begin =>
  ({ control, namespace }, name) =>
    control.delete(resource, resource.namespaced ? { namespace, name } : { name });

function createDeployment(millwright: WatchedInstallation, name: string, changes: object = {}, spec: object = {}) {
  return millwright.createDeployment(name, 1, {
    template: {
      metadata: { labels: { [labels.name]: name } },
      spec: { class: classOf('small'), nodeTemplate, ...spec },
    },
    ...changes,
  });
}

const rollOut =
  (changes: object = {}, spec: object = {}): Begin =>
  async (millwright, name) => {
    await createDeployment(millwright, name, changes, spec);
    await millwright.untilComplete(name, undefined, beginMs);
  };

const changeSetting = edit(machineDeployments, { spec: { template: { spec: { drainTimeout: '1h' } } } });

const toClass = (className: string) => ({ spec: { template: { spec: { class: { name: className } } } } });

/** The one Machine of a deployment, which runs. */
async function machineOf(millwright: WatchedInstallation, name: string): Promise<Machine> {
  const [machine] = await millwright.untilRunning(name, 1);
  return machine!;
}

/** The one Machine of a deployment is listed to be deleted, as the cluster autoscaler does it. */
const listMachine: Begin = async (millwright, name) => {
  const { metadata } = await machineOf(millwright, name);
  const entry = `${metadata.name}~${new Date().toISOString()}`;
  await edit(machineDeployments, annotate(annotations.triggerDeletion, entry))(millwright, name);
};

async function setOf(millwright: WatchedInstallation, name: string): Promise<MachineSet> {
  return untilBegun(`${name} has a set`, async (see) => see(await millwright.setsOf(name))[0]);
}

/** A condition of the Node that its kubelet does not write. */
const setBad = ({ target }: WatchedInstallation, nodeName: string, status: 'True' | 'False') =>
  reportCondition(target, nodeName, 'KernelDeadlock', status);

/** A class that a sweep looks at by itself. */
async function useClass(millwright: WatchedInstallation, name: string, changes: object = {}): Promise<void> {
  await millwright.createClass(name, changes);
  await edit(machineClasses, { providerSpec: { tags: { cluster: name } } })(millwright, name);
  await createMachine(millwright, name, { class: classOf(name) });
}

async function useSecret(millwright: WatchedInstallation, name: string): Promise<void> {
  await millwright.putSecret(name, { token: 'letmein', userData: 'x' });
  await millwright.createClass(name, { secretRef: { namespace: millwright.namespace, name } });
}

/** A class whose machines get user data and a token of their own. */
async function useToken(millwright: WatchedInstallation, name: string, like = 'small'): Promise<void> {
  const { control, namespace } = millwright;
  await millwright.putSecret(name, { token: 'letmein', userData: '<<BOOTSTRAP_TOKEN>>' });
  const { providerSpec } = await control.get(machineClasses, { namespace, name: like });
  await millwright.createClass(name, { secretRef: { namespace, name }, providerSpec });
  await createMachine(millwright, name, { class: classOf(name) });
}

async function runPod({ target, namespace }: WatchedInstallation, name: string): Promise<void> {
  await target.create(pods, {
    metadata: { namespace, name },
    spec: { nodeName: name, containers: [{ name: 'app', image: 'app' }], tolerations: [{ operator: 'Exists' }] },
  });
}

const runWithPod: Begin = async (millwright, name) => {
  await runMachine(millwright, name);
  await runPod(millwright, name);
};

const forceDeletion: Begin = async (millwright, name) => {
  await edit(machines, { metadata: { labels: { [labels.forceDeletion]: 'true' } } })(millwright, name);
  await deletion(machines)(millwright, name);
};

/** Machines that the set of the deployment has released, which freeze it. They get no VM. */
async function overshoot(millwright: WatchedInstallation, name: string): Promise<void> {
  const { metadata } = await setOf(millwright, name);
  await Promise.all(
    Array.from({ length: 4 }, (_, i) =>
      millwright.control.create(machines, {
        metadata: {
          ...{ namespace: millwright.namespace, name: `${name}-released-${i}` },
          ...annotate(names.releasedBy, metadata.name).metadata,
        },
        spec: { class: classOf('missing') },
      }),
    ),
  );
}

/** The Node of the one Machine of a deployment. */
async function nodeOf(millwright: WatchedInstallation, name: string): Promise<{ readonly name: string }> {
  const [machine] = await millwright.machinesOf(name);
  return { name: machine!.metadata.name };
}

const inPlace = rollOut({
  strategy: { type: 'InPlaceUpdate', inPlaceUpdate: { maxSurge: 0, maxUnavailable: 1, orchestrationType: 'Auto' } },
});
const newVersion = edit(machineDeployments, { spec: { template: annotate('version', 'new') } });

/** Rolls another template out. */
async function roll(millwright: WatchedInstallation, name: string): Promise<void> {
  await newVersion(millwright, name);
  await untilBegun('it has two sets', async (see) => see(await millwright.setsOf(name)).length === 2);
  await millwright.untilComplete(name, undefined, beginMs);
}

/** The Node of the deployment's machine is ready to be updated. */
const untilUpdateIsDue: Begin = async (millwright, name) => {
  await inPlace(millwright, name);
  await newVersion(millwright, name);
  const isDue = ({ status }: Node) => status?.conditions?.some(({ reason }) => reason === 'ReadyForUpdate');
  await millwright.untilNode(await nodeOf(millwright, name), 'is ready for its update', isDue, beginMs);
};
const succeed: Begin = async (millwright, name) => {
  const succeeded = { metadata: { labels: { [labels.updateResult]: updateResults.successful } } };
  await edit(nodes, succeeded)(millwright, (await nodeOf(millwright, name)).name);
};

const isStartingUp = ({ spec }: Node) => spec?.taints?.some(({ key }) => key === taints.criticalComponentsNotReady.key);

/** The machine was updated, and belongs to the new set. The critical components of its Node are not ready again. */
const untilUpdated: Begin = async (millwright, name) => {
  await untilUpdateIsDue(millwright, name);
  await succeed(millwright, name);
  const key = { ...(await nodeOf(millwright, name)), namespace: millwright.namespace };
  const isUpdated = ({ metadata }: Machine) => metadata.labels?.[labels.updateResult] !== undefined;
  await millwright.untilMachine(key, 'belongs to the new set', isUpdated, beginMs);
  await millwright.untilNode(key, 'has the taint of its critical components', isStartingUp, beginMs);
};

/** The critical components of the Node are ready. */
const readyNode: Begin = async (millwright, name) => {
  const { spec, metadata } = await millwright.target.get(nodes, await nodeOf(millwright, name));
  const left = spec?.taints?.filter(({ key }) => key !== taints.criticalComponentsNotReady.key);
  await edit(nodes, { spec: { taints: left } })(millwright, metadata.name);
};

/** A Machine that fails soon. */
const runFailing: Begin = (millwright, name) => runMachine(millwright, name, { healthTimeout: '1s' });

/** A Machine that is preserved fails: its Node is cordoned and drained. */
const failPreserved: Begin = async (millwright, name) => {
  await edit(machines, annotate(annotations.preserve, 'now'))(millwright, name);
  await setBad(millwright, name, 'True');
};

/** A Machine that has failed and is preserved, with its Node cordoned. */
const keepFailed: Begin = async (millwright, name) => {
  await runFailing(millwright, name);
  await failPreserved(millwright, name);
  const isDrained = ({ status }: Node) =>
    status?.conditions?.some(({ message }) => message?.startsWith('Preserved node drained'));
  await millwright.untilNode({ name }, 'is drained', isDrained, beginMs);
};

/** A deployment with a machine whose Node is unhealthy for longer than it may be. */
const failNode: Begin = async (millwright, name) =>
  setBad(millwright, (await machineOf(millwright, name)).metadata.name, 'True');

const ofMetadata = (on: string, field: string, row: Partial<Row> = {}): Row => ({
  on,
  field: `metadata.${field}`,
  ...row,
});
const ofStatus = (resource: string, field: string, row: Partial<Row> = {}): Row => ({
  on: `${resource}/status`,
  field: `status.${field}`,
  ...row,
});
const annotation = (on: string, key: string, row: Partial<Row> = {}): Row =>
  ofMetadata(on, 'annotations', { key, ...row });

const hidden = { isHidden: true } as const;
const deployed = { begin: createDeployment, ofOwner: true } as const;
const deleted = { before: runMachine, begin: deletion(machines) } as const;
const ofOwned = { ofOwner: true, byMachine: true } as const;
const inUpdate = { before: inPlace, begin: newVersion, isLeft: true } as const;
const afterUpdate = { before: untilUpdateIsDue, begin: succeed, isLeft: true } as const;
const rolledOut = { before: rollOut(), ofOwner: true } as const;

export const rows: Readonly<Record<string, Row>> = {
  // A Machine that is created, runs and is deleted.
  nodefin: ofMetadata('nodes', 'finalizers', { perTry: 2 }),
  nodelabel: ofMetadata('nodes', 'labels'),
  nodenote: ofMetadata('nodes', 'annotations', {
    begin: (m, name) => createMachine(m, name, { class: classOf('virtual') }),
  }),
  nodetaint: { on: 'nodes', field: 'spec.taints' },
  capacity: ofStatus('nodes', 'capacity', {
    begin: (m, name) => createMachine(m, name, { class: classOf('virtual') }),
  }),
  cordon: { on: 'nodes', field: 'spec.unschedulable', ...deleted, ...hidden },
  terminating: ofStatus('nodes', 'conditions', { ...deleted, ...hidden }),
  nodegone: ofMetadata('nodes', '$deleteFromPrimitiveList/finalizers', { ...deleted, ...hidden }),
  nodedel: { on: 'nodes', field: 'delete', ...deleted, ...hidden },
  finalizer: ofMetadata('machines', 'finalizers'),
  release: ofMetadata('machines', 'finalizers', deleted),
  nodename: ofMetadata('machines', 'labels'),
  notes: ofMetadata('machines', 'annotations', hidden),
  providerid: { on: 'machines', field: 'spec.providerID' },
  phase: ofStatus('machines', 'currentStatus', { key: 'phase' }),
  phasegone: ofStatus('machines', 'currentStatus', { key: 'phase', ...deleted }),
  stripped: ofMetadata('machines', 'finalizers', {
    ...{ before: runMachine, begin: edit(machines, { metadata: { finalizers: null } }) },
  }),
  place: ofMetadata('machines', 'annotations', {
    async before(millwright, name) {
      const { control, namespace } = millwright;
      const { providerSpec } = await control.get(machineClasses, { namespace, name: 'sold-out' });
      await millwright.createClass(name, { providerSpec });
      const ref = await createMachine(millwright, name, { class: classOf(name) });
      const isRefused = ({ status }: Machine) => status?.lastOperation?.errorCode === 'ResourceExhausted';
      await millwright.untilMachine(ref, 'is refused', isRefused, beginMs);
    },
    begin: edit(machineClasses, { providerSpec: { tags: { edited: 'yes' } } }),
    ...{ ...hidden, isLeft: true },
  }),
  signed: annotation('machines', names.placesSignature, {
    before: runMachine,
    begin: edit(machines, { metadata: { annotations: { [names.placesSignature]: null } } }),
    ...hidden,
  }),
  since: ofStatus('machines', 'currentStatus', { key: 'lastUpdateTime', ...hidden }),
  operation: ofStatus('machines', 'lastOperation', hidden),
  conditions: ofStatus('machines', 'conditions'),
  leftnodes: ofMetadata('machines', 'annotations', {
    before: runMachine,
    async begin(millwright, name) {
      await makeVm(millwright, `${name}-other`, { uid: (await find(millwright, name)).metadata.uid });
      await deletion(machines)(millwright, name);
    },
    ...hidden,
  }),
  followed: { on: 'machines', field: 'delete', before: runMachine, begin: deletion(nodes) },
  lost: annotation('machineclasses', names.lostMachine, {
    async before(millwright, name) {
      await useClass(millwright, name);
      await millwright.untilPhase(await find(millwright, name).then(refOf), 'Running', beginMs);
    },
    async begin(millwright, name) {
      await edit(machines, { metadata: { finalizers: null } })(millwright, name);
      await deletion(machines)(millwright, name);
    },
    ...hidden,
  }),
  interrupted: {
    ...{ on: 'nodes', field: 'spec.taints', before: runMachine, ...hidden },
    async begin(millwright, name) {
      const machine = await find(millwright, name);
      const interruption = { providerID: machine.spec?.providerID ?? '', reason: 'test' };
      await millwright.handleOf(refOf(machine)).signal(interruptedSignal, interruption);
    },
  },
  unmanaged: annotation('nodes', annotations.notManaged, {
    ...{ before: runMachine, begin: edit(nodes, annotate(annotations.notManaged, '1')), ...hidden },
  }),

  // A drain.
  evicted: {
    ...{ on: 'pods/eviction', field: 'create', before: runWithPod, begin: deletion(machines), isLeft: true },
    shows: {
      doing: 'draining the node',
      waitingFor: 'its pods to be gone: the pending activity drainNode shows which',
    },
  },
  refused: {
    ...{ on: 'pods', field: 'delete', begin: deletion(machines), isLeft: true, ...hidden },
    async before(millwright, name) {
      await runMachine(millwright, name, { maxEvictRetries: 0 });
      await guardNode(millwright.target, millwright.namespace, name, { name, expectedPods: 2 });
    },
  },
  killed: { on: 'pods', field: 'delete', before: runWithPod, begin: forceDeletion, ...hidden },
  volume: {
    ...{ on: 'volumeattachments', field: 'delete', begin: forceDeletion, ...hidden },
    async before(millwright, name) {
      await runMachine(millwright, name);
      const spec = { attacher: 'csi.example.com', nodeName: name, source: { persistentVolumeName: name } };
      await millwright.target.create(volumeAttachments, { metadata: { name }, spec });
    },
  },

  // A machine that is preserved.
  expiry: ofStatus('machines', 'currentStatus', {
    ...{ key: 'preserveExpiryTime', perTry: 2, before: runMachine },
    begin: edit(machines, annotate(annotations.preserve, 'now')),
  }),
  keptcond: ofStatus('nodes', 'conditions', {
    ...{ before: runMachine, begin: edit(machines, annotate(annotations.preserve, 'now')) },
  }),
  keptmark: ofMetadata('nodes', 'annotations', {
    ...{ before: runMachine, begin: edit(machines, annotate(annotations.preserve, 'now')) },
  }),
  keptnote: annotation('machines', annotations.lastAppliedNodePreserveValue, {
    ...{ before: runMachine, begin: edit(nodes, annotate(annotations.preserve, 'when-failed')) },
  }),
  failednote: annotation('machines', annotations.lastAppliedNodePreserveValue, {
    before: runFailing,
    async begin(millwright, name) {
      await edit(nodes, annotate(annotations.preserve, 'when-failed'))(millwright, name);
      await setBad(millwright, name, 'True');
    },
    ...{ perTry: 2, isLeft: true },
  }),
  cordonnote: annotation('nodes', names.cordonedBy, { before: runFailing, begin: failPreserved, isLeft: true }),
  uncordon: {
    ...{ on: 'nodes', field: 'spec.unschedulable', before: keepFailed },
    begin: (millwright, name) => setBad(millwright, name, 'False'),
  },

  // User data, tokens, classes and their Secrets.
  userdata: { on: 'secrets', field: 'create', begin: useToken, perTry: 2, isLeft: true, ...hidden },
  owneddata: ofMetadata('secrets', 'labels', { begin: useToken, perTry: 2, isLeft: true, ...hidden }),
  datanote: ofMetadata('secrets', 'annotations', { begin: useToken, perTry: 4, ...hidden }),
  datadel: { on: 'secrets', field: 'delete', begin: useToken, perTry: 2, ...hidden },
  tokentime: {
    ...{ on: 'secrets', field: 'stringData', begin: (m, name) => useToken(m, name, 'sold-out') },
    ...{ perTry: 4, ...hidden, isLeft: true },
  },
  verdict: ofMetadata('machineclasses', 'annotations', { begin: (m, name) => m.createClass(name), ...hidden }),
  vmtags: annotation('machines', names.vmTags, {
    async before(millwright, name) {
      await useClass(millwright, name, { provider: 'tagging' });
      await millwright.untilPhase(await find(millwright, name).then(refOf), 'Running', beginMs);
    },
    begin: edit(machineClasses, { providerSpec: { tags: { edited: 'yes' } } }),
    perTry: 2,
    ...hidden,
  }),
  classfin: ofMetadata('machineclasses', 'finalizers', { begin: (m, name) => useClass(m, name), ...hidden }),
  classgone: ofMetadata('machineclasses', 'finalizers', {
    async before(millwright, name) {
      await useClass(millwright, name);
      const ref = refOf(await find(millwright, name));
      await millwright.untilPhase(ref, 'Running', beginMs);
      await deletion(machines)(millwright, name);
      await millwright.untilGone(ref, beginMs);
    },
    begin: deletion(machineClasses),
    ...hidden,
  }),
  secretfin: ofMetadata('secrets', 'finalizers', { begin: useSecret, ...hidden }),
  secretgone: ofMetadata('secrets', 'finalizers', {
    async before(millwright, name) {
      await useSecret(millwright, name);
      await untilBegun('it has the finalizer', async (see) => {
        const { metadata } = see(await millwright.control.get(secrets, { namespace: millwright.namespace, name }));
        return metadata.finalizers !== undefined;
      });
    },
    begin: edit(machineClasses, { secretRef: { name: 'pool' } }),
    ...hidden,
  }),

  // A MachineDeployment and its MachineSet.
  created: { on: 'machines', field: 'create', ...deployed },
  owner: ofMetadata('machines', 'ownerReferences', deployed),
  setting: { on: 'machines', field: 'spec.drainTimeout', ...rolledOut, begin: changeSetting },
  deldown: { on: 'machines', field: 'delete', ...rolledOut, begin: (millwright, name) => millwright.scale(name, 0) },
  disowned: ofMetadata('machines', 'ownerReferences', {
    ...rolledOut,
    async begin(millwright, name) {
      const { metadata } = await machineOf(millwright, name);
      await edit(machines, { metadata: { labels: { [labels.name]: `${name}-no-more` } } })(millwright, metadata.name);
    },
  }),
  listed: annotation('machinedeployments', annotations.triggerDeletion, {
    ...rolledOut,
    begin: edit(machineDeployments, annotate(annotations.triggerDeletion, `none~${new Date().toISOString()}`)),
  }),
  priority: annotation('machines', annotations.priority, { ...rolledOut, begin: listMachine }),
  marktime: annotation('machines', annotations.markedForDeletionTime, { ...rolledOut, begin: listMachine }),
  replaced: annotation('machines', names.replace, {
    ...{ before: rollOut({}, { healthTimeout: '1s' }), begin: failNode, ofOwner: true, isLeft: true },
  }),
  autokept: annotation('machines', annotations.preserve, {
    ...{
      before: rollOut({ autoPreserveFailedMachineMax: 1 }, { healthTimeout: '1s' }),
      begin: failNode,
      ofOwner: true,
    },
    isLeft: true,
  }),
  faileddel: {
    on: 'machines',
    field: 'delete',
    begin: (m, name) => createDeployment(m, name, {}, failing),
    ofOwner: true,
    isLeft: true,
  },
  replacednote: annotation('machines', names.replaced, {
    ...{ begin: (m, name) => createDeployment(m, name, {}, failing), ofOwner: true, ...hidden, isLeft: true },
  }),
  attempts: annotation('machinesets', names.failedAttempts, {
    ...{ begin: (m, name) => createDeployment(m, name, {}, failing), ofOwner: true, isLeft: true },
    shows: { waitsFor: expect.stringContaining('gets no machine before') },
  }),
  setcreated: { on: 'machinesets', field: 'create', ...deployed },
  setfin: ofMetadata('machinesets', 'finalizers', deployed),
  setowner: ofMetadata('machinesets', 'ownerReferences', deployed),
  setnotes: ofMetadata('machinesets', 'annotations', deployed),
  setsize: { on: 'machinesets', field: 'spec.replicas', ...deployed },
  settemplate: { on: 'machinesets', field: 'spec.template', ...rolledOut, begin: changeSetting },
  setcopies: ofMetadata('machinesets', 'annotations', {
    ...rolledOut,
    begin: edit(machineDeployments, {
      metadata: { annotations: { [names.rollbackWhenLate]: 'false', [names.rolledBack]: 'none' } },
    }),
  }),
  setgen: ofStatus('machinesets', 'observedGeneration', deployed),
  setcount: ofStatus('machinesets', 'availableReplicas', { ...deployed, ...hidden }),
  setname: ofStatus('machinedeployments', 'collisionCount', {
    ofOwner: true,
    before: (millwright, name) => createDeployment(millwright, name, { paused: true }),
    async begin(millwright, name) {
      const { namespace } = millwright;
      const { template } = (await millwright.deployment(name)).spec ?? {};
      const matchLabels = { [labels.name]: `${name}-other` };
      await millwright.control.create(machineSets, {
        metadata: { namespace, name: newSetName(name, templateHash(gardener, template)) },
        spec: { replicas: 0, selector: { matchLabels }, template: { ...template, metadata: { labels: matchLabels } } },
      });
      await millwright.changeDeployment(name, { spec: { paused: false } });
    },
  }),
  setdel: {
    ...{ on: 'machinesets', field: 'delete', before: rollOut({ revisionHistoryLimit: 0 }), ofOwner: true },
    begin: newVersion,
  },
  setleft: ofMetadata('machinesets', 'finalizers', {
    ofOwner: true,
    async before(millwright, name) {
      await rollOut()(millwright, name);
      await roll(millwright, name);
    },
    begin: async (millwright, name) => deletion(machineSets)(millwright, (await setOf(millwright, name)).metadata.name),
  }),
  complete: annotation('machinesets', names.completed, {
    ...{ before: rollOut(), begin: edit(machineDeployments, annotate(names.rollbackWhenLate, 'true')), ofOwner: true },
  }),
  depfin: ofMetadata('machinedeployments', 'finalizers', deployed),
  depgone: ofMetadata('machinedeployments', 'finalizers', {
    ...{ before: rollOut(), begin: deletion(machineDeployments), ofOwner: true },
  }),
  setsleft: ofMetadata('machinesets', 'finalizers', {
    ...{ before: rollOut(), begin: deletion(machineDeployments), ofOwner: true, ...hidden, isLeft: true },
  }),
  setsgone: { on: 'machinesets', field: 'delete', ...rolledOut, begin: deletion(machineDeployments), ...hidden },
  depnotes: ofMetadata('machinedeployments', 'annotations', deployed),
  depcount: ofStatus('machinedeployments', 'availableReplicas', { ...deployed, ...hidden }),
  depgen: ofStatus('machinedeployments', 'observedGeneration', deployed),
  depcond: ofStatus('machinedeployments', 'conditions', { ...deployed, perTry: 2 }),
  revised: annotation('machinesets', annotations.revision, {
    ofOwner: true,
    async before(millwright, name) {
      await rollOut()(millwright, name);
      await roll(millwright, name);
    },
    begin: edit(machineDeployments, { spec: { template: { metadata: { annotations: { version: null } } } } }),
  }),
  rollback: {
    ...{ on: 'machinedeployments', field: 'spec.rollbackTo', ...rolledOut },
    begin: edit(machineDeployments, { spec: { rollbackTo: { revision: 1 } } }),
  },
  rolledback: {
    ...{ on: 'machinedeployments', field: 'spec.template', ofOwner: true, isLeft: true },
    async before(millwright, name) {
      await rollOut({ progressDeadlineSeconds: 8 })(millwright, name);
      await edit(machineDeployments, annotate(names.rollbackWhenLate, 'true'))(millwright, name);
      await untilBegun('its completion is recorded', async () => {
        return (await setOf(millwright, name)).metadata.annotations?.[names.completed];
      });
    },
    begin: edit(machineDeployments, toClass('sold-out')),
    ...hidden,
  },
  marktaint: {
    on: 'nodes',
    field: 'spec.taints',
    ...rolledOut,
    begin: edit(machineDeployments, toClass('sold-out')),
    ...hidden,
    isLeft: true,
  },
  marknote: ofMetadata('nodes', 'annotations', {
    ...{ ...rolledOut, begin: edit(machineDeployments, toClass('sold-out')), ...hidden, isLeft: true },
  }),
  frozen: ofMetadata('machinesets', 'labels', { ...rolledOut, begin: overshoot, ...hidden, isLeft: true }),
  frozencond: ofStatus('machinesets', 'machineSetCondition', {
    ...rolledOut,
    begin: overshoot,
    ...hidden,
    isLeft: true,
  }),
  depfrozencond: ofStatus('machinedeployments', 'conditions', {
    ...rolledOut,
    begin: overshoot,
    ...hidden,
    isLeft: true,
  }),
  depfrozen: ofMetadata('machinedeployments', 'labels', { ...rolledOut, begin: overshoot, ...hidden, isLeft: true }),
  thawed: annotation('machinedeployments', annotations.unfreeze, {
    ...{ ...rolledOut, begin: edit(machineDeployments, annotate(annotations.unfreeze, 'yes')), ...hidden },
  }),

  // An update in place.
  candidate: annotation('machines', names.inPlaceUpdate, { ...inUpdate, ofOwner: true }),
  nodeupdate: ofMetadata('nodes', 'labels', { ...inUpdate, ...ofOwned }),
  updatecond: ofStatus('nodes', 'conditions', { ...inUpdate, ...ofOwned }),
  handedover: ofMetadata('machines', 'ownerReferences', { ...afterUpdate, ofOwner: true }),
  handedlabel: ofMetadata('machines', 'labels', {
    ...{ key: labels.templateHash, ...afterUpdate, ofOwner: true, ...hidden },
  }),
  // The Machine asks its owner for the hand-over, and both have their pauses.
  handedmark: ofMetadata('machines', 'labels', { key: labels.updateResult, ...afterUpdate, ...ofOwned, perTry: 2 }),
  nodeupdated: ofMetadata('nodes', 'labels', { key: labels.updateResult, ...afterUpdate, ...ofOwned }),
  markgone: ofMetadata('machines', 'labels', {
    ...{ key: labels.updateResult, before: untilUpdated, begin: readyNode, ...ofOwned },
  }),
};
