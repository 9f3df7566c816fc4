/** Gardener's machine-controller-manager (MCM) API, `machine.sapcloud.io/v1alpha1`, as a dialect. */
import type { Dialect } from '../dialect.ts';
import { describe } from './describe.ts';
import { toIdentityPatch } from './machine/identity.ts';
import { planUpdateInPlace } from './machine/in-place-update.ts';
import { toNodePatch, toTaintsPatch } from './machine/node-template.ts';
import { isKept, planPreservation } from './machine/preservation.ts';
import { toMachineSnapshot } from './machine/snapshot.ts';
import { listSources, readSource, secretsOf, sourceNameOf, versionOf, zoneOf } from './machine/source.ts';
import { creationPhase, toEventNote, toStatusPatch } from './machine/status.ts';
import { renderUserData } from './machine/user-data.ts';
import { machineMetrics, objectMetrics, toLive } from './metrics.ts';
import {
  annotations,
  finalizers,
  labels,
  leases,
  type nodeConditionTypes,
  taints,
  type terminatingReasons,
} from './names.ts';
import { ownerDialect } from './owner.ts';
import { machineClasses, machineDeployments, machineSets, machines } from './resources.ts';

const preserved: keyof typeof nodeConditionTypes = 'Preserved';
const updated: keyof typeof nodeConditionTypes = 'InPlaceUpdate';
const terminating: keyof typeof nodeConditionTypes = 'Terminating';
const unhealthy: keyof typeof terminatingReasons = 'Unhealthy';
const otherwise: keyof typeof terminatingReasons = 'ScaleDown';

export const gardener: Dialect = {
  name: 'gardener',
  kinds: { machine: machines, set: machineSets, deployment: machineDeployments, source: machineClasses },
  marks: {
    finalizer: finalizers.machine,
    secretFinalizer: finalizers.secret,
    nodeFinalizer: finalizers.node,
    nodeMachineLabel: labels.machineName,
    notManaged: { key: annotations.notManaged, value: '1' },
    startupTaints: [taints.criticalComponentsNotReady.key],
    terminating: { type: terminating, unhealthy, otherwise },
    ownConditions: [preserved, updated],
    isKept,
  },
  machine: {
    creationPhase,
    toSnapshot: toMachineSnapshot,
    toStatusPatch,
    toEventNote,
    toIdentityPatch,
    toNodePatch,
    toTaintsPatch,
    planPreservation,
    planUpdateInPlace,
  },
  source: { nameOf: sourceNameOf, secretsOf, versionOf, read: readSource, zoneOf, list: listSources, renderUserData },
  owner: ownerDialect,
  describe,
  metrics: { ofObjects: objectMetrics, ofMachines: machineMetrics, toLive },
  policy: { nodeMatch: 'name', leases: [leases.machineControllerManager, leases.machineController] },
};
