/**
 * Random lives of a Machine: any answer of the cloud and of Kubernetes, any signal at any await, a new run at any
 * point. After each event the promises of docs/reliability.md hold; when all is quiet the Machine ends in its one right
 * state.
 */
import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import fc from 'fast-check';
import { type FailureCode, failures } from '../../api/failures.ts';
import type { NodeView } from '../../api/model/node.ts';
import type { DeleteVmRequest, EnsureVmRequest, Vm, VmDeletion } from '../../api/provider.ts';
import { isLong } from '../../test/support/long.ts';
import { refuse, setUpMachine, vm as vmOfAnswer } from '../../test/support/played-machine.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import { forceDeletionSignal, skipDrainSignal } from './messages.ts';

const played = setUpMachine();
const { cluster, cloud, touch, start, workflow, described, observe, joinNode, now, time } = played;

/** What the next call runs into: a refusal, a lost answer, or an answer that comes when somebody lets it. */
type Answer = FailureCode | 'lost' | 'held';
/** How a VM is when it is answered for the first time, and how long the cloud does not list it, s. */
interface Boot {
  readonly state: Vm['state'];
  readonly unlistedSeconds: number;
}

interface PlayedVm {
  readonly providerID: string;
  readonly token: string;
  state: Vm['state'];
  listedAtMs: number;
}

type Event =
  | { readonly kind: keyof typeof acts }
  | { readonly kind: 'cloudAnswers' | 'kubernetesAnswers'; readonly answer: Answer }
  | { readonly kind: 'nextVmIs'; readonly boot: Boot }
  | { readonly kind: 'timePasses' | 'temporalIsDown'; readonly seconds: number };

/** Everything that a life has: renewed for each. */
interface World {
  vms: PlayedVm[];
  vmsEver: number;
  cloudAnswers: Answer[];
  apiAnswers: Answer[];
  boot: Boot;
  held: (() => void)[];
  /** The Node while nobody can read it. */
  unreadableNode: NodeView;
  /** Whether somebody has deleted the Node, and no other one has joined since. */
  mayReplace: boolean;
  /** What has happened, with its time: a person reads it when a life ends wrongly. */
  story: string[];
  sinceMs: number;
  breach: string | undefined;
}
let world: World;

const acts = {
  nodeJoins: async () => {
    const [vm] = world.vms;
    if (vm === undefined || cluster.node.state !== 'absent') return;
    Object.assign(vm, { state: 'running', listedAtMs: now() }); // a cloud lists a VM whose Node has joined
    world.mayReplace = false;
    await joinNode();
  },
  nodeIsUnhealthy: () => changeNode({ conditions: { Ready: 'Unknown' } }),
  nodeIsHealthy: () => changeNode({ conditions: { Ready: 'True' } }),
  nodeIsDeleted: async () => {
    world.mayReplace ||= cluster.node.state === 'present';
    await changeNode({ deleting: true });
  },
  nodeIsLost: async () => {
    if (cluster.node.state === 'unknown') world.unreadableNode = { state: 'absent' };
    else cluster.node = { state: 'absent' };
    await observe();
  },
  nodesCannotBeRead: async () => {
    if (cluster.node.state === 'unknown') return;
    world.unreadableNode = cluster.node;
    cluster.node = { state: 'unknown' };
    await observe();
  },
  nodesCanBeRead: async () => {
    if (cluster.node.state !== 'unknown') return;
    cluster.node = world.unreadableNode;
    await observe();
  },
  answersCome: async () => {
    for (const answer of world.held.splice(0)) answer();
    await workflow().describe();
  },
  sourceChanges: async () => {
    cluster.reading = { ...cluster.reading, version: String(Number(cluster.reading.version) + 1) };
    await observe(cluster.reading.version);
  },
  limitsChange: async () => {
    const { limits } = cluster.machine;
    touch({ limits: { ...limits, drainSeconds: limits.drainSeconds + 1 } });
    await observe();
  },
  isDeleted: async () => {
    touch({ deletingSince: cluster.machine.deletingSince ?? time() });
    await observe();
  },
  retryNow: () => workflow().signal(retryNowSignal),
  refresh: () => workflow().signal(refreshSignal),
  forceDeletion: () => workflow().signal(forceDeletionSignal),
  skipDrain: () => workflow().signal(skipDrainSignal),
  historyGrowsLong: async () => {
    workflow().lengthen(600);
    await observe();
  },
  workerForgetsTheRun: () => workflow().replay(),
  runIsLost: async () => {
    await workflow().terminate();
    await start();
  },
} satisfies Record<string, () => Promise<unknown>>;

