/** The workflow of a machine, with a cluster and a cloud that the tests play. */

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { beforeEach } from '@jest/globals';
import { ApplicationFailure, Context } from '@temporalio/activity';
import type { DrainActivities, DrainOutcome, DrainRequest } from '../../activities/machine/drain/index.ts';
import type { MachineActivities } from '../../activities/machine/index.ts';
import type { MaintenanceDrain } from '../../activities/machine/maintenance.ts';
import type { Order, OrderActivities } from '../../activities/orders.ts';
import type { MachineIdentityChange } from '../../api/dialect.ts';
import type { FailureCode } from '../../api/failures.ts';
import type {
  MachineObservation,
  MachineReport,
  MachineSnapshot,
  MachineStage,
  MaintenanceDue,
} from '../../api/model/machine.ts';
import type { NodeSnapshot, NodeView } from '../../api/model/node.ts';
import type { Place, SourceSnapshot } from '../../api/model/source.ts';
import { drainTaskQueue, providerTaskQueue } from '../../api/names.ts';
import { standingOf } from '../../api/node.ts';
import type {
  DeleteVmRequest,
  EnsureVmRequest,
  ProviderActivities,
  Vm,
  VmDeletion,
  VolumeIds,
  VolumeIdsRequest,
} from '../../api/provider.ts';
import { describeQuery, observedSignal } from '../../workflows/machine/messages.ts';
import { retryNowSignal } from '../../workflows/messages.ts';
import type { VirtualHandle } from '../virtual-temporal/server.ts';
import { setUpWorkflows } from './workflows.ts';

interface Cluster {
  /** The objects as their API servers have them. */
  machine: MachineSnapshot;
  /** Whether a reading finds no Machine. */
  isGone: boolean;
  /** Whether the cluster of the Nodes does not answer at the end of a deletion. */
  isTargetGone: boolean;
  node: NodeView;
  reading: SourceSnapshot;
  /** Name of the deployment of its set, as watchers see it. */
  deployment: string | undefined;
  /** What has become of the Machine when the finalizer is on. */
  withFinalizer: Partial<MachineSnapshot>;
  /** Whether the name of the node is that of another VM's. */
  isNodeTaken: boolean;
  /** Name of another Machine that has the VM which this one names. */
  vmOwner: string | undefined;
  /** Whether the API server refuses what the Machine wants its Node to have. */
  isTemplateRefused: boolean;
  /** What a drain comes to, how many were started, and the last request. */
  drainNode(request: DrainRequest): DrainOutcome | Promise<DrainOutcome>;
  drains: number;
  drainRequest?: DrainRequest;
  /** What the preservation or in-place update of the Machine needs, until a step does it. */
  maintenance: MaintenanceDue | undefined;
  /** How the drains of the preserved Machine have ended. */
  preserved: (MaintenanceDrain | undefined)[];
  /**
   * What the API servers do not keep: fields of the Machine, `node.` with fields of the Node, and what some steps do.
   */
  drops: readonly string[];
  /** What happens before a step is done, which it may refuse, and between that and the answer. */
  before(step: keyof MachineActivities): unknown;
  after(step: keyof MachineActivities): unknown;
  /** Names of the other steps, and what was written into the status. */
  steps: (keyof MachineActivities)[];
  /** What people have ordered, as it is recorded. */
  orders: Order[];
  /** Where the Machine may have VMs, and which Nodes go with it, as it remembers. */
  places: readonly Place[] | undefined;
  nodeNames: readonly string[];
  /** Why it can remember no more places. */
  placeProblem: string | undefined;
  /** Until when bootstrap tokens were asked to be valid. */
  tokenEnds: string[];
  /** How many VMs were replaced, as the Machine remembers. */
  replacements: number;
  /** Names of the Nodes that were deleted. */
  removedNodes: string[];
  /** What was recorded of the loss of the Machine. */
  losses: Parameters<MachineActivities['noteLostMachine']>[2][];
  /** What was reported with a Node. */
  synced: MachineReport[];
  written: MachineReport[];
}

interface Cloud {
  /** What it does when it is asked for the VM, and what it was asked. */
  ensureVm(request: EnsureVmRequest): Vm | Promise<Vm>;
  asked: EnsureVmRequest[];
  /** The same for deletions. */
  deleteVm(request: DeleteVmRequest): VmDeletion | Promise<VmDeletion>;
  deletions: DeleteVmRequest[];
  /** Which volumes are its own. */
  volumeIds(request: VolumeIdsRequest): VolumeIds | Promise<VolumeIds>;
}

