/**
 * A provider that does what docs/providers.md asks for, to the letter, and no more; for a cloud that uses every freedom
 * that the page leaves it: it takes no tokens, and lists a VM as late as `settleSeconds` allow.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { z } from 'zod';
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
const pageSize = 2;

const Spec = z.object({ region: z.string() });

/** @param name of the provider, and the scheme of its provider IDs */
export function createLiteralProvider(name: string) {
  /** All that exist, listed or not, oldest first. */
  const vms = new Map<string, LiteralVm>();
  const asked: EnsureVmRequest[] = [];
  const deletions: DeleteVmRequest[] = [];
  /** Called when a VM was made and nobody has heard of it. */
  let beforeAnswer: () => Promise<void> = async () => {};

  /** Nodes have these names, and belong to no namespace. */
  const vmNameOf = (machineName: string) => `${vmPrefix}-${machineName}`;
  const vmPrefix = `vm-${randomUUID().slice(0, 8)}`;
  const providerIDOf = ({ region, id }: LiteralVm) => `${name}:///${region}/${id}`;
  const idOf = (providerID: string) => providerID.slice(providerID.lastIndexOf('/') + 1).toLowerCase();

  const isListed = ({ createdMs }: LiteralVm) => Date.now() - createdMs >= lateMs;

  function listed(providerSpec: unknown): LiteralVm[] {
    const { region } = Spec.parse(providerSpec);
    return [...vms.values()].filter((vm) => vm.region === region && isListed(vm));
  }

  /** "Which VMs are a Machine's": the one that the Machine names comes first. */
  function find({ machine, providerID = '', providerSpec }: EnsureVmRequest | DeleteVmRequest): LiteralVm[] {
    const named = providerID.toLowerCase().startsWith(`${name}://`) ? idOf(providerID) : undefined;
    return listed(providerSpec)
      .filter(({ uid, id }) => uid === machine.uid || id === named)
      .toSorted((a, b) => Number(b.id === named) - Number(a.id === named));
  }

  /** Step 3 of `ensureVm`. */
  function findSurvivor(request: EnsureVmRequest): LiteralVm | undefined {
    const [survivor, ...others] = find(request);
    for (const { id } of others) vms.delete(id);
    return survivor;
  }

  /** The one that the sweep names. */
  function findOnly({ id, uid }: NonNullable<DeleteVmRequest['only']>): LiteralVm[] {
    const vm = vms.get(idOf(id));
    if (vm !== undefined && vm.uid !== uid) throw ApplicationFailure.nonRetryable('another UID', 'FailedPrecondition');
    return vm === undefined ? [] : [vm];
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

  const activities = {
    async ensureVm(request): Promise<Vm> {
      asked.push(request);
      const { machine, providerSpec, outcomeUnknown } = request;
      let found = findSurvivor(request);
      if (found === undefined && (outcomeUnknown || Context.current().info.attempt > 1)) {
        await sleep(settleMs);
        found = findSurvivor(request);
      }
      if (found !== undefined) return toVm(found);
      const made = make(vmNameOf(machine.name), Spec.parse(providerSpec).region, machine);
      await beforeAnswer(); // and cancelled or not, it finishes and returns
      return toVm(made);
    },

    async deleteVm(request): Promise<VmDeletion> {
      deletions.push(request);
      const startMs = Date.now();
      for (;;) {
        const lookedMs = Date.now();
        const found = request.only === undefined ? find(request) : findOnly(request.only);
        const nodeNames = found.map((vm) => vm.name);
        if (nodeNames.some((each) => request.nodeNames?.includes(each) === false))
          return { state: 'deleting', nodeNames };
        for (const { id } of found) vms.delete(id);
        const isSettled = !request.outcomeUnknown || lookedMs - startMs >= settleMs;
        if (found.length === 0 && isSettled) return { state: 'gone', nodeNames };
        await sleep(100);
      }
    },

    async listVms({ providerSpec, page = '0' }) {
      const rest = listed(providerSpec).slice(Number(page));
      const items = rest.slice(0, pageSize).map((vm) => ({
        ...{ kind: 'vm' as const, id: providerIDOf(vm), name: vm.name, alive: true, tags: {} },
        ...{ ...(vm.uid !== undefined && { uid: vm.uid }), createdAt: new Date(vm.createdMs).toISOString() },
      }));
      return { items, ...(rest.length > pageSize && { nextPage: String(Number(page) + pageSize) }) };
    },

    async validateClass({ providerSpec }) {
      const { data } = Spec.safeParse(providerSpec);
      return { problems: [], ...(data !== undefined && { listScope: data.region }) };
    },
  } satisfies Partial<ProviderActivities>;

  return {
    activities,
    asked,
    deletions,
    make,
    isListed,
    providerIDOf,
    vmNameOf,
    /** VMs that exist, listed or not, of the Machine of this name. */
    vmsOf: (machineName: string) => [...vms.values()].filter((vm) => vm.name === vmNameOf(machineName)),
    beforeAnswer(act: () => Promise<void>): void {
      beforeAnswer = act;
    },
  };
}
