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
import { type CloudAccess, createVm, deleteResource, findPart, listAll, listPage } from './client.ts';
import { type CloudVm, type CloudResource as Listed, partKinds, SimulatedProviderSpec } from './schema.ts';

const settleSeconds = 2;
/** `deleteVm` answers `deleting` after this long, so that its caller sees that it goes on. */
const deletionPatienceMs = 20_000;
const pollMs = 100;

/** CSI driver whose volumes this cloud would attach. */
const csiDriver = 'csi.simulated.millwright.dev';

/** All that looking for VMs and deleting them needs, so that no deletion waits for what is wrong elsewhere. */
const Reach = z.object({ endpoint: SimulatedProviderSpec.shape.endpoint });

/** Tags by which the VMs of this installation are found. */
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
      const tags = { ...spec.tags, [names.machineUid]: request.machine.uid };
      const created = await createVm(
        access,
        {
          token: request.token,
          name: request.machine.name,
          region,
          machineType,
          tags,
          partTags: tags,
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
      const { items, nextPage } = await listPage(access, { tags, page: request.page }, signal);
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

/** What the cloud shows of a Machine: all with its UID, and the VM of its provider ID with its parts whatever their tags. */
async function listOwn(
  access: CloudAccess,
  { machine: { uid }, providerID }: Pick<DeleteVmRequest, 'machine' | 'providerID'>,
  signal: AbortSignal,
): Promise<Listed[]> {
  const own = await listAll(access, { tags: { [names.machineUid]: uid } }, signal);
  if (providerID === undefined || !isOurs(providerID) || own.some((each) => isVm(each) && isNamed(each, providerID)))
    return own;
  const ids = new Set(own.map(({ id }) => id));
  const vm = idOf(providerID).toLowerCase(); // as the ids of this cloud are
  return [...own, ...(await listAll(access, { vm }, signal)).filter(({ id }) => !ids.has(id))];
}

/** The VM that the Machine names, else its oldest; others are deleted. `created` may not be listed yet. */
async function findSurvivor(access: CloudAccess, request: EnsureVmRequest, signal: AbortSignal, created?: CloudVm) {
  const { providerID } = request;
  const listed = (await listOwn(access, request, signal)).filter(isVm);
  const unlisted = created && !listed.some(({ id }) => id === created.id) ? [created] : [];
  const isFirst = (vm: CloudVm) => providerID !== undefined && isNamed(vm, providerID);
  const [survivor, ...surplus] = [...listed, ...unlisted]
    .filter(isAlive)
    .toSorted((a, b) => Number(isFirst(b)) - Number(isFirst(a)) || Date.parse(a.createdAt) - Date.parse(b.createdAt));
  await Promise.all(surplus.map((vm) => deleteResource(access, vm, signal)));
  return survivor;
}

async function deleteAll(access: CloudAccess, request: DeleteVmRequest, context: CallContext): Promise<VmDeletion> {
  const start = performance.now();
  const settledAt = start + (request.outcomeUnknown ? settleSeconds * 1000 : 0);
  const nodes = new Set<string>();
  for (;;) {
    const lookedAt = performance.now();
    const own = await listOwn(access, request, context.signal);
    const vms = own.filter(isVm);
    for (const { name } of vms) nodes.add(name);
    const nodeNames = [...nodes];
    if (own.length === 0 && lookedAt >= settledAt) return { state: 'gone', nodeNames };
    if (vms.some(({ name }) => request.nodeNames?.includes(name) === false)) return { state: 'deleting', nodeNames };

    // Most parts go with their VM, and before it none can be deleted.
    const doomed = vms.length > 0 ? vms.filter(({ state }) => state !== 'deleting') : own;
    await Promise.all(doomed.map((each) => deleteResource(access, each, context.signal)));
    if (performance.now() - start >= deletionPatienceMs) return { state: 'deleting', nodeNames };
    context.heartbeat({ vmsLeft: vms.length, partsLeft: own.length - vms.length });
    await sleep(pollMs, undefined, { signal: context.signal });
  }
}

/**
 * Deletes one resource, of a VM its parts as well. Its UID tag may be another since it was listed, or it may never have
 * been this installation's.
 */
async function deleteOnly(
  access: CloudAccess,
  { kind, id, uid }: NonNullable<DeleteVmRequest['only']>,
  tags: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<VmDeletion> {
  const isAsListed = (each: Listed) =>
    each.tags[names.machineUid] === uid && Object.entries(tags).every(([key, value]) => each.tags[key] === value);
  const found = await findWithParts(access, { kind, id: idOf(id) }, signal);
  const named = found.find((each) => each.kind === kind);
  if (named !== undefined && !isAsListed(named)) {
    const wanted = uid === undefined ? 'no UID tag' : `the UID tag ${uid}`;
    throw new ProviderError(
      'FailedPrecondition',
      `the ${kind} ${id} was changed: it must have the tags of its class and ${wanted}`,
    );
  }
  const doomed = named === undefined ? found.filter(isAsListed) : [named];
  if (doomed.length === 0) return { state: 'gone', nodeNames: [] };
  const live = doomed.filter((each) => !isVm(each) || each.state !== 'deleting');
  await Promise.all(live.map((each) => deleteResource(access, each, signal)));
  return { state: 'deleting', nodeNames: doomed.filter(isVm).map(({ name }) => name) };
}

/** A resource; of a VM its parts, too, also when they have outlived it. */
async function findWithParts(
  access: CloudAccess,
  { kind, id }: { kind: CloudResource['kind']; id: string },
  signal: AbortSignal,
): Promise<Listed[]> {
  if (kind === 'vm') return listAll(access, { vm: id }, signal);
  const partKind = partKinds.find((each) => each === kind);
  const part = partKind && (await findPart(access, { kind: partKind, id }, signal));
  return part === undefined ? [] : [part];
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

function toResource(listed: Listed): CloudResource {
  const { kind, id, name, createdAt, tags } = listed;
  const uid = tags[names.machineUid];
  const common = { kind, name, createdAt, tags, ...(uid !== undefined && { uid }) };
  return isVm(listed) ? { ...common, id: toProviderID(listed), alive: isAlive(listed) } : { ...common, id };
}

function isVm(listed: Listed): listed is CloudVm {
  return listed.kind === 'vm';
}

function isAlive({ state }: CloudVm): boolean {
  return state === 'creating' || state === 'running';
}

function toProviderID({ region, id }: CloudVm): string {
  return `simulated:///${region}/${id}`;
}

/** The cloud's own id in a provider ID, or a bare id as it is. */
function idOf(providerID: string): string {
  return providerID.slice(providerID.lastIndexOf('/') + 1);
}

function isNamed(vm: CloudVm, providerID: string): boolean {
  return vmOf(toProviderID(vm)) === vmOf(providerID);
}

function isOurs(providerID: string): boolean {
  return providerID.startsWith('simulated://');
}