const userData = { namespace: 'n', name: 'pool', key: 'userData' };

export const vm: Vm = { state: 'running', providerID: 'played:///vm-1', nodeName: 'node-1', addresses: [] };

/** What a cloud throws. */
export function refuse(type: FailureCode): never {
  throw ApplicationFailure.create({ type, message: `the cloud says ${type}`, nonRetryable: true });
}

/** A new Machine, a cloud without VMs, and activities that show them to workflows. @param now ms since the epoch */
export function playMachine(now: () => number) {
  const cluster = newCluster(Date.now());
  const cloud = newCloud();
  /** Writes to the API servers that are done and calls of the cloud that were made, in one order. */
  const order: string[] = [];
  /** The time in this many ms, RFC 3339. */
  const time = (inMs = 0) => new Date(now() + inMs).toISOString();

  /** Changes the Machine as a write to the API server does. */
  function touch(change: Partial<MachineSnapshot>): MachineSnapshot {
    const { machine } = cluster;
    const kept = Object.entries(change).filter(([field]) => !cluster.drops.includes(field));
    const resourceVersion = String(Number(machine.resourceVersion) + 1);
    cluster.machine = { ...machine, ...Object.fromEntries(kept), resourceVersion };
    return cluster.machine;
  }

  const registerNode = (more: Partial<NodeSnapshot> = {}) => {
    cluster.node = {
      ...{ state: 'present', uid: randomUUID(), resourceVersion: '1', name: 'node-1', deleting: false, managed: true },
      ...{ conditions: { Ready: 'True' }, startingUp: false },
      ...more,
    };
  };

  return {
    ...{ cluster, cloud, order, time, touch, registerNode },
    renew(): void {
      Object.assign(cluster, newCluster(now()));
      Object.assign(cloud, newCloud());
      order.length = 0;
    },
    /** By task queue and name. */
    activitiesOf: (taskQueue: string) => ({
      [taskQueue]: playCluster(cluster, touch, order, time),
      [drainTaskQueue(taskQueue)]: playDrains(cluster),
      [providerTaskQueue(taskQueue, 'played')]: playCloud(cloud, order),
    }),
  };
}

/** Prepares workflows for the tests of a file. Each test has a cluster with a new Machine, and a cloud without VMs. */
export function setUpMachine() {
  const machine = playMachine(() => workflows.now());
  const { cluster, cloud, order, time, touch, registerNode } = machine;
  const workflows = setUpWorkflows(machine.activitiesOf);
  const { advanceUntil } = workflows;
  let workflowId: string;

  function begin(): void {
    machine.renew();
    workflowId = workflows.newWorkflowId();
  }
  beforeEach(begin);

  /** Rejects when the activity is cancelled, which only its heartbeats hear of. */
  async function untilCancelled(): Promise<never> {
    const context = Context.current();
    let isOver = false;
    const beat = async () => {
      for (; !isOver; await workflows.temporal.clock.sleep(5_000)) context.heartbeat();
    };
    void beat();
    return context.cancelled.finally(() => {
      isOver = true;
    });
  }

  /**
   * Starts the workflow, as one that goes on from what was `carried`, or with what was `seen`. Answers its first run.
   */
  async function start(carried?: object, seen?: MachineObservation): Promise<VirtualHandle> {
    const ref = { dialect: 'gardener', namespace: 'n', name: 'm', uid: cluster.machine.uid };
    const { taskQueue, temporal } = workflows;
    const { firstExecutionRunId } = await temporal.start('machine', {
      taskQueue,
      workflowId,
      args: [ref, seen, carried],
    });
    return temporal.handle(workflowId, firstExecutionRunId);
  }

  /** The workflow in whichever run it is. */
  const workflow = () => workflows.temporal.handle(workflowId);
  const described = () => workflow().query(describeQuery);
  const waitingFor = async () => (await described()).waitingFor;

  /** Signals to the workflow what a watcher would. */
  async function observe(sourceVersion?: string, watchedMs?: number): Promise<void> {
    const { machine, node, deployment, maintenance } = cluster;
    const seen = {
      ...{ machine, node },
      ...(deployment !== undefined && { deployment }),
      ...(maintenance !== undefined && { maintenance }),
      ...(sourceVersion !== undefined && { sourceVersion }),
      ...(watchedMs !== undefined && { watchedMs }),
    };
    await workflow().signal(observedSignal, seen);
  }

  /** Lets the Node of the VM register, healthy. */
  async function joinNode(more?: Pick<NodeSnapshot, 'interruption' | 'outdated'>): Promise<void> {
    registerNode(more);
    await observe();
  }

  /** Starts the workflow of a machine that was created long ago. */
  async function startAtRest(): Promise<void> {
    const { providerID, nodeName } = vm;
    const conditions = { Ready: 'True' };
    touch({ managed: true, finalizers: ['ours'], stage: 'running', providerID, nodeName: nodeName!, conditions });
    registerNode();
    await start();
    await advanceUntil(async () => (await described()).doing === 'running');
  }

  /** Starts the workflow and goes with it until the machine is at rest. */
  async function startRunning(): Promise<void> {
    await start();
    await advanceUntil(async () => (await waitingFor()) === 'node node-1 to register');
    await joinNode();
    await advanceUntil(async () => (await described()).doing === 'running');
  }

  /** Waits until so many calls for the VM have come to nothing. */
  async function untilRefused(calls: number): Promise<void> {
    await advanceUntil(() => cloud.asked.length >= calls);
    await advanceUntil(async () => (await waitingFor()) === 'a change that helps, or the next try');
  }

  async function tryAgain(): Promise<void> {
    const before = cloud.asked.length;
    await workflow().signal(retryNowSignal);
    await untilRefused(before + 1);
  }

  return {
    advanceUntil,
    now: workflows.now,
    time,
    advance: (ms: number) => workflows.temporal.advance(ms),
    /** Temporal is down for so long, ms. */
    beDown: (ms: number) => workflows.temporal.beDown(ms),
    /** Begins again with a new Machine, within a test. */
    async renew() {
      await workflows.temporal.reset();
      begin();
    },
    sleep: (ms: number) => workflows.temporal.clock.sleep(ms),
    untilCancelled,
    cluster,
    cloud,
    order,
    touch,
    start,
    workflow,
    described,
    waitingFor,
    observe,
    registerNode,
    joinNode,
    startRunning,
    startAtRest,
    untilRefused,
    tryAgain,
  };
}

