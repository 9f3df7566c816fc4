/**
 * VMs with their parts, calls and faults of the simulated cloud, kept in a journal. Time alone moves a VM on: nothing
 * ticks here.
 */
import { randomUUID } from 'node:crypto';
import type { CreateVmBody, PartKind } from '../../../activities/providers/simulated/schema.ts';
import type { ActiveFault } from '../faults.ts';
import { type CallSubject, type Fault, faultsOf, type Operation, type ShownFault } from './faults.ts';
import { openJournal } from './journal.ts';

/** How long things take, in milliseconds. */
export interface Timing {
  /** From the create call to `running`. */
  readonly bootMs: number;
  /** From `running` to the registration of the Node. */
  readonly joinMs: number;
  /** From the delete call to the VM's end. */
  readonly deleteMs: number;
}

/** A VM that was ever created. Times are milliseconds since 1970. */
export interface StoredVm extends CreateVmBody, Timing {
  readonly id: string;
  /** Counts what this cloud has made from 1: the order of lists, and the VM's address. */
  readonly number: number;
  readonly createdAt: number;
  /** Not in the answers of list and get before. */
  readonly visibleAt: number;
  readonly neverJoins: boolean;
  /** When its kubelet falls silent, by a fault or a kill. */
  readonly diesAt: number | null;
  /** When the VM ends with no delete call. */
  readonly vanishesAt: number | null;
  /** Somebody has said that it will be taken away. */
  readonly isInterrupted?: true;
  readonly deletedAt: number | null;
  /** Start of the machine: the create call plus `bootMs`, or the last restart. */
  readonly bootedAt: number;
  readonly restarts: number;
  /** UID of the Node that its kubelet has registered since the last start. */
  readonly nodeUid: string | null;
}

/** A disk, NIC or address that was made with a VM. Times are milliseconds since 1970. */
export interface StoredPart {
  readonly id: string;
  readonly kind: PartKind;
  /** Counts from 1 with the VMs: the order of lists. */
  readonly number: number;
  readonly name: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly createdAt: number;
  readonly visibleAt: number;
  /** Null: the create call failed before there was a VM. */
  readonly vm: string | null;
  /** Outlives its VM. */
  readonly leaked: boolean;
  readonly deletedAt: number | null;
}

export type VmState = 'creating' | 'running' | 'deleting' | 'terminated';

/** One request to the cloud's API. */
export interface CallRecord {
  /** Also the answer's `x-request-id`. */
  readonly id: string;
  readonly at: string;
  /** When it was answered or cut; left out while neither has happened. */
  readonly endedAt?: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly operation: Operation | 'unknown';
  readonly vm?: string | undefined;
  /** Idempotency token of a create. */
  readonly token?: string | undefined;
  /** HTTP status, `lost` when the connection was cut, or `pending`. */
  readonly outcome: number | 'lost' | 'pending';
  /** Whether the cloud has done what the call asks for. */
  readonly effect: boolean;
  /** Error code of the answer. */
  readonly code?: string | undefined;
}

type Entry =
  | { readonly vm: StoredVm }
  | { readonly part: StoredPart }
  | { readonly call: CallRecord }
  | { readonly faults: readonly Fault[] }
  | { readonly counted: CallSubject };

/** What happened so far. */
export interface Stats {
  readonly vmsEver: number;
  readonly vmsNow: number;
  /** Create calls, refused and lost ones included. */
  readonly creates: number;
  readonly deletes: number;
  readonly calls: number;
}

export type CloudState = ReturnType<typeof openState>;

/** State of a VM at a time. */
export function stateOf(vm: StoredVm, now: number): VmState {
  if (vm.vanishesAt !== null && now >= vm.vanishesAt) return 'terminated';
  if (vm.deletedAt !== null) return now >= vm.deletedAt + vm.deleteMs ? 'terminated' : 'deleting';
  return now >= vm.bootedAt ? 'running' : 'creating';
}

/** Whether the kubelet of a VM does its work at a time. */
export function isAlive(vm: StoredVm, now: number): boolean {
  return stateOf(vm, now) === 'running' && !(vm.diesAt !== null && now >= vm.diesAt);
}

