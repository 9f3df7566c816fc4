import type { WorkflowHandle } from '@temporalio/client';
import { machines } from '../../../api/gardener/resources.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../../api/model/ref.ts';
import { names } from '../../../api/names.ts';
import { type WorkflowKind, workflowId } from '../../../api/workflow-id.ts';
import type { MachineDescription } from '../../../workflows/machine/messages.ts';
import { until } from '../until.ts';
import type { Scene } from './scene.ts';

/** Whether workers remember workflows, as they do but for one run of the suite. */
export const isCached = process.env.MILLWRIGHT_MAX_CACHED_WORKFLOWS !== '0';

type Key = Pick<ObjectRef, 'namespace' | 'name'>;

export function phaseOf({ status }: Machine): string {
  return status?.currentStatus?.phase ?? '';
}

/** What tests do with the Machines of an installation, and ask of them. */
export function machineVerbs({ namespace, control, cloud, temporal, story }: Scene) {
  const verbs = {
    /** Makes a Machine by itself. */
    async createMachine(
      name: string,
      spec: object = { class: { kind: 'MachineClass', name: 'small' } },
    ): Promise<ObjectRef> {
      const { metadata } = await control.create(machines, { metadata: { namespace, name }, spec });
      return { dialect: 'gardener', namespace, name, uid: metadata.uid };
    },

    async machines(): Promise<Machine[]> {
      return (await control.list(machines, { namespace })).items;
    },

    /** Waits until so many machines exist and all of them are in this phase. */
    async untilMachines(count: number, phase: string, timeoutMs?: number): Promise<Machine[]> {
      const check = async () => {
        const found = await verbs.machines();
        return found.length === count && found.every((machine) => phaseOf(machine) === phase) && found;
      };
      return until(`${count} machines are ${phase}`, check, { timeoutMs, describe: story });
    },

    /** Waits until the Machine is as it is checked, and returns it. @param what after its name, such as `is Running` */
    async untilMachine(
      ref: Key,
      what: string,
      check: (machine: Machine) => boolean,
      timeoutMs?: number,
    ): Promise<Machine> {
      const find = async (see: (status: Machine['status']) => unknown) => {
        const machine = await control.get(machines, ref);
        see(machine.status);
        return check(machine) && machine;
      };
      return until(`${ref.name} ${what}`, find, { timeoutMs, describe: story });
    },

    /** Waits until the Machine is in this phase, and returns it. */
    async untilPhase(ref: Key, phase: string, timeoutMs?: number): Promise<Machine> {
      return verbs.untilMachine(ref, `is ${phase}`, (machine) => phaseOf(machine) === phase, timeoutMs);
    },

    /** Waits until the Machine shows a failure with this code, and returns what it says. */
    async untilRefused(ref: Key, code: string): Promise<string> {
      const isRefused = ({ status }: Machine) => status?.lastOperation?.errorCode === code;
      const { status } = await verbs.untilMachine(ref, `fails with ${code}`, isRefused);
      return status?.lastOperation?.description ?? '';
    },

    /** Waits until there are as many machines as these, all others, and all are Running. Returns them. */
    async untilReplaced(before: readonly Machine[], timeoutMs: number): Promise<Machine[]> {
      const uids = new Set(before.map(({ metadata }) => metadata.uid));
      const check = async () => {
        const found = await verbs.machines();
        const isNew = ({ metadata }: Machine) => !uids.has(metadata.uid);
        const areReplaced = found.every((each) => isNew(each) && phaseOf(each) === 'Running');
        return found.length === uids.size && areReplaced && found;
      };
      return until('all machines are replaced', check, { timeoutMs, describe: story });
    },

    /** Deletes the Machine, and waits until it does not exist any more. */
    async remove(ref: Key): Promise<void> {
      await control.delete(machines, ref);
      await verbs.untilGone(ref);
    },

    /** Waits until the Machine does not exist any more. */
    async untilGone(ref: Key, timeoutMs?: number): Promise<void> {
      const isGone = async () => (await control.find(machines, ref)) === undefined;
      await until(`${ref.name} is gone`, isGone, { timeoutMs, describe: story });
    },

    /** The VMs that were ever made for a Machine, by the UID in their tags. */
    async vmsOf({ uid }: ObjectRef) {
      return (await cloud.vms({ all: true })).filter(({ tags }) => tags[names.machineUid] === uid);
    },

    /** The workflow of an object. */
    handleOf(ref: ObjectRef, kind: WorkflowKind = 'Machine'): WorkflowHandle {
      return temporal.workflow.getHandle(workflowId(namespace, kind, ref));
    },

    /** Answer of a machine's `describe` query. */
    async describe(ref: ObjectRef): Promise<MachineDescription> {
      const handle = verbs.handleOf(ref);
      // Without a cache the SDK forgets the local activities of a task that comes with a question, and fails it: while
      // somebody asks again and again the workflow stands still.
      const isBusy = async () => !isCached && Boolean((await handle.describe()).raw.pendingWorkflowTask);
      await until('no task is under way', async () => !(await isBusy()));
      return handle.query('describe');
    },
  };
  return verbs;
}
