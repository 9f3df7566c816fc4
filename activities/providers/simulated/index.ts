/** Provider `simulated`: VMs in the simulated cloud of deploy/local/simulated-cloud. */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { names } from '../../../api/names.ts';
import type {
  CloudResource,
  DeleteVmRequest,
  EnsureVmRequest,
  SecretRef,
  Vm,
  VmDeletion,
} from '../../../api/provider.ts';
import { vmOf } from '../../../api/provider-id.ts';
import { parseOrRefuse, problemsOf } from '../problems.ts';
import { type CallContext, type Provider, type ProviderDeps, ProviderError } from '../provider.ts';
import { type CloudAccess, createVm, deleteVm, findVm, listVms } from './client.ts';
import { type CloudVm, SimulatedProviderSpec } from './schema.ts';

const settleSeconds = 2;
/** `deleteVm` answers `deleting` after this long, so that its caller sees that it goes on. */
const deletionPatienceMs = 20_000;
const pollMs = 500;

/** CSI driver whose volumes this cloud would attach. */
const csiDriver = 'csi.simulated.millwright.dev';

/** All that looking for VMs and deleting them needs, so that a class broken elsewhere holds no deletion up. */
const Reach = z.object({ endpoint: SimulatedProviderSpec.shape.endpoint });

/** What tells the VMs of this installation from others. */
const Scope = z.object({ ...Reach.shape, tags: SimulatedProviderSpec.shape.tags });

/** Makes the provider. Credentials: the key `token` of a Secret. */
export function createSimulatedProvider({ readSecret }: ProviderDeps): Provider {
  /** The token, and the Secret that it is in. */
  async function readToken(credentials: readonly SecretRef[], signal: AbortSignal) {
    const secrets = await Promise.all(credentials.map((ref) => readSecret(ref, signal)));
    const holder = secrets.findLastIndex((secret) => secret?.token);
    return { token: secrets[holder]?.token?.toString().trim(), holder: credentials[holder] };
  }

  async function reach(request: { providerSpec?: unknown; credentials: SecretRef[] }, signal: AbortSignal) {
    const { endpoint } = parseOrRefuse(Reach, request.providerSpec, 'providerSpec');
    const { token } = await readToken(request.credentials, signal);
    if (token === undefined) throw new ProviderError('InvalidArgument', noToken(request.credentials));
    return { endpoint, token };
  }

  async function readUserData({ namespace, name, key }: EnsureVmRequest['userData'], signal: AbortSignal) {
    const secret = await readSecret({ namespace, name }, signal);
    const userData = secret?.[key]?.toString();
    if (userData) return userData;
    const problem = secret === undefined ? 'does not exist: create it' : `has no key ${key}: add it`;
    throw new ProviderError('InvalidArgument', `Secret ${namespace}/${name} with the user data ${problem}`);
  }

  return {
    async ensureVm(request, context) {
      const spec = parseOrRefuse(SimulatedProviderSpec, request.providerSpec, 'providerSpec');
      // Read with the token, as most classes have both in one Secret; it is missed only where a VM has to be made.
      const userDataRead = readUserData(request.userData, context.signal);
      userDataRead.catch(() => undefined);
      const access = await reach(request, context.signal);
      const find = (created?: CloudVm) => findSurvivor(access, request, context.signal, created);

      const found = await find();
      if (found) return toVm(found);

      const mayExist = request.outcomeUnknown || context.attempt > 1;
      if (mayExist) {
        await sleep(settleSeconds * 1000, undefined, { signal: context.signal });
        const late = await find();
        if (late) return toVm(late);
      }

      const userData = await userDataRead;
      const { region, machineType, labels, taints } = spec;
      const created = await createVm(
        access,
        {
          token: request.token,
          name: request.machine.name,
          region,
          machineType,
          tags: { ...spec.tags, [names.machineUid]: request.machine.uid },
          userData,
          node: { labels, taints },
        },
        context.signal,
      );
      return toVm(mayExist ? ((await find(created)) ?? created) : created);
    },

    async deleteVm(request, context) {
      const access = await reach(request, context.signal);
      if (request.only === undefined) return deleteAll(access, request, context);
      const { tags } = parseOrRefuse(Scope, request.providerSpec, 'providerSpec');
      return deleteOnly(access, request.only, tags, context.signal);
    },

    async listVms(request, { signal }) {
      const { tags } = parseOrRefuse(Scope, request.providerSpec, 'providerSpec');
      const access = await reach(request, signal);
      const { items, nextPage } = await listVms(access, { tags, page: request.page }, signal);
      return { items: items.map(toResource), ...(nextPage !== undefined && { nextPage }) };
    },

    async validateClass(request, { signal }) {
      const { error } = SimulatedProviderSpec.safeParse(request.providerSpec);
      const problems = error ? problemsOf(error, request.providerSpec, 'providerSpec') : [];
      const { token, holder } = await readToken(request.credentials, signal);
      const scope = Scope.safeParse(request.providerSpec).data;
      return {
        problems: token === undefined ? [...problems, noToken(request.credentials)] : problems,
        ...(scope && holder && { listScope: listScopeOf(scope, holder) }),
      };
    },

    async volumeIds({ volumes }) {
      const ids = volumes.flatMap(({ name, spec }): [string, string][] => {
        const { csi } = CsiVolume.safeParse(spec).data ?? {};
        return csi ? [[name, csi.volumeHandle]] : [];
      });
      return { ids: Object.fromEntries(ids) };
    },
  };
}

const CsiVolume = z.object({ csi: z.object({ driver: z.literal(csiDriver), volumeHandle: z.string() }) });

