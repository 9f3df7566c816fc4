/** What the cases use: the provider under test, and the cloud behind it where the suite controls it. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApplicationFailure } from '@temporalio/client';
import { z } from 'zod';
import { type FailureCode, failures, isFailureCode } from '../../api/failures.ts';
import type {
  CloudResource,
  DeleteVmRequest,
  EnsureVmRequest,
  MachineIdentity,
  Vm,
  VmDeletion,
} from '../../api/provider.ts';
import { Breach, check } from './breach.ts';
import type { ActivityName, Calls, Outcome } from './calls.ts';
import type { CloudThing, Counterpart } from './counterpart.ts';
import type { Subject } from './subject.ts';
import type { WorkerProcess } from './worker-process.ts';

export interface WorldOptions {
  readonly subject: Subject;
  readonly calls: Calls;
  readonly cloud?: Counterpart | undefined;
  /** How late the cloud lists a VM where that is the fault, ms: less than `settleSeconds` of the provider. */
  readonly lateMs?: number;
  readonly worker?: WorkerProcess | undefined;
}

export type World = ReturnType<typeof createWorld>;

/** Longest that a deletion may take, ms. */
const deletionMs = 300_000;
/** Between two calls of a deletion, ms. */
const pauseMs = 500;

const Details = z.looseObject({
  cloudCode: z.string().optional(),
  requestId: z.string().optional(),
  retryAfterMs: z.number().min(0).optional(),
});

export function createWorld({ subject, calls, cloud, lateMs = 0, worker }: WorldOptions) {
  const { providerSpec, credentials, userData, namespace } = subject;
  const scope = { providerSpec, credentials: [...credentials] };
  /** Those of this case that may have something in the cloud. */
  let machines: MachineIdentity[] = [];
  /** Those of which nothing is left, if the provider is right. */
  const removed = new Set<MachineIdentity>();

  function identity(): MachineIdentity {
    const uid = randomUUID();
    return { uid, namespace, name: machineNameOf(uid) };
  }

  function newMachine(): MachineIdentity {
    const machine = identity();
    machines.push(machine);
    return machine;
  }

  const creation = (machine: MachineIdentity, changes: Partial<EnsureVmRequest> = {}): EnsureVmRequest => ({
    ...{ ...scope, machine, userData, token: `${machine.uid}-0`, outcomeUnknown: false },
    ...changes,
  });
  const deletion = (machine: MachineIdentity, changes: Partial<DeleteVmRequest> = {}): DeleteVmRequest => ({
    ...{ ...scope, machine, outcomeUnknown: false },
    ...changes,
  });

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
        removed.add(machine);
        return answer;
      }
      check(performance.now() < deadline, `deleteVm still answers deleting after ${deletionMs / 60_000} minutes`);
      await sleep(pauseMs);
    }
  }

  /** All pages. */
  async function list(): Promise<CloudResource[]> {
    const items: CloudResource[] = [];
    const seen = new Set<string>();
    for (let page: string | undefined; ; ) {
      const call = await calls.start('listVms', { ...scope, ...(page !== undefined && { page }) });
      const answer = answerOf('listVms', await call.outcome());
      items.push(...answer.items);
      if (answer.nextPage === undefined) return items;
      check(!seen.has(answer.nextPage), `listVms answers the page ${answer.nextPage} twice`);
      seen.add(answer.nextPage);
      page = answer.nextPage;
    }
  }

  /** What exists of this case. Without the cloud: what the provider lists, once everything has to be listed. */
  async function existing(): Promise<CloudThing[]> {
    if (cloud !== undefined) return cloud.things();
    await remove(identity(), { outcomeUnknown: true }); // a provider answers it after `settleSeconds`
    const own = new Set(machines.map(({ uid }) => uid));
    const items = (await list()).filter(({ uid }) => uid !== undefined && own.has(uid));
    return items.map(({ id, kind, uid }) => ({ id: kind === 'vm' ? idOf(id) : id, kind, uid }));
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
      const vms = (await existing()).filter(({ kind }) => kind === 'vm');
      const [vm, ...more] = vms;
      check(vm !== undefined, 'there is no VM');
      check(more.length === 0, `there are ${vms.length} VMs: ${vms.map(({ id }) => id).join(', ')}`);
      return vm;
    },

    async checkNothingExists(): Promise<void> {
      const left = await existing();
      check(left.length === 0, `there is still ${inWords(left)}`);
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
      check(isFailureCode(type) && codes.includes(type), `${name} failed with ${type}, not ${codes.join(' or ')}`);
      check(Boolean(failure.message), `the failure ${type} has no message`);
      const { error } = Details.safeParse(failure.details?.[0] ?? {});
      check(error === undefined, `the details of ${type} are not valid: ${error?.issues[0]?.path.join('.')}`);
      check(failures[type].transient || attempt === 1, `${type} is retryable: there were ${attempt} attempts`);
      return failure;
    },

    /** Begins a case with an empty cloud. */
    async begin(): Promise<void> {
      machines = [];
      await cloud?.reset();
    },

    /**
     * Leaves nothing behind. Without the cloud: by the provider under test, which is asked again when it has failed.
     */
    async end(hasFailed: boolean): Promise<void> {
      await cloud?.setFault();
      await calls.endAll();
      if (cloud !== undefined) return cloud.reset();
      const left = machines.filter((machine) => hasFailed || !removed.has(machine));
      await Promise.all(left.map((machine) => remove(machine, { outcomeUnknown: true })));
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

/** The outcome of a call, for people. */
export function inShort(outcome: Outcome<ActivityName>): string {
  if (outcome.kind === 'refused') return `${outcome.failure.type}: ${outcome.failure.message}`;
  return outcome.kind === 'cancelled'
    ? 'it was cancelled'
    : `it answered ${JSON.stringify(outcome.answer).slice(0, 200)}`;
}

function inWords(things: readonly CloudThing[]): string {
  return things.map(({ kind, id }) => `${kind} ${id}`).join(', ');
}
