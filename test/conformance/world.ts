/** What the cases use: the provider under test, and the cloud behind it where the suite controls it. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApplicationFailure } from '@temporalio/client';
import { type FailureCode, failures, isFailureCode } from '../../api/failures.ts';
import {
  type CloudResource,
  type DeleteVmRequest,
  type EnsureVmRequest,
  FailureDetails,
  type MachineIdentity,
  type Vm,
  type VmDeletion,
} from '../../api/provider.ts';
import { Breach, check } from './breach.ts';
import { type ActivityName, type Calls, inShort, NobodyServes, type Outcome } from './calls.ts';
import type { CloudThing, Counterpart } from './counterpart.ts';
import type { Subject } from './subject.ts';
import { createTrace } from './trace.ts';
import type { WorkerProcess } from './worker-process.ts';

export interface WorldOptions {
  readonly subject: Subject;
  readonly calls: Calls;
  readonly cloud?: Counterpart | undefined;
  /**
   * How late the cloud lists a VM where that is the fault, ms: less than `settleSeconds` of the provider. Without the
   * cloud: for how long after the last creation the suite looks for VMs that are left.
   */
  readonly lateMs?: number;
  readonly worker?: WorkerProcess | undefined;
}

export type World = ReturnType<typeof createWorld>;

/** Longest that a deletion may take, ms. */
const deletionMs = 300_000;
/** Between two calls of a deletion, ms. */
const pauseMs = 500;
/** How many calls of a case that has failed are shown, the last ones. */
const shownCalls = 5;