function newCluster(nowMs: number): Cluster {
  return {
    machine: {
      uid: randomUUID(),
      resourceVersion: '100',
      createdAt: new Date(nowMs).toISOString(),
      managed: false,
      finalizers: [],
      hasPriority: false,
      stage: 'new',
      phase: phaseOf('new'),
      source: 'small',
      onNodeDeleted: 'deleteMachine',
      forceDeletion: false,
      limits: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] },
      conditions: {},
    },
    isGone: false,
    isTargetGone: false,
    node: { state: 'absent' },
    reading: {
      version: '1',
      cloud: {
        provider: 'played',
        origin: { kind: 'MachineClass', namespace: 'n', name: 'small', generation: 1 },
        providerSpec: { zone: 'a' },
        credentials: [],
      },
      userData: { ...userData, personal: false },
    },
    deployment: undefined,
    withFinalizer: { managed: true, finalizers: ['ours'] },
    isNodeTaken: false,
    vmOwner: undefined,
    isTemplateRefused: false,
    drainNode: () => ({ kind: 'drained' }),
    drains: 0,
    maintenance: undefined,
    preserved: [],
    tokenEnds: [],
    drops: [],
    before: () => undefined,
    after: () => undefined,
    steps: [],
    orders: [],
    places: undefined,
    nodeNames: [],
    placeProblem: undefined,
    replacements: 0,
    removedNodes: [],
    losses: [],
    synced: [],
    written: [],
  };
}

function newCloud(): Cloud {
  return {
    ensureVm: () => vm,
    asked: [],
    deleteVm: () => ({ state: 'gone', nodeNames: [] }),
    deletions: [],
    volumeIds: () => ({ ids: {} }),
  };
}

