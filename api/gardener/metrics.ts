/**
 * The gauges `mcm_*` of machine-controller-manager that show its objects, with its names and labels
 * (v0.60, pkg/metrics and pkg/util/provider/metrics). Unlike there, the series of a deleted object end with it,
 * those of machines that have failed end when they are gone, and `mcm_machine_set_status_replicas` counts replicas.
 */
import type { MachineChange, MachineMetric, ObjectMetric, Sample, ToLive, WatchedObjects } from '../metrics.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { deletionSteps, descriptions, labels } from './names.ts';
import type { Machine } from './schema/machine.ts';
import type { MachineClass } from './schema/machine-class.ts';
import type { MachineDeployment } from './schema/machine-deployment.ts';
import type { MachineSet } from './schema/machine-set.ts';

/** Phases as machine-controller-manager numbers them; any other one is 0. */
const phaseNumbers = new Map([
  ['Terminating', -4],
  ['Failed', -3],
  ['CrashLoopBackOff', -2],
  ['Unknown', -1],
  ['Pending', 0],
  ['Running', 1],
]);
const statusNumbers = new Map([
  ['False', 0],
  ['True', 1],
  ['Unknown', 2],
]);

const key = ['name', 'namespace'] as const;
const failedLabels = [
  ...key,
  ...['failed_machine_name', 'failed_machine_provider_id', 'failed_machine_owner_ref'],
  ...['failed_machine_last_operation_state', 'failed_machine_last_operation_machine_operation_type'],
] as const;

const ofMachines = ({ machines }: WatchedObjects): readonly Machine[] => machines;
const ofSets = ({ sets }: WatchedObjects) => sets as readonly MachineSet[];
const ofDeployments = ({ deployments }: WatchedObjects) => deployments as readonly MachineDeployment[];

/** What a metric says of one object; undefined: nothing. */
type Reading<T> = (object: T) => number | undefined;

/** A gauge with a value for each object of a kind. */
function perObject<T extends KubeObject>(
  list: (objects: WatchedObjects) => readonly T[],
  name: string,
  help: string,
  read: Reading<T>,
): ObjectMetric {
  return several(list, name, help, [], (object) => {
    const value = read(object);
    return value === undefined ? [] : [{ labels: {}, value }];
  });
}

/** A gauge with any number of values for each object. */
function several<T extends KubeObject>(
  list: (objects: WatchedObjects) => readonly T[],
  name: string,
  help: string,
  more: readonly string[],
  read: (object: T) => readonly Sample[],
): ObjectMetric {
  return {
    name: `mcm_${name}`,
    help,
    labelNames: [...key, ...more],
    samplesOf: (objects) =>
      list(objects).flatMap((object) => {
        const { name, namespace = '' } = object.metadata;
        return read(object).map((sample) => ({ ...sample, labels: { name, namespace, ...sample.labels } }));
      }),
  };
}

function count(list: (objects: WatchedObjects) => readonly KubeObject[], name: string, help: string): ObjectMetric {
  return {
    name: `mcm_${name}`,
    help,
    labelNames: [],
    samplesOf: (objects) => [{ labels: {}, value: list(objects).length }],
  };
}

const createdAt = ({ metadata }: KubeObject) => String(Math.floor(Date.parse(metadata.creationTimestamp) / 1000));

function conditionSamples(conditions: readonly { type: string; status: string }[] | undefined): Sample[] {
  return (conditions ?? []).map(({ type, status }) => ({
    labels: { condition: type },
    value: statusNumbers.get(status) ?? 0,
  }));
}

interface FailedMachine {
  readonly name?: string | undefined;
  readonly providerID?: string | undefined;
  readonly ownerRef?: string | undefined;
  readonly lastOperation?: { readonly state?: string | undefined; readonly type?: string | undefined } | undefined;
}