async function changeNode(change: object): Promise<void> {
  const { node } = cluster;
  if (node.state !== 'present') return;
  cluster.node = { ...node, ...change, resourceVersion: String(Number(node.resourceVersion) + 1) };
  await observe();
}

function note(what: string): void {
  world.story.push(`${((now() - world.sinceMs) / 1000).toFixed(1).padStart(9)} s  ${what}`);
}

function breach(promise: string): void {
  note(`BROKEN: ${promise}`);
  world.breach ??= promise;
}

/** Has a call whose effect is there fail, or answer later. */
async function answerTo(answer: Answer | undefined): Promise<void> {
  if (answer === 'lost' || isUnknown(answer))
    throw ApplicationFailure.create({ type: answer === 'lost' ? 'Unavailable' : answer, nonRetryable: true });
  if (answer === 'held') await new Promise<void>((resolve) => world.held.push(resolve));
}

function isUnknown(answer: Answer | undefined): answer is FailureCode {
  return answer !== undefined && answer in failures && failures[answer as FailureCode].outcomeUnknown;
}

function isRefusal(answer: Answer | undefined): answer is FailureCode {
  return answer !== undefined && answer in failures && !failures[answer as FailureCode].outcomeUnknown;
}

async function ensureVm({ token, outcomeUnknown, providerID }: EnsureVmRequest): Promise<Vm> {
  if (!cluster.machine.managed) breach('3: the finalizer is stored before the first call that changes anything');
  const answer = world.cloudAnswers.shift();
  note(`ensureVm ${token.slice(-3)}${outcomeUnknown ? ', a VM may exist' : ''}: ${answer ?? 'done'}`);
  if (isRefusal(answer)) refuse(answer);
  const isSeen = (vm: PlayedVm) =>
    vm.listedAtMs <= now() || outcomeUnknown || vm.token === token || vm.providerID === providerID;
  let vm = world.vms.find(isSeen);
  if (vm === undefined) {
    world.vmsEver += 1;
    const { state, unlistedSeconds } = world.boot;
    vm = { providerID: `played:///vm-${world.vmsEver}`, token, state, listedAtMs: now() + unlistedSeconds * 1_000 };
    world.vms.push(vm);
    if (world.vms.length > 1) breach('1: at most one VM of a Machine');
  }
  const { state, providerID: id } = vm;
  vm.state = 'running';
  await answerTo(answer);
  return { ...vmOfAnswer, state, providerID: id, ...(state === 'failed' && { message: 'no host' }) };
}

async function deleteVm({ outcomeUnknown, providerID }: DeleteVmRequest): Promise<VmDeletion> {
  const { machine } = cluster;
  const isReplaced = machine.onNodeDeleted === 'replaceVm' && world.mayReplace;
  if (machine.deletingSince === undefined && !isReplaced) breach('6: no VM goes unless its Machine or its Node does');
  const planned = world.cloudAnswers.shift();
  const answer = planned === 'NotFound' ? undefined : planned; // by contract: nothing is there
  note(`deleteVm${outcomeUnknown ? ', a VM may exist' : ''}: ${answer ?? 'done'}`);
  if (isRefusal(answer)) refuse(answer);
  world.vms = world.vms.filter((vm) => vm.listedAtMs > now() && !outcomeUnknown && vm.providerID !== providerID);
  await answerTo(answer);
  return { state: 'gone', nodeNames: [] };
}

async function beginLife(replacesVms: boolean): Promise<void> {
  await played.renew();
  const boot: Boot = { state: 'running', unlistedSeconds: 0 };
  const nothing = { vms: [], vmsEver: 0, cloudAnswers: [], apiAnswers: [], held: [], story: [], breach: undefined };
  world = { ...nothing, boot, unreadableNode: { state: 'absent' }, mayReplace: false, sinceMs: now() };
  if (replacesVms) touch({ onNodeDeleted: 'replaceVm' });
  Object.assign(cloud, { ensureVm, deleteVm });
  let answer: Answer | undefined;
  cluster.before = (step) => {
    answer = world.apiAnswers.shift();
    if (answer !== undefined) note(`${step}: ${answer}`);
    if (isRefusal(answer)) refuse(answer);
  };
  cluster.after = async (step) => {
    if (step === 'tearDown' && world.vms.length > 0) breach('2: no VM outlives its Machine');
    const mine = answer;
    answer = undefined;
    await answerTo(mine);
  };
  await start();
}