function noToken(credentials: readonly SecretRef[]): string {
  const secrets = credentials.map(({ namespace, name }) => `${namespace}/${name}`).join(', ') || 'none';
  return `no Secret with credentials has the key token (looked in: ${secrets}): add it to one of them`;
}

/** The VMs of a Machine that the cloud shows: those with its UID, and the one of its provider ID whatever its tags. */
async function listOwn(
  access: CloudAccess,
  { machine: { uid }, providerID }: Pick<DeleteVmRequest, 'machine' | 'providerID'>,
  signal: AbortSignal,
): Promise<CloudVm[]> {
  const vms: CloudVm[] = [];
  let page: string | undefined;
  do {
    const answer = await listVms(access, { tags: { [names.machineUid]: uid }, page }, signal);
    vms.push(...answer.items);
    page = answer.nextPage;
  } while (page !== undefined);
  if (providerID === undefined || !isOurs(providerID) || vms.some((vm) => isNamed(vm, providerID))) return vms;
  const id = providerID.slice(providerID.lastIndexOf('/') + 1).toLowerCase(); // as the ids of this cloud are
  const named = await findVm(access, id, signal);
  return named === undefined ? vms : [...vms, named];
}

/** The VM that the Machine names, else its oldest; others are deleted. `created` may not be listed yet. */
async function findSurvivor(access: CloudAccess, request: EnsureVmRequest, signal: AbortSignal, created?: CloudVm) {
  const { providerID } = request;
  const listed = await listOwn(access, request, signal);
  const unlisted = created && !listed.some(({ id }) => id === created.id) ? [created] : [];
  const isFirst = (vm: CloudVm) => providerID !== undefined && isNamed(vm, providerID);
  const [survivor, ...surplus] = [...listed, ...unlisted]
    .filter(isAlive)
    .toSorted((a, b) => Number(isFirst(b)) - Number(isFirst(a)) || Date.parse(a.createdAt) - Date.parse(b.createdAt));
  await Promise.all(surplus.map(({ id }) => deleteVm(access, id, signal)));
  return survivor;
}

async function deleteAll(access: CloudAccess, request: DeleteVmRequest, context: CallContext): Promise<VmDeletion> {
  const start = performance.now();
  const settledAt = start + (request.outcomeUnknown ? settleSeconds * 1000 : 0);
  const nodes = new Set<string>();
  for (;;) {
    const lookedAt = performance.now();
    const vms = await listOwn(access, request, context.signal);
    for (const { name } of vms) nodes.add(name);
    const nodeNames = [...nodes];
    if (vms.length === 0 && lookedAt >= settledAt) return { state: 'gone', nodeNames };
    if (vms.some(({ name }) => request.nodeNames?.includes(name) === false)) return { state: 'deleting', nodeNames };

    const live = vms.filter(({ state }) => state !== 'deleting');
    await Promise.all(live.map(({ id }) => deleteVm(access, id, context.signal)));
    if (performance.now() - start >= deletionPatienceMs) return { state: 'deleting', nodeNames };
    context.heartbeat({ vmsLeft: vms.length });
    await sleep(pollMs, undefined, { signal: context.signal });
  }
}

/** Deletes one VM. Its UID tag may be another since it was listed, or it may never have been this installation's. */
async function deleteOnly(
  access: CloudAccess,
  { id, uid }: { id: string; uid?: string | undefined },
  tags: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<VmDeletion> {
  const vm = await findVm(access, id.slice(id.lastIndexOf('/') + 1), signal);
  if (vm === undefined) return { state: 'gone', nodeNames: [] };
  const isOurs = Object.entries(tags).every(([key, value]) => vm.tags[key] === value);
  if (!isOurs || vm.tags[names.machineUid] !== uid) {
    const wanted = uid === undefined ? 'no UID tag' : `the UID tag ${uid}`;
    throw new ProviderError(
      'FailedPrecondition',
      `the VM ${id} was changed: it must have the tags of its class and ${wanted}`,
    );
  }
  if (vm.state !== 'deleting') await deleteVm(access, vm.id, signal);
  return { state: 'deleting', nodeNames: [vm.name] };
}

function listScopeOf({ endpoint, tags }: z.output<typeof Scope>, { namespace, name }: SecretRef): string {
  const sorted = Object.entries(tags).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([endpoint, `${namespace}/${name}`, sorted]);
}

function toVm(vm: CloudVm): Vm {
  const ended = vm.state === 'deleting' || vm.state === 'terminated';
  return {
    state: vm.state === 'creating' || vm.state === 'running' ? vm.state : 'failed',
    providerID: toProviderID(vm),
    nodeName: vm.name,
    addresses: vm.addresses,
    lastKnownState: vm.id,
    ...(ended && { message: `the VM ${vm.id} was deleted in the cloud` }),
  };
}

function toResource(vm: CloudVm): CloudResource {
  const uid = vm.tags[names.machineUid];
  return {
    kind: vm.kind,
    id: toProviderID(vm),
    ...(uid !== undefined && { uid }),
    name: vm.name,
    createdAt: vm.createdAt,
    alive: isAlive(vm),
    tags: vm.tags,
  };
}

function isAlive({ state }: CloudVm): boolean {
  return state === 'creating' || state === 'running';
}

function toProviderID({ region, id }: CloudVm): string {
  return `simulated:///${region}/${id}`;
}

function isNamed(vm: CloudVm, providerID: string): boolean {
  return vmOf(toProviderID(vm)) === vmOf(providerID);
}

function isOurs(providerID: string): boolean {
  return providerID.startsWith('simulated://');
}