function playCluster(
  cluster: Cluster,
  touch: (change: Partial<MachineSnapshot>) => MachineSnapshot,
  order: string[],
  time: () => string,
): MachineActivities & OrderActivities {
  const reads: readonly (keyof MachineActivities)[] = [
    'observeMachine',
    'isNodeTaken',
    'findVmOwner',
    'readSource',
    'readPlaces',
  ];
  const noted = <A extends unknown[], R>(name: keyof MachineActivities, step: (...args: A) => R) => {
    return async (...args: A): Promise<R> => {
      cluster.steps.push(name);
      await cluster.before(name);
      const answer = step(...args);
      if (!reads.includes(name)) order.push(name);
      await cluster.after(name);
      return answer;
    };
  };
  const writeReport = (report: MachineReport) => {
    cluster.written.push(report);
    const { lastKnownState } = report;
    return touch({ ...reported(report), ...(lastKnownState !== undefined && { lastKnownState }) });
  };
  /** What a Machine says after a report. */
  const reported = ({ stage, stageSince = cluster.machine.stageSince, step }: MachineReport) => {
    const isAsking = stage === 'unhealthy' && step?.kind === 'health' && step.state === 'failed';
    const request = { askedAt: time(), unhealthySince: stageSince ?? '', isGranted: false };
    if (step !== undefined) delete (cluster.machine as { request?: object }).request;
    return {
      ...{ stage, phase: phaseOf(stage) },
      ...(stageSince !== undefined && { stageSince }),
      ...(isAsking && { request }),
    };
  };
  const readPlaces = () => {
    const { reading, places, nodeNames, replacements } = cluster;
    const known = places ?? (reading.cloud === undefined ? undefined : [reading.cloud]);
    const problem = known === undefined ? `${reading.problem}: without it Millwright cannot find the VM` : undefined;
    const { machine } = cluster;
    const isUnnamed = machine.deletingSince !== undefined && machine.providerID === undefined;
    return {
      machine,
      ...(isUnnamed && places === undefined && { mayBeUntagged: true as const }),
      places: known ?? [],
      nodeNames,
      replacements,
      reading,
      ...(problem !== undefined && { problem }),
    };
  };
  const removeNode = (name: string): true => {
    cluster.removedNodes.push(name);
    if (cluster.node.state === 'present' && cluster.node.name === name) cluster.node = { state: 'absent' };
    return true;
  };
  return {
    async recordOrder(order) {
      cluster.orders.push(order);
    },
    observeMachine: noted('observeMachine', () => {
      const { machine, isGone, node, maintenance } = cluster;
      if (isGone) return null;
      return { machine, node, ...(maintenance !== undefined && { maintenance }) };
    }),
    maintain: noted('maintain', (_ref, _at, drain) => {
      cluster.preserved.push(drain);
      if (cluster.maintenance === 'write' && !cluster.drops.includes('maintenance'))
        cluster.maintenance = cluster.machine.stage === 'failed' ? 'drain' : undefined;
      if (drain?.isDrained && !cluster.drops.includes('drained')) cluster.maintenance = undefined;
      const { node, maintenance } = cluster;
      return { machine: touch({}), node, ...(maintenance !== undefined && { maintenance }) };
    }),
    begin: noted('begin', (_ref, seen, mayHaveVm) => {
      const { reading, machine } = cluster;
      if (seen.managed) return { reading };
      if (seen.resourceVersion !== machine.resourceVersion) return { reading, machine: null };
      const { cloud, problem, refusal } = reading;
      const isUsable = problem === undefined && refusal === undefined;
      if (!mayHaveVm) cluster.places = isUsable && cloud !== undefined ? [cloud] : [];
      return { reading, machine: touch(cluster.withFinalizer) };
    }),
    addFinalizer: noted('addFinalizer', () => {
      return cluster.machine.deletingSince === undefined ? touch(cluster.withFinalizer) : cluster.machine;
    }),
    rememberPlace: noted('rememberPlace', (_ref, place, mayHaveOthers) => {
      if (cluster.placeProblem !== undefined) return { placeProblem: cluster.placeProblem };
      const others = mayHaveOthers || cluster.machine.providerID !== undefined;
      const isKnown = others && cluster.places?.some((each) => isDeepStrictEqual(each, place));
      if (!isKnown) cluster.places = others ? [...(cluster.places ?? []), place] : [place];
      return touch({});
    }),
    rememberNodes: noted('rememberNodes', (_ref, nodeNames) => {
      cluster.nodeNames = [...new Set([...cluster.nodeNames, ...nodeNames])];
      return touch({});
    }),
    readPlaces: noted('readPlaces', readPlaces),
    announceDeletion: noted('announceDeletion', (_ref, seen, report) => {
      const isKept = !cluster.drops.includes('announced deletion');
      if (seen.deletingSince === cluster.machine.deletingSince && isKept) writeReport(report);
      return readPlaces();
    }),
    storeIdentity: noted('storeIdentity', (_ref, seen, identity, report) => {
      if (cluster.isGone) return null;
      const { providerID, stage } = cluster.machine;
      const isOther = ![undefined, seen.providerID, identity.providerID].includes(providerID);
      if (isOther) return cluster.machine;
      touch(withIdentity(identity));
      return report !== undefined && stage === seen.stage ? writeReport(report) : cluster.machine;
    }),
    forgetVm: noted('forgetVm', (_ref, replacements) => {
      cluster.replacements = replacements;
      const { providerID: replacedVm } = cluster.machine;
      return touch({ ...withIdentity({ providerID: null }), ...(replacedVm !== undefined && { replacedVm }) });
    }),
    finishReplacement: noted('finishReplacement', () => {
      if (cluster.drops.includes('end of a replacement')) return touch({});
      delete (cluster.machine as { replacedVm?: string }).replacedVm;
      return touch(withIdentity({ providerID: null, nodeName: null }));
    }),
    isNodeTaken: noted('isNodeTaken', () => cluster.isNodeTaken),
    findVmOwner: noted('findVmOwner', () => (cluster.vmOwner === undefined ? {} : { name: cluster.vmOwner })),
    writeStatus: noted('writeStatus', (_ref, _known, report) => writeReport(report)),
    syncNode: noted('syncNode', (_ref, claim, report) => {
      cluster.synced.push(report);
      if (cluster.node.state === 'present') {
        const { outdated, isUnnamed, ...rest } = cluster.node;
        const isOutdated = outdated && (cluster.isTemplateRefused || cluster.drops.includes('node.outdated'));
        const isLeftAlone = standingOf(cluster.node, claim).objection !== undefined;
        const managed = rest.managed || (!isLeftAlone && !cluster.drops.includes('node.managed'));
        cluster.node = {
          ...rest,
          managed,
          ...(isOutdated && { outdated }),
          ...(!managed && isUnnamed && { isUnnamed }),
        };
      }
      const { machine, node } = cluster;
      const { conditions } = node.state === 'present' ? node : machine;
      const { isTemplateRefused } = cluster;
      const reading = { machine: touch({ ...reported(report), conditions }), node };
      return { ...reading, ...(isTemplateRefused && { isTemplateRefused }) };
    }),
    deleteMachine: noted('deleteMachine', () => touch({ deletingSince: time() })),
    removeNode: noted('removeNode', (_ref, name) => removeNode(name)),
    uncordonNode: noted('uncordonNode', () => {
      if (cluster.node.state !== 'present') return true;
      const { isTerminating: _, ...node } = cluster.node;
      cluster.node = node;
      return true;
    }),
    noteLostMachine: noted('noteLostMachine', (_ref, _source, lost) => {
      cluster.losses.push(lost);
      return true;
    }),
    viewOutage: noted('viewOutage', () => ({ outage: null })),
    markInterrupted: noted('markInterrupted', (_ref, _machine, reason) => {
      if (cluster.node.state === 'present' && !cluster.drops.includes('node.interruption'))
        cluster.node = { ...cluster.node, interruption: `the taint x (${reason})` };
      return cluster.node;
    }),
    tearDown: noted('tearDown', (_ref, _seen, { nodeName, nodeNames, leavesNodes }) => {
      if (leavesNodes) return true;
      if (cluster.isTargetGone) refuse('Unavailable');
      for (const name of new Set([...(nodeName === undefined ? [] : [nodeName]), ...nodeNames])) removeNode(name);
      return !cluster.drops.includes('release') && cluster.machine.deletingSince !== undefined;
    }),
    readSource: noted('readSource', () => cluster.reading),
    ensureUserData: noted('ensureUserData', (_ref, _source, validUntil) => {
      cluster.tokenEnds.push(validUntil);
      return userData;
    }),
    removeUserData: noted('removeUserData', () => true),
  };
}

/** What this API calls its stages: words that nothing may branch on. */
export function phaseOf(stage: MachineStage): string {
  return `is ${stage}`;
}

/** undefined takes a field away: objects of the API have no such fields. */
function withIdentity({ providerID, nodeName }: MachineIdentityChange): Partial<MachineSnapshot> {
  return {
    providerID: providerID ?? undefined,
    ...(nodeName !== undefined && { nodeName: nodeName ?? undefined }),
  } as Partial<MachineSnapshot>;
}

function playDrains(cluster: Cluster): DrainActivities {
  return {
    async drainNode(request) {
      cluster.drains++;
      cluster.drainRequest = request;
      return cluster.drainNode(request);
    },
  };
}

function playCloud(cloud: Cloud, order: string[]): Pick<ProviderActivities, 'ensureVm' | 'deleteVm' | 'volumeIds'> {
  return {
    async ensureVm(request) {
      cloud.asked.push(request);
      order.push('ensureVm');
      return cloud.ensureVm(request);
    },
    async deleteVm(request) {
      cloud.deletions.push(request);
      order.push('deleteVm');
      return cloud.deleteVm(request);
    },
    async volumeIds(request) {
      return cloud.volumeIds(request);
    },
  };
}