async function happen(event: Event): Promise<void> {
  note(describeEvent(event));
  if (event.kind === 'cloudAnswers') world.cloudAnswers.push(event.answer);
  else if (event.kind === 'kubernetesAnswers') world.apiAnswers.push(event.answer);
  else if (event.kind === 'nextVmIs') world.boot = event.boot;
  else if (event.kind === 'timePasses') await played.advance(event.seconds * 1_000);
  else if (event.kind === 'temporalIsDown') await played.beDown(event.seconds * 1_000);
  else await acts[event.kind]();
}

function describeEvent({ kind, ...details }: Event): string {
  const words = kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return Object.keys(details).length === 0 ? words : `${words} ${JSON.stringify(Object.values(details)[0])}`;
}

const hasEnded = async () => (await workflow().describe()).status.name !== 'RUNNING';

/** All faults end, the VM becomes a healthy Node, and whoever operates it has everything tried again. */
async function settle(): Promise<void> {
  note('all faults end');
  if (!(await hasEnded())) await acts.nodesCanBeRead();
  Object.assign(world, { cloudAnswers: [], apiAnswers: [], boot: { state: 'running', unlistedSeconds: 0 } });
  for (let round = 0; round < 100; round++) {
    await acts.answersCome();
    if (await hasEnded()) return;
    if (cluster.machine.deletingSince === undefined) {
      if (cluster.node.state !== 'present') await acts.nodeJoins();
      else if (!cluster.node.deleting) await acts.nodeIsHealthy();
    }
    if (await hasEnded()) return;
    await observe(cluster.reading.version);
    if (await hasEnded()) return;
    await acts.retryNow();
    const { doing } = (await hasEnded()) ? { doing: '' } : await described();
    if (cluster.machine.deletingSince === undefined && doing === 'running') return;
    await played.advance(30_000);
  }
  throw new Error(`it does not settle: ${JSON.stringify(await described())}`);
}

async function live({ events, replacesVms }: { events: readonly Event[]; replacesVms: boolean }): Promise<void> {
  await beginLife(replacesVms);
  try {
    for (const event of events) {
      if (await hasEnded()) break;
      await happen(event);
      if (world.breach !== undefined) throw new Error(world.breach);
    }
    await settle();
    if (world.breach !== undefined) throw new Error(world.breach);
    const { deletingSince, stage, providerID, managed } = cluster.machine;
    const ids = world.vms.map((vm) => vm.providerID);
    if (deletingSince !== undefined) {
      expect({ status: (await workflow().describe()).status.name, ids }).toEqual({ status: 'COMPLETED', ids: [] });
      return;
    }
    expect({ stage, ids, managed }).toEqual({ stage: 'running', ids: [providerID], managed: true });
    const steps = cluster.steps.length;
    await played.advance(3 * 3_600_000);
    if (cluster.steps.length > steps) breach('9: at rest nothing is done');
    expect(cluster.steps.slice(steps)).toEqual([]);
  } catch (error) {
    const cause = error instanceof Error ? error : new Error(String(error));
    throw new Error(`${cause.message}\n\nThe life of the Machine:\n${world.story.join('\n')}`, { cause });
  }
}

const answers = fc.oneof(
  fc.constantFrom(...(Object.keys(failures) as FailureCode[])),
  fc.constantFrom('lost' as const, 'held' as const, 'held' as const),
);
const events: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...Object.keys(acts)).map((kind) => ({ kind }) as Event) },
  { weight: 2, arbitrary: answers.map((answer) => ({ kind: 'cloudAnswers' as const, answer })) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('Unavailable', 'PermissionDenied', 'lost', 'held')
      .map((answer) => ({ kind: 'kubernetesAnswers' as const, answer: answer as Answer })),
  },
  {
    weight: 1,
    arbitrary: fc
      .record({
        state: fc.constantFrom<Vm['state']>('creating', 'uninitialized', 'running', 'failed'),
        unlistedSeconds: fc.constantFrom(0, 20),
      })
      .map((boot) => ({ kind: 'nextVmIs' as const, boot })),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(0.5, 5, 60, 1500).map((seconds) => ({ kind: 'timePasses' as const, seconds })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(60, 1500).map((seconds) => ({ kind: 'temporalIsDown' as const, seconds })),
  },
);
const lives = fc.record({ events: fc.array(events, { minLength: 3, maxLength: 12 }), replacesVms: fc.boolean() });

describe('a Machine to which anything happens', () => {
  it('[invariant 1 partly] [invariant 2 partly] [invariant 3 partly] [invariant 9 partly] keeps the promises, and ends in its one right state', async () => {
    const [seed, numRuns] = isLong() ? [Date.now(), 10_000] : [1, 250];
    await fc.assert(fc.asyncProperty(lives, live), { seed, numRuns });
  }, 3_600_000);
});
