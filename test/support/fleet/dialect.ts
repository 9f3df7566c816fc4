/**
 * A second API of machines, `fleet.example.org/v1`, as a dialect: a Machine carries its provider, spec and Secret
 * itself, has no phase in its status, gets another VM when its Node is deleted, and its Node is found by provider ID.
 * It proves that a dialect is one folder.
 */
import type { Dialect, OwnerDialect, SourceDialect } from '../../../api/dialect.ts';
import type { MachineSnapshot, MachineStage } from '../../../api/model/machine.ts';
import type { RolloutProgress } from '../../../api/model/owner.ts';
import { names } from '../../../api/names.ts';
import { secrets } from '../../../api/secret.ts';
import {
  type FleetMachine,
  type FleetMachineSpec,
  fleetDeployments,
  fleetMachines,
  fleetSets,
  group,
} from './resources.ts';

const finalizer = `${group}/machine`;

/** There is no phase: the stage follows from what the status has. */
function stageOf({ metadata, spec, status = {} }: FleetMachine): MachineStage {
  if (metadata.deletionTimestamp !== undefined) return 'deleting';
  if (status.failed) return 'failed';
  if (status.nodeHealthy !== undefined) return status.nodeHealthy ? 'running' : 'unhealthy';
  if (status.error !== undefined) return 'creating';
  return spec?.providerID === undefined ? 'new' : 'joining';
}

/** What its VM is made from, without what Millwright writes. */
function sourceOf({ provider, providerSpec, secretName }: FleetMachineSpec = {}): object {
  return { provider, providerSpec, secretName };
}

const machine: Dialect['machine'] = {
  creationPhase: 'joining',

  toSnapshot(object: FleetMachine, defaults): MachineSnapshot {
    const { metadata, spec = {}, status = {} } = object;
    const { providerID, nodeName } = spec;
    const replacedVm = metadata.annotations?.[names.replacedVm];
    const stage = stageOf(object);
    return {
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
      createdAt: metadata.creationTimestamp,
      managed: metadata.finalizers?.includes(finalizer) === true,
      finalizers: metadata.finalizers ?? [],
      hasPriority: true,
      ...(metadata.deletionTimestamp !== undefined && { deletingSince: metadata.deletionTimestamp }),
      stage,
      phase: stage,
      source: JSON.stringify(sourceOf(spec)),
      ...(spec.provider === undefined && { problem: 'spec.provider is missing: set it to the name of a provider' }),
      onNodeDeleted: 'replaceVm',
      ...(replacedVm !== undefined && { replacedVm }),
      ...(providerID !== undefined && { providerID }),
      ...(nodeName !== undefined && { nodeName }),
      forceDeletion: false,
      limits: defaults,
      conditions: Object.fromEntries((status.conditions ?? []).map(({ type, status: value }) => [type, value])),
      ...(status.lastKnownState !== undefined && { lastKnownState: status.lastKnownState }),
    };
  },

  toStatusPatch(_, { stage, step, lastKnownState }, _now, conditions) {
    const hasJoined = stage === 'running' || stage === 'unhealthy';
    return {
      status: {
        error: step?.state === 'failed' ? { code: step.code, message: step.message ?? step.kind } : null,
        failed: stage === 'failed' ? true : null,
        ...(stage !== 'deleting' && { nodeHealthy: hasJoined ? stage === 'running' : null }),
        ...(lastKnownState !== undefined && { lastKnownState }),
        ...(conditions !== undefined && { conditions }),
      },
    };
  },

  toEventNote: (_, { stage, step }) => step?.message ?? stage,

  toIdentityPatch: (_, { providerID, nodeName }) => ({
    spec: { providerID, ...(nodeName !== undefined && { nodeName }) },
  }),

  toNodePatch: () => undefined,
};

const secretOf = ({ metadata, spec }: FleetMachine) =>
  spec?.secretName ? [{ namespace: metadata.namespace ?? '', name: spec.secretName }] : [];