function failedSamples(machines: readonly FailedMachine[] | null | undefined): Sample[] {
  return (machines ?? []).map(
    ({ name = '', providerID = '', ownerRef = '', lastOperation: { state = '', type = '' } = {} }) => ({
      labels: {
        ...{ failed_machine_name: name, failed_machine_provider_id: providerID, failed_machine_owner_ref: ownerRef },
        failed_machine_last_operation_state: state,
        failed_machine_last_operation_machine_operation_type: type,
      },
      value: 1,
    }),
  );
}

const number = (value: number | string | null | undefined): number | undefined =>
  value === null || value === undefined ? undefined : Number.parseInt(String(value), 10) || 0;

export const objectMetrics: readonly ObjectMetric[] = [
  count(ofMachines, 'machine_items_total', 'Machines that are managed.'),
  {
    name: 'mcm_machine_controller_frozen',
    help: '1 while the API server of the Nodes does not answer, so that no machine is judged by its Node.',
    labelNames: [],
    samplesOf: ({ isFrozen }) => [{ labels: {}, value: isFrozen ? 1 : 0 }],
  },
  perObject(
    ofMachines,
    'machine_current_status_phase',
    'Phase of a machine: -4 Terminating, -3 Failed, -2 CrashLoopBackOff, -1 Unknown, 0 Pending or any other, 1 Running.',
    ({ status }) => phaseNumbers.get(status?.currentStatus?.phase ?? '') ?? 0,
  ),
  several(
    ofMachines,
    'machine_info',
    'A machine: 1.',
    ['createdAt', 'spec_provider_id', 'spec_class_api_group', 'spec_class_kind', 'spec_class_name', 'node_name'],
    (machine) => {
      const { class: source, providerID = '' } = machine.spec ?? {};
      return [
        {
          labels: {
            ...{ createdAt: createdAt(machine), spec_provider_id: providerID },
            spec_class_api_group: source?.apiGroup ?? '',
            spec_class_kind: source?.kind ?? '',
            spec_class_name: source?.name ?? '',
            node_name: machine.metadata.labels?.[labels.node] ?? '',
          },
          value: 1,
        },
      ];
    },
  ),
  several(
    ofMachines,
    'machine_status_condition',
    'A condition of a machine: 0 False, 1 True, 2 Unknown.',
    ['condition'],
    ({ status }) => conditionSamples(status?.conditions),
  ),
  count(ofSets, 'machine_set_items_total', 'MachineSets that are managed.'),
  several(
    ofSets,
    'machine_set_info',
    'A MachineSet: 1.',
    ['createdAt', 'spec_machine_class_api_group', 'spec_machine_class_kind', 'spec_machine_class_name'],
    (set) => {
      const source = set.spec?.machineClass;
      return [
        {
          labels: {
            createdAt: createdAt(set),
            spec_machine_class_api_group: source?.apiGroup ?? '',
            spec_machine_class_kind: source?.kind ?? '',
            spec_machine_class_name: source?.name ?? '',
          },
          value: 1,
        },
      ];
    },
  ),
  perObject(
    ofSets,
    'machine_set_info_spec_replicas',
    'Machines that a MachineSet shall have.',
    ({ spec }) => spec?.replicas ?? 0,
  ),
  perObject(
    ofSets,
    'machine_set_info_spec_min_ready_seconds',
    'How long a machine of a MachineSet has to be ready to be available.',
    ({ spec }) => spec?.minReadySeconds ?? 0,
  ),
  several(
    ofSets,
    'machine_set_status_condition',
    'A condition of a MachineSet: 0 False, 1 True, 2 Unknown.',
    ['condition'],
    ({ status }) => conditionSamples(status?.machineSetCondition),
  ),
  several(
    ofSets,
    'machine_set_failed_machines',
    'A machine of a MachineSet that has failed: 1.',
    failedLabels.slice(key.length),
    ({ status }) => failedSamples(status?.failedMachines),
  ),
  perObject(
    ofSets,
    'machine_set_status_available_replicas',
    'Available machines of a MachineSet.',
    ({ status }) => status?.availableReplicas ?? 0,
  ),
  perObject(
    ofSets,
    'machine_set_status_fully_labelled_replicas',
    'Machines of a MachineSet that have all labels of its template.',
    ({ status }) => status?.fullyLabeledReplicas ?? 0,
  ),
  perObject(
    ofSets,
    'machine_set_status_ready_replicas',
    'Ready machines of a MachineSet.',
    ({ status }) => status?.readyReplicas ?? 0,
  ),
  perObject(ofSets, 'machine_set_status_replicas', 'Machines of a MachineSet.', ({ status }) => status?.replicas ?? 0),
  count(ofDeployments, 'machine_deployment_items_total', 'MachineDeployments that are managed.'),
  several(
    ofDeployments,
    'machine_deployment_info',
    'A MachineDeployment: 1.',
    ['createdAt', 'spec_strategy_type'],
    (deployment) => [
      {
        labels: { createdAt: createdAt(deployment), spec_strategy_type: deployment.spec?.strategy?.type ?? '' },
        value: 1,
      },
    ],
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_paused',
    'Whether a MachineDeployment is paused.',
    ({ spec }) => (spec?.paused === true ? 1 : 0),
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_replicas',
    'Machines that a MachineDeployment shall have.',
    ({ spec }) => spec?.replicas ?? 0,
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_min_ready_seconds',
    'How long a machine of a MachineDeployment has to be ready to be available.',
    ({ spec }) => spec?.minReadySeconds ?? 0,
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_rolling_update_max_surge',
    'spec.strategy.rollingUpdate.maxSurge of a MachineDeployment; of a percentage the number.',
    ({ spec }) => (isRolling(spec) ? (number(spec?.strategy?.rollingUpdate?.maxSurge) ?? 0) : undefined),
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_rolling_update_max_unavailable',
    'spec.strategy.rollingUpdate.maxUnavailable of a MachineDeployment; of a percentage the number.',
    ({ spec }) => (isRolling(spec) ? (number(spec?.strategy?.rollingUpdate?.maxUnavailable) ?? 0) : undefined),
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_revision_history_limit',
    'Old MachineSets that a MachineDeployment keeps.',
    ({ spec }) => number(spec?.revisionHistoryLimit),
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_progress_deadline_seconds',
    'How long a MachineDeployment may make no progress.',
    ({ spec }) => number(spec?.progressDeadlineSeconds),
  ),
  perObject(
    ofDeployments,
    'machine_deployment_info_spec_rollback_to_revision',
    'Revision to which a MachineDeployment is to be taken back.',
    ({ spec }) => (spec?.rollbackTo ? (spec.rollbackTo.revision ?? 0) : undefined),
  ),
  several(
    ofDeployments,
    'machine_deployment_status_condition',
    'A condition of a MachineDeployment: 0 False, 1 True, 2 Unknown.',
    ['condition'],
    ({ status }) => conditionSamples(status?.conditions),
  ),
  several(
    ofDeployments,
    'machine_deployment_failed_machines',
    'A machine of a MachineDeployment that has failed: 1.',
    failedLabels.slice(key.length),
    ({ status }) => failedSamples(status?.failedMachines),
  ),
  ...(['available', 'unavailable', 'ready', 'updated'] as const).map((which) =>
    perObject(
      ofDeployments,
      `machine_deployment_status_${which}_replicas`,
      `${which.charAt(0).toUpperCase()}${which.slice(1)} machines of a MachineDeployment.`,
      ({ status }) => status?.[`${which}Replicas`] ?? 0,
    ),
  ),
  perObject(
    ofDeployments,
    'machine_deployment_status_replicas',
    'Machines of a MachineDeployment.',
    ({ status }) => status?.replicas ?? 0,
  ),
  perObject(
    ofDeployments,
    'machine_deployment_status_collision_count',
    'How often the name for a new MachineSet of a MachineDeployment was used already.',
    ({ status }) => number(status?.collisionCount),
  ),
];

