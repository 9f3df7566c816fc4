/** An object of each kind in which every field that machine-controller-manager knows is set. */
import type { LastOperation, MachineSummary } from '../../api/gardener/schema/common.ts';
import type { MachineSpec, MachineStatus, MachineTemplate } from '../../api/gardener/schema/machine.ts';
import type { MachineClass } from '../../api/gardener/schema/machine-class.ts';
import type { MachineDeploymentSpec, MachineDeploymentStatus } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSetSpec, MachineSetStatus } from '../../api/gardener/schema/machine-set.ts';

const time = '2026-08-19T10:11:12Z';

export const maximalClass: Omit<MachineClass, 'metadata' | 'apiVersion' | 'kind'> = {
  nodeTemplate: {
    capacity: { cpu: 4, gpu: '0', memory: '16Gi', 'ephemeral-storage': '50G' },
    virtualCapacity: { 'example.com/licence': '2' },
    instanceType: 'm5.xlarge',
    region: 'eu-west-1',
    zone: 'eu-west-1a',
    architecture: 'arm64',
    ofTomorrow: { nested: [1, 'two', true] },
  },
  credentialsSecretRef: { name: 'credentials', namespace: 'shoot' },
  secretRef: { name: 'user-data', namespace: 'shoot' },
  provider: 'AWS',
  providerSpec: {
    ami: 'ami-1',
    blockDevices: [{ ebs: { volumeSize: 50, encrypted: true, iops: 0.5 } }],
    tags: { 'kubernetes.io/cluster/shoot': '1', 'kubernetes.io/role/node': '' },
    empty: {},
    none: null,
  },
};

export const maximalMachineSpec: MachineSpec = {
  class: { apiGroup: 'machine.sapcloud.io', kind: 'MachineClass', name: 'small' },
  providerID: 'aws:///eu-west-1/i-1',
  nodeTemplate: {
    metadata: {
      labels: { pool: 'a' },
      annotations: { 'machine.sapcloud.io/awsPlacement': '{}' },
      name: 'kept',
      creationTimestamp: null,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Secret', name: 'x', uid: 'y' }],
    },
    spec: {
      taints: [
        { key: 'dedicated', value: 'gpu', effect: 'NoSchedule' },
        { key: 'late', effect: 'NoExecute', timeAdded: time },
      ],
      podCIDR: '10.0.0.0/24',
      podCIDRs: ['10.0.0.0/24', 'fd00::/64'],
      providerID: 'aws:///eu-west-1/i-1',
      unschedulable: true,
      externalID: 'i-1',
      configSource: {
        configMap: { name: 'a', namespace: 'b', kubeletConfigKey: 'c', uid: 'd', resourceVersion: '1' },
      },
    },
  },
  drainTimeout: '2h0m0s',
  healthTimeout: '10m',
  creationTimeout: '20m30.5s',
  inPlaceUpdateTimeout: '90s',
  machinePreserveTimeout: '96h',
  disableHealthTimeout: true,
  maxEvictRetries: 30,
  nodeConditions: 'KernelDeadlock,ReadonlyFilesystem',
};

const lastOperation: LastOperation = {
  description: 'Cloud provider message - no capacity',
  errorCode: 'ResourceExhausted',
  lastUpdateTime: time,
  state: 'Failed',
  type: 'Create',
};

export const maximalMachineStatus: MachineStatus = {
  addresses: [{ type: 'Hostname', address: 'ip-10-0-0-1' }],
  conditions: [
    {
      type: 'Ready',
      status: 'True',
      reason: 'KubeletReady',
      message: 'kubelet is ready',
      lastHeartbeatTime: time,
      lastTransitionTime: time,
    },
  ],
  lastOperation,
  currentStatus: { phase: 'Running', timeoutActive: true, lastUpdateTime: time, preserveExpiryTime: time },
  lastKnownState: '{"volume":"vol-1"}',
};

const template: MachineTemplate = {
  metadata: {
    labels: { name: 'pool-a', pool: 'a' },
    annotations: { note: 'all of this is kept' },
    finalizers: ['example.com/finalizer'],
    generateName: 'kept-',
    creationTimestamp: null,
  },
  spec: maximalMachineSpec,
};

const selector = {
  matchLabels: { name: 'pool-a' },
  matchExpressions: [
    { key: 'pool', operator: 'In', values: ['a', 'b'] },
    { key: 'name', operator: 'Exists' },
  ],
};

const failedMachines: MachineSummary[] = [
  { name: 'pool-a-x', providerID: 'aws:///eu-west-1/i-2', lastOperation, ownerRef: 'pool-a-12345' },
];

export const maximalSetSpec: MachineSetSpec = {
  replicas: 3,
  selector,
  template,
  machineClass: { apiGroup: 'machine.sapcloud.io', kind: 'MachineClass', name: 'small' },
  minReadySeconds: 10,
  autoPreserveFailedMachineMax: 1,
};

export const maximalSetStatus: MachineSetStatus = {
  replicas: 4,
  fullyLabeledReplicas: 3,
  readyReplicas: 2,
  availableReplicas: 1,
  preservedFailedReplicas: 1,
  autoPreserveFailedMachineCount: 1,
  observedGeneration: 7,
  machineSetCondition: [
    {
      type: 'Frozen',
      status: 'True',
      reason: 'OverShootingReplicaCount',
      message: 'too many',
      lastTransitionTime: time,
    },
  ],
  lastOperation,
  failedMachines,
};

const updateConfiguration = { maxUnavailable: '25%', maxSurge: 1 };

export const maximalDeploymentSpec: MachineDeploymentSpec = {
  replicas: 3,
  selector,
  template,
  minReadySeconds: 10,
  autoPreserveFailedMachineMax: 1,
  strategy: {
    type: 'InPlaceUpdate',
    rollingUpdate: updateConfiguration,
    inPlaceUpdate: { ...updateConfiguration, orchestrationType: 'Manual' },
  },
  revisionHistoryLimit: 2,
  paused: true,
  rollbackTo: { revision: 9_007_199_254_740_991 },
  progressDeadlineSeconds: 600,
};

export const maximalDeploymentStatus: MachineDeploymentStatus = {
  observedGeneration: 7,
  replicas: 6,
  updatedReplicas: 5,
  readyReplicas: 4,
  availableReplicas: 3,
  preservedFailedReplicas: 1,
  unavailableReplicas: 2,
  conditions: [
    {
      type: 'Progressing',
      status: 'True',
      lastUpdateTime: time,
      lastTransitionTime: time,
      reason: 'MachineSetUpdated',
      message: 'moves on',
    },
  ],
  collisionCount: 1,
  failedMachines,
};