const source: SourceDialect = {
  nameOf: () => undefined,
  secretsOf: secretOf,
  versionOf: (object: FleetMachine | undefined, found) =>
    JSON.stringify([sourceOf(object?.spec), ...found.map((secret) => secret?.metadata.resourceVersion)]),
  async read(find, { namespace, name }) {
    const object = await find(fleetMachines, { namespace, name });
    const { provider, providerSpec, secretName = '' } = object?.spec ?? {};
    const ref = { namespace, name: secretName };
    const secret = await find(secrets, ref);
    return {
      version: source.versionOf(object, [secret]),
      ...(provider !== undefined && { cloud: { provider, providerSpec, credentials: [ref] } }),
      ...(secret === undefined
        ? { problem: `Secret "${namespace}/${secretName}" does not exist: create it, or correct spec.secretName` }
        : { userData: { ...ref, key: 'userData', personal: false } }),
    };
  },
  async list(list) {
    const machines = await list(fleetMachines);
    return machines.flatMap((object) => {
      const { provider, providerSpec } = object.spec ?? {};
      const { name, uid } = object.metadata;
      return provider === undefined
        ? []
        : [{ object: { name, uid }, provider, providerSpec, credentials: secretOf(object) }];
    });
  },
  renderUserData: async (template) => template,
};

const progresses: readonly RolloutProgress[] = ['created', 'found', 'updated', 'complete', 'late', 'paused', 'resumed'];

const owner: OwnerDialect = {
  keys: {
    templateHash: `${group}/template-hash`,
    revision: `${group}/revision`,
    revisionHistory: `${group}/revision-history`,
    desiredReplicas: `${group}/desired-replicas`,
    maxReplicas: `${group}/max-replicas`,
  },
  annotationsNotCopied: [],
  copiedSpecFields: [],
  strategies: { RollingUpdate: { strategy: 'RollingUpdate', bounds: 'rollingUpdate' } },
  setConditions: 'conditions',
  template: {
    identityOf: (spec: FleetMachineSpec) => sourceOf(spec),
    settingsOf: () => ({}),
    isSameSetting: (_field, a, b) => a === b,
    problemOf: (spec?: FleetMachineSpec) =>
      spec?.provider === undefined
        ? 'spec.template.spec.provider is missing: set it to the name of a provider'
        : undefined,
    creationSecondsOf: () => undefined,
    toMachine: ({ spec }) => ({ annotations: {}, spec: { ...spec?.template?.spec } }),
  },
  machines: {
    stageOf,
    phaseOf: stageOf,
    hasVm: ({ spec }: FleetMachine) => spec?.providerID !== undefined,
    failedToJoin: () => false,
    readySinceMs: ({ metadata }: FleetMachine) => Date.parse(metadata.creationTimestamp),
    operationOf: ({ status }: FleetMachine) => {
      const { code, message = '' } = status?.error ?? {};
      return { ...(code !== undefined && { code }), text: message };
    },
    requestOf: () => undefined,
    isPreserved: () => false,
    isSpared: () => false,
    isMarked: () => false,
    deletionRank: () => [],
  },
  problemOfStrategy: () => undefined,
  isClosed: () => false,
  toProgressCondition: (progress) =>
    progress === 'other'
      ? undefined
      : { status: progress === 'late' ? 'False' : 'True', reason: progress, message: `The rollout is ${progress}.` },
  toProgress: (reason) => progresses.find((known) => known === reason) ?? 'other',
  toFailedMachines: () => ({}),
};

export const fleet: Dialect = {
  name: 'fleet',
  kinds: { machine: fleetMachines, set: fleetSets, deployment: fleetDeployments },
  marks: {
    finalizer,
    nodeFinalizer: `${group}/node`,
    nodeMachineLabel: `${group}/machine-name`,
    startupTaints: [],
    terminating: { type: 'FleetTerminating', unhealthy: 'Unhealthy', otherwise: 'Deleted' },
  },
  machine,
  source,
  owner,
  policy: { nodeMatch: 'providerID', leases: [] },
};
