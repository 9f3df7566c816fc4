/**
 * A provider that does what docs/providers.md asks for, to the letter, and no more; for a cloud that uses every freedom
 * that the page leaves it: it takes no tokens, and lists a VM as late as `settleSeconds` allow.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { DeleteVmRequest, EnsureVmRequest, ProviderActivities, Vm, VmDeletion } from '../../api/provider.ts';

export interface LiteralVm {
  readonly id: string;
  /** Tag; one that somebody else has made has none. */
  readonly uid?: string;
  readonly name: string;
  readonly region: string;
  readonly createdMs: number;
}

export type LiteralProvider = ReturnType<typeof createLiteralProvider>;

const settleMs = 2_000;
const lateMs = 1_500;

/** @param name of the provider, and the scheme of its provider IDs */
export function createLiteralProvider(name: string) {
  /** All that exist, listed or not. */
  const vms = new Map<string, LiteralVm>();
  const asked: EnsureVmRequest[] = [];
  const deletions: DeleteVmRequest[] = [];
  /** Called when a VM was made and nobody has heard of it. */
  let beforeAnswer: () => Promise<void> = async () => {};

  const providerIDOf = ({ region, id }: LiteralVm) => `${name}:///${region}/${id}`;

  /** "Which VMs are a Machine's", in one region. */
  function find({ machine, providerID = '', providerSpec }: EnsureVmRequest | DeleteVmRequest): LiteralVm[] {
    const [scheme, path = ''] = providerID.toLowerCase().split('://');
    const named = scheme === name ? path.slice(path.lastIndexOf('/') + 1) : undefined;
    const { region } = providerSpec as { region: string };
    const listed = [...vms.values()].filter((vm) => vm.region === region && Date.now() - vm.createdMs >= lateMs);
    return listed.filter(({ uid, id }) => uid === machine.uid || id === named);
  }

  function toVm(vm: LiteralVm): Vm {
    return { state: 'running', providerID: providerIDOf(vm), nodeName: vm.name, addresses: [] };
  }

  function make(vmName: string, region: string, { uid, ageMs = 0 }: { uid?: string; ageMs?: number } = {}): LiteralVm {
    const id = randomUUID();
    const vm = { id, name: vmName, region, createdMs: Date.now() - ageMs, ...(uid !== undefined && { uid }) };
    vms.set(id, vm);
    return vm;
  }

  const activities: Pick<ProviderActivities, 'ensureVm' | 'deleteVm'> = {
    async ensureVm(request): Promise<Vm> {
      asked.push(request);
      const { machine, providerSpec, outcomeUnknown } = request;
      let [found] = find(request);
      if (found === undefined && (outcomeUnknown || Context.current().info.attempt > 1)) {
        await sleep(settleMs);
        [found] = find(request);
      }
      if (found !== undefined) return toVm(found);
      const made = make(`vm-of-${machine.name}`, (providerSpec as { region: string }).region, machine);
      await beforeAnswer(); // and cancelled or not, it finishes and returns
      return toVm(made);
    },

    async deleteVm(request): Promise<VmDeletion> {
      deletions.push(request);
      const startMs = Date.now();
      for (;;) {
        const lookedMs = Date.now();
        const found = find(request);
        const nodeNames = found.map((vm) => vm.name);
        if (nodeNames.some((each) => request.nodeNames?.includes(each) === false))
          return { state: 'deleting', nodeNames };
        for (const { id } of found) vms.delete(id);
        const isSettled = !request.outcomeUnknown || lookedMs - startMs >= settleMs;
        if (found.length === 0 && isSettled) return { state: 'gone', nodeNames };
        await sleep(100);
      }
    },
  };

  return {
    activities,
    asked,
    deletions,
    make,
    providerIDOf,
    /** VMs that exist, listed or not, of the Machine of this name. */
    vmsOf: (machineName: string) => [...vms.values()].filter((vm) => vm.name === `vm-of-${machineName}`),
    beforeAnswer(act: () => Promise<void>): void {
      beforeAnswer = act;
    },
  };
}