export function createWorld({ subject, cloud, lateMs = 0, worker, ...options }: WorldOptions) {
  const { providerSpec, credentials, userData, namespace } = subject;
  const scope = { providerSpec, credentials: [...credentials] };
  /** Those of this case that may have something in the cloud. */
  let machines: MachineIdentity[] = [];
  /** Of all cases: those of which a VM was asked for, by UID. */
  const asked = new Map<string, MachineIdentity>();
  let lastAskedMs = 0;
  const trace = createTrace(subject);
  const calls = trace.traced(options.calls);

  function identity(): MachineIdentity {
    const uid = randomUUID();
    return { uid, namespace, name: machineNameOf(uid) };
  }

  function newMachine(): MachineIdentity {
    const machine = identity();
    machines.push(machine);
    return machine;
  }

  /** A request to be sent. As with Millwright, `outcomeUnknown` is true from the second one for a Machine on. */
  function creation(machine: MachineIdentity, changes: Partial<EnsureVmRequest> = {}): EnsureVmRequest {
    const outcomeUnknown = asked.has(machine.uid);
    asked.set(machine.uid, machine);
    lastAskedMs = performance.now();
    return { ...scope, machine, userData, token: `${machine.uid}-0`, outcomeUnknown, ...changes };
  }

  /** The same: `outcomeUnknown` is true once a VM was asked for, for no Node joins. */
  function deletion(machine: MachineIdentity, changes: Partial<DeleteVmRequest> = {}): DeleteVmRequest {
    return { ...scope, machine, outcomeUnknown: asked.has(machine.uid), ...changes };
  }

  async function ensure(machine: MachineIdentity, changes?: Partial<EnsureVmRequest>): Promise<Vm> {
    const call = await calls.start('ensureVm', creation(machine, changes));
    const vm = answerOf('ensureVm', await call.outcome());
    check(vm.state !== 'failed', `ensureVm answers a VM that has failed: ${vm.message ?? 'without a message'}`);
    return vm;
  }

  /** Asks until the answer is `gone`, as Millwright does. */
  async function remove(machine: MachineIdentity, changes?: Partial<DeleteVmRequest>): Promise<VmDeletion> {
    const deadline = performance.now() + deletionMs;
    for (;;) {
      const call = await calls.start('deleteVm', deletion(machine, changes));
      const answer = answerOf('deleteVm', await call.outcome());
      if (answer.state === 'gone') {
        const mayBeListed = cloud === undefined && asked.has(machine.uid);
        if (mayBeListed) checkNone(await listOf([machine]), 'deleteVm answers gone, and listVms has');
        return answer;
      }
      check(performance.now() < deadline, `deleteVm still answers deleting after ${deletionMs / 60_000} minutes`);
      await sleep(pauseMs);
    }
  }

  /** All pages. @param spec default: that of the class */
  async function list(spec: object = providerSpec): Promise<CloudResource[]> {
    const items: CloudResource[] = [];
    const seen = new Set<string>();
    for (let page: string | undefined; ; ) {
      const call = await calls.start('listVms', { ...scope, providerSpec: spec, ...(page !== undefined && { page }) });
      const answer = answerOf('listVms', await call.outcome());
      items.push(...answer.items);
      if (answer.nextPage === undefined) return items;
      check(!seen.has(answer.nextPage), `listVms answers the page ${answer.nextPage} twice`);
      seen.add(answer.nextPage);
      page = answer.nextPage;
    }
  }

  /** What the provider lists of these. */
  async function listOf(of: Iterable<MachineIdentity>): Promise<CloudThing[]> {
    const own = new Set([...of].map(({ uid }) => uid));
    const items = (await list()).filter(({ uid }) => uid !== undefined && own.has(uid));
    return items.map(({ id, kind, uid }) => ({ id: kind === 'vm' ? idOf(id) : id, kind, uid }));
  }

  /** Waits until everything is listed, seconds: a provider answers `deleteVm` for nobody after `settleSeconds`. */
  async function settle(): Promise<number> {
    const sinceMs = performance.now();
    await remove(identity(), { outcomeUnknown: true });
    return (performance.now() - sinceMs) / 1_000;
  }

  /** What exists of this case. Without the cloud: what the provider lists, once everything has to be listed. */
  async function existing(): Promise<CloudThing[]> {
    if (cloud !== undefined) return cloud.things();
    await settle();
    return listOf(machines);
  }

  /** Also where one of them is not removed. Throws the first failure. */
  async function removeAll(of: readonly MachineIdentity[]): Promise<void> {
    const ends = await Promise.allSettled(of.map((machine) => remove(machine)));
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }

  return {
    subject,
    scope,
    calls,
    worker,
    cloud,
    lateMs,
    newMachine,
    creation,
    deletion,
    ensure,
    remove,
    list,
    existing,

    /** The one VM that exists. */
    async onlyVm(): Promise<CloudThing> {
      const seconds = cloud === undefined ? await settle() : undefined;
      const vms = (await (cloud?.things() ?? listOf(machines))).filter(({ kind }) => kind === 'vm');
      const [vm, ...more] = vms;
      check(vm !== undefined, seconds === undefined ? 'there is no VM' : missing(seconds));
      check(more.length === 0, `there are ${vms.length} VMs: ${vms.map(({ id }) => id).join(', ')}`);
      return vm;
    },

    async checkNothingExists(): Promise<void> {
      checkNone(await existing(), 'there is still');
    },

    /** Without the cloud: deletes what any case has left. Throws Breach where there was something. */
    async checkNothingIsLeft(): Promise<void> {
      await sleep(Math.max(0, lastAskedMs + lateMs - performance.now()));
      const left = await listOf(asked.values());
      const owners = new Set(left.flatMap(({ uid = '' }) => asked.get(uid) ?? []));
      const still = await removeAll([...owners]).then(
        () => '',
        (error: Error) => `; it is not deleted (${error.message}): delete it yourself`,
      );
      checkNone(left, `after gone ${still === '' ? 'there was' : 'there is'}`, still);
    },

    /** The failure of a call that has to be refused with one of these codes. */
    async refusal<N extends 'ensureVm' | 'deleteVm' | 'listVms'>(
      name: N,
      request: Parameters<typeof calls.start<N>>[1],
      ...codes: FailureCode[]
    ): Promise<ApplicationFailure> {
      const outcome = await (await calls.start(name, request)).outcome();
      check(outcome.kind === 'refused', `${name} was not refused with ${codes.join(' or ')}: ${inShort(outcome)}`);
      const { failure, attempt } = outcome;
      const { type } = failure;
      check(
        isFailureCode(type) && codes.includes(type),
        `${name} failed with ${type}, not ${codes.join(' or ')}: fail with an ApplicationFailure whose type is the code`,
      );
      check(Boolean(failure.message), `the failure ${type} has no message`);
      const [details = {}] = failure.details ?? [];
      const [problem] = FailureDetails.safeParse(details).error?.issues ?? [];
      const place = ['details[0]', ...(problem?.path ?? [])].join('.');
      check(
        problem === undefined,
        `the failure ${type} has ${JSON.stringify(failure.details)}, where ${place} is not valid: the first of the details ` +
          'is one object, such as {"cloudCode": "…", "requestId": "…", "retryAfterMs": 30000}',
      );
      check(failures[type].transient || attempt === 1, `${type} is retryable: there were ${attempt} attempts`);
      return failure;
    },

    /** Throws NobodyServes if no worker polls, or if it lacks an activity: before anything is made. */
    async checkServed(): Promise<void> {
      const started = [
        await calls.start('validateClass', scope, 1),
        await calls.start('listVms', scope, 1),
        await calls.start('deleteVm', deletion(identity()), 1),
      ];
      for (const end of await Promise.allSettled(started.map((call) => call.outcome())))
        if (end.status === 'rejected' && end.reason instanceof NobodyServes) throw end.reason;
    },

    /** Begins a case with an empty cloud. */
    async begin(): Promise<void> {
      machines = [];
      trace.clear();
      await cloud?.reset();
    },

    /** The last calls of this case, for people. */
    lastCalls: () => trace.lines(shownCalls),

    /** Leaves nothing behind. Without the cloud: by the provider under test, which is asked about all again. */
    async end(): Promise<void> {
      await cloud?.setFault();
      await calls.endAll();
      if (cloud !== undefined) return cloud.reset();
      await removeAll(machines);
    },
  };
}

/** The answer of a call that has to succeed. */
export function answerOf<N extends ActivityName>(name: N, outcome: Outcome<N>) {
  if (outcome.kind !== 'answered') throw new Breach(`${name} did not succeed: ${inShort(outcome)}`);
  return outcome.answer;
}

/** Name of the Machine of the suite with a UID. */
export function machineNameOf(uid: string): string {
  return `conformance-${uid.slice(0, 13)}`;
}

/** The cloud's own id in a provider ID. */
export function idOf(providerID: string): string {
  return providerID.slice(providerID.lastIndexOf('/') + 1);
}

function checkNone(things: readonly CloudThing[], where: string, more = ''): void {
  const words = things.map(({ kind, id, uid }) => `${kind} ${id} of Machine UID ${uid}`);
  check(things.length === 0, `${where} ${words.join(', ')}${more}`);
}

/** @param seconds how long the provider has waited for everything to be listed */
function missing(seconds: number): string {
  return (
    `listVms has no VM of the Machine, also ${seconds.toFixed(1)} s later. That is how long deleteVm has taken with ` +
    'outcomeUnknown, so it should be your settleSeconds: if the cloud lists a new VM later, raise them'
  );
}