function isRolling(spec: MachineDeployment['spec']): boolean {
  return (spec?.strategy?.type ?? 'RollingUpdate') === 'RollingUpdate';
}

const zoneLabel = 'topology.kubernetes.io/zone';
const machineLabels = ['namespace', 'machine_deployment', 'instance_type', 'zone'] as const;

/** How long something took, for the series of a deployment, instance type and zone. */
function duration(what: string, help: string, secondsOf: (change: MachineChange) => number | undefined): MachineMetric {
  return {
    ...{ name: `mcm_machine_${what}_duration_seconds`, help, type: 'gauge', labelNames: machineLabels },
    sampleOf(change) {
      const seconds = secondsOf(change);
      return seconds === undefined ? undefined : sampleOfDeployment(change, seconds);
    },
  };
}

/**
 * As in machine-controller-manager the label `name` is the deployment, and machines without a deployment are in no
 * series. Where there is no such label, which it needs, the deployment is that of the MachineSet.
 */
function sampleOfDeployment({ object, source, deployment }: MachineChange, value: number): Sample | undefined {
  const { namespace = '', labels: own } = object.metadata;
  const machineDeployment = own?.[labels.name] ?? deployment;
  if (machineDeployment === undefined) return undefined;
  return {
    labels: {
      ...{ namespace, machine_deployment: machineDeployment },
      instance_type: (source as MachineClass | undefined)?.nodeTemplate?.instanceType ?? '',
      zone: (object as Machine).spec?.nodeTemplate?.metadata?.labels?.[zoneLabel] ?? '',
    },
    value,
  };
}

