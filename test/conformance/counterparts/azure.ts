import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { names } from '../../../api/names.ts';
import { type AzureCloud, startAzureCloud } from '../../../deploy/local/azure-cloud/admin.ts';
import type { CloudFault, CloudThing, Counterpart, FaultKind, Owner } from '../counterpart.ts';

type AzureFault = Parameters<AzureCloud['setFaults']>[0];

const ofCreation = { actions: ['Microsoft.Compute/virtualMachines/write'] };
const uidTag = names.machineUid.replaceAll('/', '-');

/** How the Azure cloud shows each fault of the suite. */
const faults: { readonly [K in FaultKind]: (fault: Extract<CloudFault, { kind: K }>) => AzureFault[] } = {
  lostAnswer: ({ ms }) => [
    { kind: 'lostAnswer', effect: 'done', ...ofCreation, times: 1 },
    { kind: 'invisible', ms },
  ],
  slowAnswer: ({ ms }) => [{ kind: 'hang', effect: 'done', ...ofCreation, ms }],
  listedLate: ({ ms }) => [{ kind: 'invisible', ms }],
  noCapacity: () => [{ kind: 'capacity' }],
  // The NIC of a VM is made before the VM is asked for.
  halfWay: () => [{ kind: 'quota' }],
  missingPermission: () => [{ kind: 'unauthorized' }],
  throttled: ({ times }) => [{ kind: 'throttle', times }],
  askedToWait: ({ retryAfterSeconds }) => [{ kind: 'throttle', retryAfterSeconds }],
};

/** Starts an Azure cloud for the suite. */
export async function startAzureCounterpart(): Promise<Counterpart> {
  const dir = await mkdtemp(join(tmpdir(), 'millwright-conformance-cloud-'));
  const clientSecret = `canary-secret-${randomUUID()}`;
  // Azure keeps the NIC of a VM that it has refused for 180 s, in which no provider can delete it: no case waits so
  // long.
  const timing = { bootMs: 200, deleteMs: 500, nicReservationMs: 0 };
  const cloud = await startAzureCloud({ dir, clientSecret, ...timing, pageSize: 10 });
  const providerSpec = cloud.providerSpec();
  const tagsOf: Record<Owner, Record<string, string>> = {
    class: providerSpec.tags,
    another: { 'kubernetes.io-cluster-another': '1', 'kubernetes.io-role-node': '1' },
    nobody: {},
  };

  return {
    providerSpec,
    credentials: cloud.credentials,
    env: cloud.env,
    lacks: { severalVms: 'a VM has the name of its Machine, and Azure has no two of a name' },
    async setFault(fault) {
      const show = fault && (faults[fault.kind] as (fault: CloudFault) => AzureFault[]);
      await cloud.setFaults(...(show && fault ? show(fault) : []));
    },
    async things() {
      const kinds = { vm: cloud.vms, disk: cloud.disks, nic: cloud.interfaces, ip: cloud.addresses };
      const lists = Object.entries(kinds).map(async ([kind, list]) => {
        const found: readonly Resource[] = await list();
        return found.map((each) => toThing(kind as CloudThing['kind'], each));
      });
      return (await Promise.all(lists)).flat();
    },
    manyVms: 25,
    calls: async () => (await cloud.calls()).length,
    async makeVms(owner, count, { uid, name: given } = {}) {
      const tags = { ...tagsOf[owner], ...(uid !== undefined && { [uidTag]: uid }) };
      const made = Array.from({ length: count }, () => given ?? `other-${randomUUID().slice(0, 13)}`);
      await Promise.all(made.map((name) => cloud.makeVm(name, tags)));
      return made.map((name) => `azure:///${providerSpec.location}/${name}`);
    },
    async reset() {
      await cloud.setFaults();
      await cloud.reset();
    },
    async stop() {
      await cloud.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

interface Resource {
  readonly name?: string | undefined;
  readonly tags?: Readonly<Record<string, string>> | undefined;
}

function toThing(kind: CloudThing['kind'], { name = '', tags = {} }: Resource): CloudThing {
  return { kind, id: name, uid: tags[uidTag] };
}