/** Loads the state from a folder, which is made when missing. `timing` is for VMs created from now on. */
export function openState(directory: string, timing: Timing) {
  const vms = new Map<string, StoredVm>();
  const parts = new Map<string, StoredPart>();
  const byToken = new Map<string, string>();
  const calls = new Map<string, CallRecord>();
  let faults: ActiveFault<Fault>[] = [];
  const releases = new Set<() => void>();

  function apply(entry: Entry): void {
    if ('vm' in entry) {
      vms.set(entry.vm.id, entry.vm);
      if (!byToken.has(entry.vm.token)) byToken.set(entry.vm.token, entry.vm.id);
    } else if ('part' in entry) parts.set(entry.part.id, entry.part);
    else if ('call' in entry) calls.set(entry.call.id, entry.call);
    else if ('faults' in entry) faults = entry.faults.map((fault) => ({ fault, met: 0, shown: 0 }));
    else faultsOf(faults, entry.counted);
  }

  const journal = openJournal<Entry>(directory, apply);
  function record(entry: Entry): void {
    apply(entry);
    journal.append(entry);
  }

  const nextNumber = () => vms.size + parts.size + 1;

  /** A VM that is not there yet. */
  function newVm(body: CreateVmBody, fate: Partial<StoredVm> = {}): StoredVm {
    const now = Date.now();
    return {
      ...body,
      ...timing,
      id: `vm-${randomUUID().slice(0, 13)}`,
      number: nextNumber(),
      createdAt: now,
      visibleAt: now,
      neverJoins: false,
      diesAt: null,
      vanishesAt: null,
      deletedAt: null,
      bootedAt: now + timing.bootMs,
      restarts: 0,
      nodeUid: null,
      ...fate,
    };
  }

  function update(id: string, change: Partial<StoredVm>): StoredVm | undefined {
    const vm = vms.get(id);
    if (vm === undefined) return undefined;
    record({ vm: { ...vm, ...change } });
    return vms.get(id);
  }

  return {
    vm: (id: string): StoredVm | undefined => vms.get(id),
    /** All VMs ever, oldest first. */
    vms: (): StoredVm[] => [...vms.values()],
    vmOfToken: (token: string): StoredVm | undefined => vms.get(byToken.get(token) ?? ''),
    newVm,
    /** Adds a VM. `fate` is what faults have decided. */
    addVm(body: CreateVmBody, fate: Partial<StoredVm>): StoredVm {
      const vm = newVm(body, fate);
      record({ vm });
      return vm;
    },
    update,
    part: (id: string): StoredPart | undefined => parts.get(id),
    /** Disks, NICs and addresses that exist, oldest first. */
    parts(now: number): StoredPart[] {
      return [...parts.values()].filter(({ vm, leaked, deletedAt }) => {
        const owner = vms.get(vm ?? '');
        return deletedAt === null && (leaked || owner === undefined || stateOf(owner, now) !== 'terminated');
      });
    },
    /** Adds what comes with a VM, or with none when its creation fails half-way. */
    addParts({ name, partTags = {} }: CreateVmBody, kinds: readonly PartKind[], vm?: StoredVm): void {
      for (const kind of kinds) {
        const now = Date.now();
        const id = `${kind}-${randomUUID().slice(0, 13)}`;
        const times = { createdAt: now, visibleAt: vm?.visibleAt ?? now, deletedAt: null };
        const part = { id, kind, number: nextNumber(), name, tags: partTags, vm: vm?.id ?? null, leaked: false };
        record({ part: { ...part, ...times } });
      }
    },
    updatePart: (part: StoredPart, change: Partial<StoredPart>): void => record({ part: { ...part, ...change } }),
    calls: (): CallRecord[] => [...calls.values()],
    recordCall: (call: CallRecord): void => record({ call }),
    faults: (): readonly ActiveFault<Fault>[] => faults,
    /** Replaces the faults; calls that hang until their fault is taken away go on. */
    setFaults(next: readonly Fault[]): void {
      record({ faults: next });
      for (const release of releases) release();
      releases.clear();
    },
    /** The faults that show in this call. */
    faultsIn(call: CallSubject): ShownFault[] {
      const met = faults.length > 0 ? faultsOf(faults, call) : [];
      if (faults.length > 0) journal.append({ counted: call });
      return met;
    },
    /** Settles when the faults are replaced. */
    faultsReplaced: (): Promise<void> => new Promise((resolve) => releases.add(resolve)),
    stats(): Stats {
      const now = Date.now();
      const count = (operation: Operation) => [...calls.values()].filter((call) => call.operation === operation).length;
      return {
        vmsEver: vms.size,
        vmsNow: [...vms.values()].filter((vm) => stateOf(vm, now) !== 'terminated').length,
        creates: count('create'),
        deletes: count('delete'),
        calls: calls.size,
      };
    },
  };
}
