/** The states in which tests have the played machine-controller-manager (MCM) of mcm.ts leave machines and rollouts. */
import {
  annotations,
  type InPlaceReason,
  inPlaceMessages,
  labels,
  taints,
  updateResults,
} from '../../api/gardener/names.ts';
import { atStep, type McmMachine, type McmRollout, type playMcm, secondsAgo } from './mcm.ts';

const notReady = { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' };
const inAnHour = () => secondsAgo(-3_600);
const exhausted = {
  operation: {
    type: 'Create',
    state: 'Failed',
    description:
      'Cloud provider message - machine codes error: code = [ResourceExhausted] message = [no room for another small]',
  },
  errorCode: 'ResourceExhausted',
};
const unhealthy = {
  operation: {
    type: 'HealthCheck',
    state: 'Processing',
    description: 'Machine <machine> is unhealthy - changing MachinePhase to Unknown. Node conditions: []',
  },
};
const failed = {
  type: 'HealthCheck',
  state: 'Failed',
  description:
    'Machine <machine> health checks failing since last 1s minutes. Updating machine phase to Failed. Node Conditions: []',
};
const cordoned = {
  spec: { unschedulable: true },
  conditions: [
    { type: 'Terminating', status: 'True', reason: 'ScaleDown', message: 'Machine Controller is scaling down machine' },
  ],
};
const terminating = { phase: 'Terminating', isDeleted: true } as const;
const keptFromAutoscaler = { [annotations.scaleDownDisabled]: 'true', [annotations.scaleDownDisabledByMcm]: 'true' };

/** A machine that MCM v0.62 has preserved in Failed: it has cordoned and drained the Node. */
function preservedFailed(reason: string, marks: Pick<McmMachine, 'metadata' | 'node'>): McmMachine {
  const message = 'Preserved node drained successfully. Machine preserved until 2030-01-01 00:00:00 +0000 UTC.';
  const preserved = { type: 'Preserved', status: 'True', reason, message };
  return {
    vm: 'joined',
    phase: 'Failed',
    operation: failed,
    current: { preserveExpiryTime: inAnHour() },
    ...marks,
    node: {
      ...marks.node,
      spec: { unschedulable: true },
      conditions: [notReady, preserved],
    },
  };
}

function inPlaceCondition(reason: InPlaceReason) {
  return { type: 'InPlaceUpdate', status: 'True', reason, message: inPlaceMessages[reason] };
}
const beingUpdated = {
  type: 'InPlaceUpdate',
  state: 'Processing',
  description: 'Machine <machine> is undergoing an in-place update',
};

/** Machines that need nothing. */
export const resting: Readonly<Record<string, McmMachine>> = {
  running: { vm: 'joined', phase: 'Running' },
  'running-too': { vm: 'joined', phase: 'Running' },
  unknown: {
    vm: 'joined',
    phase: 'Unknown',
    ...unhealthy,
    current: { lastUpdateTime: secondsAgo(0) },
    node: { conditions: [notReady] },
  },
  'preserved-failed': preservedFailed('Preserved by user.', {
    metadata: { annotations: { [annotations.lastAppliedNodePreserveValue]: 'now' } },
    node: { metadata: { annotations: { [annotations.preserve]: 'now', ...keptFromAutoscaler } } },
  }),
  'preserved-by-set': preservedFailed('Preserved by MCM.', {
    metadata: { annotations: { [annotations.preserve]: 'auto-preserved' } },
    node: { metadata: { annotations: keptFromAutoscaler } },
  }),
  'preserved-running': {
    vm: 'joined',
    phase: 'Running',
    current: { preserveExpiryTime: inAnHour() },
    metadata: { annotations: { [annotations.preserve]: 'now' } },
    node: {
      metadata: { annotations: keptFromAutoscaler },
      conditions: [
        {
          type: 'Preserved',
          status: 'True',
          reason: 'Preserved by user.',
          message: 'Machine preserved until 2030-01-01 00:00:00 +0000 UTC.',
        },
      ],
    },
  },
  updating: {
    vm: 'joined',
    phase: 'InPlaceUpdating',
    operation: beingUpdated,
    node: {
      metadata: { labels: { [labels.candidateForUpdate]: 'true', [labels.selectedForUpdate]: 'true' } },
      spec: { unschedulable: true },
      conditions: [inPlaceCondition('ReadyForUpdate')],
    },
  },
  available: {
    vm: 'made',
    isLabelled: false,
    phase: 'Available',
    operation: { type: 'Create', state: 'Successful', description: 'Created machine on cloud provider' },
  },
};

/** Creations that are under way, with whether a VM is still to be made. */
export const creating: Readonly<Record<string, McmMachine & { readonly needsVm: boolean }>> = {
  'new-without-vm': { vm: 'none', needsVm: true },
  'refused-without-vm': { vm: 'none', phase: 'CrashLoopBackOff', ...exhausted, needsVm: true },
  'new-with-vm': { vm: 'made', isNamed: false, needsVm: false },
  'refused-with-vm': { vm: 'made', isNamed: false, phase: 'CrashLoopBackOff', ...exhausted, needsVm: false },
  'named-without-phase': { vm: 'made', needsVm: false },
  'not-initialized': {
    vm: 'made',
    phase: 'CrashLoopBackOff',
    operation: {
      type: 'Create',
      state: 'Failed',
      description: 'Provider error: machine codes error: code = [Uninitialized] message = [no]. Initialize VM Instance',
    },
    errorCode: 'Uninitialized',
    needsVm: false,
  },
  pending: {
    vm: 'made',
    phase: 'Pending',
    operation: { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' },
    current: { timeoutActive: true },
    needsVm: false,
  },
};

/** Machines that their owner replaces: one that has failed, and one of the old set of a rollout. */
export const replaced: Readonly<Record<string, McmMachine>> = {
  failed: {
    vm: 'joined',
    phase: 'Failed',
    operation: failed,
    node: { conditions: [notReady] },
  },
  outdated: { vm: 'joined', phase: 'Running' },
};

/** Deletions at every step, also as MCM leaves them where a step was refused. */
export const deleting: Readonly<Record<string, McmMachine>> = {
  'deleted-running': { vm: 'joined', phase: 'Running', isDeleted: true },
  'deleted-by-set': {
    vm: 'joined',
    ...terminating,
    operation: { type: 'Delete', state: 'Processing', description: 'Deleting machine from cloud provider' },
  },
  'at-vm-status': { vm: 'joined', ...terminating, operation: atStep('getVmStatus') },
  'at-vm-status-unnamed': { vm: 'none', ...terminating, operation: atStep('getVmStatus') },
  'at-vm-status-unnamed-with-vm': { vm: 'made', isNamed: false, ...terminating, operation: atStep('getVmStatus') },
  'at-drain': { vm: 'joined', ...terminating, operation: atStep('drain'), node: cordoned },
  'at-refused-drain': {
    vm: 'joined',
    ...terminating,
    operation: {
      ...atStep(
        'drain',
        'Drain failed due to - error while evicting pod "guard": pod disruption budget default/guard is misconfigured and requires zero voluntary evictions. Will retry in next sync. ',
      ),
      state: 'Failed',
    },
    node: cordoned,
  },
  'at-volumes': {
    vm: 'joined',
    ...terminating,
    metadata: { labels: { [labels.forceDeletion]: 'true' } },
    operation: atStep('deleteVolumeAttachments', 'Force Drain successful. '),
    node: cordoned,
  },
  'at-vm': { vm: 'joined', ...terminating, operation: atStep('deleteVm', 'Drain successful. '), node: cordoned },
  'at-refused-vm': {
    vm: 'joined',
    ...terminating,
    operation: {
      ...atStep(
        'deleteVm',
        'VM deletion failed due to - machine codes error: code = [Unavailable] message = [the cloud is down]. However, will re-try in the next resync. ',
      ),
      state: 'Failed',
    },
    node: cordoned,
  },
  'vm-is-gone': {
    vm: 'gone',
    hasNode: true,
    ...terminating,
    operation: atStep('deleteVm', 'Drain successful. '),
    node: cordoned,
  },
  'at-node': {
    vm: 'gone',
    hasNode: true,
    ...terminating,
    operation: atStep('deleteNode', 'VM deletion was successful. '),
    node: cordoned,
  },
  'at-finalizer': {
    vm: 'gone',
    ...terminating,
    operation: atStep('removeFinalizer', 'Deletion of Node Object "<machine>" is successful. '),
  },
};

/** What MCM puts on each Node of a deployment that rolls out, and on those of old sets. */
const kept = { [annotations.scaleDownDisabled]: 'true', [annotations.scaleDownDisabledByMcm]: 'true' };
const fresh: McmMachine = { vm: 'joined', phase: 'Running', node: { metadata: { annotations: kept } } };
const old: McmMachine = { ...fresh, node: { ...fresh.node, spec: { taints: [taints.preferNoSchedule] } } };
const unmarked: McmMachine = { vm: 'joined', phase: 'Running' };
const pending: McmMachine = {
  ...{ vm: 'made', phase: 'Pending', current: { timeoutActive: true } },
  operation: { type: 'Create', state: 'Processing', description: 'Creating machine on cloud provider' },
};
const oldDeleting: McmMachine = {
  ...{ vm: 'joined', phase: 'Terminating', isDeleted: true, operation: atStep('drain') },
  node: { ...old.node, ...cordoned, spec: { ...old.node?.spec, ...cordoned.spec } },
};
const tainted = { annotations: { [annotations.preferNoSchedule]: 'True' } };
/** What MCM leaves of a rollout and its machines. */
export interface McmRolloutLeft extends Omit<McmRollout, 'replicas' | 'strategy' | 'current'> {
  /** Default: 3. */
  readonly replicas?: number;
  /** Default: RollingUpdate with one machine more. */
  readonly strategy?: McmRollout['strategy'];
  /** Default: 2. */
  readonly current?: string;
  /** Machines of each set, the oldest set first. */
  readonly machines: readonly (readonly McmMachine[])[];
}

/** VMs that Millwright is still to make, machines that stay, and what is to be in the objects at the end. */
interface Expected {
  readonly made: number;
  readonly kept: number;
  readonly sets?: number;
  readonly revision: string;
}

const rolling = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };

/** Rollouts of three machines with one more allowed, at the points at which MCM may stop. */
export const rollouts: Readonly<Record<string, McmRolloutLeft & { readonly expected: Expected }>> = {
  'before-the-new-set': {
    sets: [{ version: '1', replicas: 3 }],
    machines: [[unmarked, unmarked, unmarked]],
    expected: { made: 3, kept: 0, sets: 2, revision: '2' },
    reason: 'NewMachineSetAvailable',
  },
  'before-its-first-machine': {
    sets: [
      { version: '1', replicas: 3 },
      { version: '2', replicas: 1 },
    ],
    machines: [[unmarked, unmarked, unmarked], []],
    expected: { made: 3, kept: 0, revision: '2' },
    ...{ revision: 1, reason: 'NewMachineSetCreated' },
  },
  'before-it-joins': {
    sets: [
      { version: '1', replicas: 3, marks: tainted },
      { version: '2', replicas: 1 },
    ],
    machines: [[old, old, old], [pending]],
    reason: 'NewMachineSetCreated',
    expected: { made: 2, kept: 1, revision: '2' },
  },
  'half-way': {
    sets: [
      { version: '1', replicas: 2, marks: tainted },
      { version: '2', replicas: 1 },
    ],
    machines: [[old, old, oldDeleting], [fresh]],
    expected: { made: 2, kept: 1, revision: '2' },
  },
  'before-the-last-old-one-is-gone': {
    sets: [
      { version: '1', replicas: 0, marks: tainted },
      { version: '2', replicas: 3 },
    ],
    machines: [[oldDeleting], [fresh, fresh, fresh]],
    expected: { made: 0, kept: 3, revision: '2' },
  },
  'before-the-marks-are-off': {
    sets: [
      { version: '1', replicas: 0, marks: tainted },
      { version: '2', replicas: 3 },
    ],
    machines: [[], [fresh, fresh, fresh]],
    expected: { made: 0, kept: 3, revision: '2' },
  },
  'after-a-second-template': {
    current: '3',
    sets: [
      { version: '1', replicas: 2, marks: tainted },
      { version: '2', replicas: 1, marks: tainted },
      { version: '3', replicas: 1 },
    ],
    machines: [[old, old], [old], [pending]],
    expected: { made: 2, kept: 1, revision: '3' },
  },
  'after-it-went-back': {
    current: '1',
    sets: [
      { version: '1', replicas: 2, marks: tainted },
      { version: '2', replicas: 2 },
    ],
    machines: [
      [old, old],
      [fresh, fresh],
    ],
    expected: { made: 1, kept: 2, revision: '3' },
  },
};

const { candidateForUpdate, selectedForUpdate, updateResult } = labels;
const taken = { [candidateForUpdate]: 'true', [selectedForUpdate]: 'true' };

function ofInPlace(marks: object, reason: InPlaceReason, more: Partial<McmMachine> = {}): McmMachine {
  return {
    ...{ vm: 'joined', phase: 'Running' },
    ...more,
    node: {
      metadata: { annotations: kept, labels: marks },
      spec: { taints: [taints.preferNoSchedule], ...more.node?.spec },
      conditions: [inPlaceCondition(reason)],
    },
  };
}

/**
 * An update in place of five machines, of which three may be away: one is drained, one waits for its agent, and one
 * waits for its hand-over.
 */
export const inPlace: McmRolloutLeft = {
  replicas: 5,
  strategy: {
    type: 'InPlaceUpdate',
    ...{ inPlaceUpdate: { maxSurge: 0, maxUnavailable: 3, orchestrationType: 'Auto' } },
  },
  sets: [
    { version: '1', replicas: 5, marks: { labels: { [labels.scaleUpDisabled]: 'true' }, ...tainted } },
    { version: '2', replicas: 0 },
  ],
  machines: [
    [
      ofInPlace({ [candidateForUpdate]: 'true' }, 'CandidateForUpdate'),
      ofInPlace({ [candidateForUpdate]: 'true' }, 'CandidateForUpdate'),
      ofInPlace(taken, 'SelectedForUpdate', { conditions: [inPlaceCondition('CandidateForUpdate')] }),
      ofInPlace(taken, 'ReadyForUpdate', {
        phase: 'InPlaceUpdating',
        operation: beingUpdated,
        node: { spec: { unschedulable: true } },
      }),
      ofInPlace({ ...taken, [updateResult]: updateResults.successful }, 'UpdateSuccessful', {
        operation: {
          type: 'HealthCheck',
          state: 'Successful',
          description: 'Machine <machine> successfully re-joined the cluster',
        },
        node: { spec: { unschedulable: true } },
      }),
    ],
    [],
  ],
};

/** Has the played MCM leave a rollout, with the machines of its sets. Their names are its own, the set and a number. */
export async function leaveRollout(mcm: ReturnType<typeof playMcm>, name: string, left: McmRolloutLeft) {
  const { replicas = 3, strategy = rolling, current = '2', machines: ofSets, ...rest } = left;
  const sets = await mcm.rollout(name, { replicas, strategy, current, ...rest });
  const all = ofSets.flatMap((own, i) =>
    own.map((each, k) => {
      const metadata = { annotations: { version: left.sets[i]?.version } };
      return mcm.machine(`${name}-${i}-${k}`, { ...each, set: sets[i]!, metadata });
    }),
  );
  return { sets, machines: await Promise.all(all) };
}