const phaseOf = (machine: Machine) => machine.status?.currentStatus?.phase ?? '';
const phaseMs = (machine: Machine) => Date.parse(machine.status?.currentStatus?.lastUpdateTime ?? '');

/** Whether its VM exists and its set-up was refused. */
const isBeingSetUp = ({ status }: Machine) =>
  status?.lastOperation?.description?.startsWith(descriptions.initializing) === true;

const deletesVm = ({ status }: Machine) => status?.lastOperation?.description === deletionSteps.deleteVm;

function entered({ previous, object }: MachineChange, phase: string): boolean {
  return phaseOf(object) === phase && phaseOf(previous) !== phase;
}

/** Seconds between two times, to a tenth; undefined where one of them is unknown. */
function secondsBetween(startMs: number, endMs: number): number | undefined {
  const seconds = Math.round((endMs - startMs) / 100) / 10;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

/** The series of a deployment end when neither it nor a machine of its name is left. */
export const toLive: ToLive = ({ machines, deployments }) => {
  const keyOf = (namespace = '', name = '') => `${namespace}/${name}`;
  const live = new Set([
    ...machines.map(({ metadata }) => keyOf(metadata.namespace, metadata.labels?.[labels.name])),
    ...(deployments as readonly MachineDeployment[]).flatMap(({ metadata: { namespace, name }, spec }) => [
      keyOf(namespace, name),
      keyOf(namespace, spec?.template?.metadata?.labels?.[labels.name]),
    ]),
  ]);
  return ({ namespace, machine_deployment: name }) => name === undefined || live.has(keyOf(namespace, name));
};

/** How long something took, of all Machines together. */
function timeTo(what: string, help: string, secondsOf: (change: MachineChange) => number | undefined): MachineMetric {
  return {
    ...{ name: `millwright_machine_time_to_${what}_seconds`, help, type: 'histogram', labelNames: [] },
    sampleOf(change) {
      const value = secondsOf(change);
      return value === undefined ? undefined : { labels: {}, value };
    },
  };
}

/** Phases of a Machine that has not run yet. */
const notRunYet: readonly string[] = ['', 'Pending', 'CrashLoopBackOff'];

/** What machine-controller-manager counts while it works, as the changes of its Machines show it, and times for SLOs. */
export const machineMetrics: readonly MachineMetric[] = [
  timeTo('running', 'From the creation of a Machine until it was Running.', (change) =>
    entered(change, 'Running') && notRunYet.includes(phaseOf(change.previous))
      ? secondsBetween(Date.parse(change.object.metadata.creationTimestamp), phaseMs(change.object))
      : undefined,
  ),
  timeTo(
    'replace',
    'From the request of an unhealthy Machine to be replaced, or else from its deletion after it had failed, until it was gone.',
    ({ object: { metadata }, isGone, nowMs }) => {
      const { deletionTimestamp = '', annotations = {} } = metadata;
      if (!isGone || annotations[names.replaced] === undefined) return undefined;
      return secondsBetween(Date.parse(annotations[names.replace] ?? deletionTimestamp), nowMs);
    },
  ),
  timeTo('drain', 'From the deletion of a Machine until its VM was being deleted.', ({ previous, object, nowMs }) =>
    deletesVm(object) && !deletesVm(previous)
      ? secondsBetween(Date.parse(object.metadata.deletionTimestamp ?? ''), nowMs)
      : undefined,
  ),
  duration('create', 'From the creation of a Machine until the cloud had accepted its VM, last value.', (change) =>
    entered(change, 'Pending')
      ? secondsBetween(Date.parse(change.object.metadata.creationTimestamp), phaseMs(change.object))
      : undefined,
  ),
  duration(
    'initialize',
    'From the acceptance of its VM until that was set up, last value; 0 where the same call did both.',
    (change) => {
      if (!entered(change, 'Pending')) return undefined;
      return isBeingSetUp(change.previous) ? secondsBetween(phaseMs(change.previous), phaseMs(change.object)) : 0;
    },
  ),
  duration('join', 'From the acceptance of its VM until its Node was healthy, last value.', (change) =>
    entered(change, 'Running') && phaseOf(change.previous) === 'Pending'
      ? secondsBetween(phaseMs(change.previous), phaseMs(change.object))
      : undefined,
  ),
  duration('delete', 'From the deletion of a Machine until nothing was left of it, last value.', (change) => {
    const { deletionTimestamp } = change.object.metadata;
    if (!change.isGone || deletionTimestamp === undefined) return undefined;
    return secondsBetween(Date.parse(deletionTimestamp), change.nowMs);
  }),
  {
    ...{ name: 'mcm_machine_drain_duration_seconds', type: 'gauge', labelNames: machineLabels.slice(0, 2) },
    help: 'From the deletion of a Machine until its VM was being deleted, last value.',
    sampleOf(change) {
      const { previous, object } = change;
      const { deletionTimestamp = '' } = object.metadata;
      if (!deletesVm(object) || deletesVm(previous)) return undefined;
      const seconds = secondsBetween(Date.parse(deletionTimestamp), change.nowMs);
      const sample = seconds === undefined ? undefined : sampleOfDeployment(change, seconds);
      if (sample === undefined) return undefined;
      const { namespace = '', machine_deployment = '' } = sample.labels;
      return { ...sample, labels: { namespace, machine_deployment } };
    },
  },
  {
    ...{ name: 'mcm_machine_num_failed_join', type: 'counter', labelNames: machineLabels },
    help: 'Machines whose Node was not healthy before their creation timeout.',
    sampleOf: (change) =>
      entered(change, 'Failed') && phaseOf(change.previous) === 'Pending' ? sampleOfDeployment(change, 1) : undefined,
  },
  {
    ...{ name: 'mcm_machine_stale_machines_total', type: 'counter', labelNames: [] },
    help: 'Machines that were deleted because they had failed.',
    sampleOf: ({ previous, object }) =>
      previous.metadata.deletionTimestamp === undefined &&
      object.metadata.deletionTimestamp !== undefined &&
      object.metadata.annotations?.[names.replaced] !== undefined
        ? { labels: {}, value: 1 }
        : undefined,
  },
];
