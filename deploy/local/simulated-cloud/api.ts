/** The cloud's API under `/v1`: what a provider talks to. Faults show here and nowhere else. */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import {
  images,
  type MachineType,
  machineTypes,
  NodeTaint,
  type PartKind,
  partKinds,
} from '../../../activities/providers/simulated/schema.ts';
import { faultOf, hasTags, latencyMs } from '../faults.ts';
import type { CallSubject, Operation, ShownFault } from './faults.ts';
import { type CallRecord, type CloudState, type StoredPart, type StoredVm, stateOf } from './state.ts';

/** A request as the server has read it. */
export interface CloudRequest {
  readonly method: string;
  readonly url: URL;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

/** What to answer; `lost`: cut the connection instead. */
export type CloudAnswer =
  | 'lost'
  | { readonly status: number; readonly body: unknown; readonly headers?: Readonly<Record<string, string>> };

interface ApiDeps {
  readonly state: CloudState;
  /** Bearer tokens that are accepted. */
  readonly tokens: readonly string[];
  /** Called for each VM that was created. */
  readonly onCreated: (vm: StoredVm) => void;
}

const CreateBody = z.strictObject({
  token: z.string().min(1),
  name: z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'use a DNS name'),
  region: z.string().min(1),
  machineType: z.enum(Object.keys(machineTypes) as [MachineType, ...MachineType[]]),
  image: z.enum(images, { error: ({ input }) => `there is no image ${input}` }).optional(),
  tags: z.record(z.string(), z.string()),
  partTags: z.record(z.string(), z.string()).optional(),
  userData: z.string().min(1),
  node: z.strictObject({ labels: z.record(z.string(), z.string()), taints: z.array(NodeTaint) }).nullable(),
});

const ListQuery = z.object({
  limit: z.coerce.number().int().min(1).max(500).default(100),
  page: z.coerce.number().default(0),
});

/** Makes the function that serves a request with the id `id`. Every request is recorded, before and after. */
export function createCloudApi({ state, tokens, onCreated }: ApiDeps) {
  return async function serve(id: string, request: CloudRequest): Promise<CloudAnswer> {
    const { operation, vm } = routeOf(request);
    const body = CreateBody.safeParse(request.body).data;
    const started: CallRecord = {
      id,
      at: new Date().toISOString(),
      method: request.method,
      path: request.url.pathname + request.url.search,
      operation,
      outcome: 'pending',
      effect: false,
      ...(vm !== undefined && { vm }),
      ...(operation === 'create' && body && { token: body.token }),
    };
    state.recordCall(started);
    const { answer, effect } = await answerTo(request, operation, vm);
    const created = answer !== 'lost' && operation === 'create' ? idOf(answer.body) : undefined;
    state.recordCall({
      ...started,
      endedAt: new Date().toISOString(),
      outcome: answer === 'lost' ? 'lost' : answer.status,
      effect,
      ...(created !== undefined && { vm: created }),
      ...(answer !== 'lost' && { code: codeOf(answer.body) }),
    });
    return answer;
  };

  async function answerTo(request: CloudRequest, operation: CallRecord['operation'], id: string | undefined) {
    const refused = (answer: CloudAnswer) => ({ answer, effect: false });
    if (operation === 'unknown') return refused(failure(404, 'NotFound', `there is no ${request.url.pathname}`));
    const faults = state.faultsIn({ operation, ...subjectOf(request, id) });

    const outage = faultOf(faults, 'outage');
    if (outage) {
      return refused(outage.how === 'disconnect' ? 'lost' : failure(503, 'ServiceUnavailable', 'the cloud is down'));
    }
    const latency = faultOf(faults, 'latency');
    if (latency) await sleep(latencyMs(latency));
    const token = request.authorization?.replace(/^Bearer /, '') ?? '';
    if (!tokens.includes(token)) {
      return refused(failure(401, 'Unauthorized', `the token ${token} is not accepted`)); // some clouds quote what they refuse
    }
    if (faultOf(faults, 'forbidden')) {
      return refused(failure(403, 'Forbidden', `the credentials lack the permission to ${operation}`));
    }
    const throttle = faultOf(faults, 'throttle');
    if (throttle) return refused(throttled(throttle.retryAfterSeconds));

    const hang = faultOf(faults, 'hang');
    const lost = faultOf(faults, 'lostAnswer');
    const never = hang?.effect === 'none' || lost?.effect === 'none';
    const answer = never ? undefined : act(operation, request, id, faults);
    if (hang) await (hang.ms === undefined ? state.faultsReplaced() : sleep(hang.ms));
    const effect = answer !== undefined && answer.status < 300 && !isNothingKept(faults);
    return { answer: lost || answer === undefined ? ('lost' as const) : answer, effect };
  }

  function act(operation: Operation, request: CloudRequest, id: string | undefined, faults: readonly ShownFault[]) {
    if (operation === 'create') return create(request, faults);
    const isHidden = hiddenBy(faults);
    if (operation === 'list') return list(request.url, isHidden);
    const part = partOf(request.url);
    if (part !== undefined) return actOnPart(operation, part, faults);
    const vm = state.vm(id ?? '');
    const now = Date.now();
    if (vm === undefined || stateOf(vm, now) === 'terminated' || now < vm.visibleAt || isHidden(vm)) {
      return failure(404, 'NotFound', `there is no VM ${id}`);
    }
    if (operation === 'get') return { status: 200, body: toAnswer(vm) };
    if (isNothingKept(faults)) return { status: 202, body: { ...toAnswer(vm), state: 'deleting' } };
    leak(vm, faultOf(faults, 'leak')?.parts ?? []);
    const deleted = vm.deletedAt === null ? state.update(vm.id, { deletedAt: now }) : vm;
    return { status: 202, body: toAnswer(deleted ?? vm) };
  }

  /** Has parts of these kinds outlive the VM. */
  function leak(vm: StoredVm, kinds: readonly PartKind[]): void {
    for (const part of state.parts(Date.now())) {
      if (part.vm === vm.id && kinds.includes(part.kind)) state.updatePart(part, { leaked: true });
    }
  }

  function actOnPart(
    operation: Operation,
    { kind, id }: { kind: PartKind; id: string },
    faults: readonly ShownFault[],
  ) {
    const now = Date.now();
    const part = state.parts(now).find((each) => each.id === id && each.kind === kind && now >= each.visibleAt);
    if (part === undefined || hiddenBy(faults)(part)) return failure(404, 'NotFound', `there is no ${kind} ${id}`);
    if (operation === 'get') return { status: 200, body: toPartAnswer(part) };
    const vm = state.vm(part.vm ?? '');
    if (vm !== undefined && stateOf(vm, now) !== 'terminated') {
      return failure(409, 'InUse', `the ${kind} ${id} belongs to the VM ${vm.id}`);
    }
    if (!isNothingKept(faults)) state.updatePart(part, { deletedAt: now });
    return { status: 202, body: toPartAnswer(part) };
  }

  function create({ body }: CloudRequest, faults: readonly ShownFault[]) {
    const { data, error } = CreateBody.safeParse(body);
    if (error)
      return failure(400, 'InvalidParameter', error.issues.map((i) => `${i.path.join('.')}: ${i.message}`).join('; '));
    const known = faultOf(faults, 'ignoreTokens') ? undefined : state.vmOfToken(data.token);
    if (known) return { status: 200, body: toAnswer(known) };

    if (faultOf(faults, 'capacity'))
      return failure(409, 'InsufficientCapacity', `no room for another ${data.machineType}`);
    const quota = faultOf(faults, 'quota');
    if (quota && state.stats().vmsNow >= quota.limit) {
      return failure(403, 'QuotaExceeded', `the quota of ${quota.limit} VMs is used up`);
    }
    const leaked = faultOf(faults, 'leak');
    if (leaked) {
      state.addParts(data, leaked.parts);
      return failure(409, 'InsufficientCapacity', `no room for another ${data.machineType}; its parts were made`);
    }
    const now = Date.now();
    const after = (ms: number | undefined) => (ms === undefined ? null : now + ms);
    if (isNothingKept(faults)) return { status: 201, body: toAnswer(state.newVm(data)) };
    const { field } = faultOf(faults, 'notKept') ?? {};
    const kept = field === undefined ? data : { ...data, [field]: {} };
    const vm = state.addVm(kept, {
      visibleAt: now + (faultOf(faults, 'invisible')?.ms ?? 0),
      neverJoins: data.node === null || faultOf(faults, 'neverJoin') !== undefined,
      diesAt: after(faultOf(faults, 'die')?.afterMs),
      vanishesAt: after(faultOf(faults, 'vanish')?.afterMs),
    });
    state.addParts(kept, partKinds, vm);
    onCreated(vm);
    return { status: 201, body: toAnswer(vm) };
  }

  /** `/v1/vms` lists VMs, `/v1/resources` everything. */
  function list({ pathname, searchParams: query }: URL, isHidden: IsHidden) {
    const { data, error } = ListQuery.safeParse(Object.fromEntries(query));
    if (error) return failure(400, 'InvalidParameter', z.prettifyError(error));
    const now = Date.now();
    const wanted = tagsOf(query);
    const vm = query.get('vm');
    const onlyInterrupted = query.get('interrupted') === 'true';
    const isListed = (each: StoredVm | StoredPart) =>
      each.number > data.page && now >= each.visibleAt && hasTags(each.tags, wanted) && !isHidden(each);
    const vms = state
      .vms()
      .filter((each) => isListed(each) && stateOf(each, now) !== 'terminated' && (vm === null || each.id === vm))
      .filter(({ isInterrupted }) => isInterrupted === true || !onlyInterrupted);
    const parts = pathname === '/v1/resources' && !onlyInterrupted ? state.parts(now).filter(isListed) : [];
    const rest = [...vms, ...parts.filter((each) => vm === null || each.vm === vm)].toSorted(
      (a, b) => a.number - b.number,
    );
    const page = rest.slice(0, data.limit);
    const nextPage = rest.length > page.length ? { nextPage: String(page.at(-1)?.number) } : {};
    const items = page.map((each) => ('kind' in each ? toPartAnswer(each) : toAnswer(each)));
    return { status: 200, body: { items, ...nextPage } };
  }

  function subjectOf({ body, url }: CloudRequest, id: string | undefined) {
    const vm = state.vm(id ?? url.searchParams.get('vm') ?? '') ?? CreateBody.safeParse(body).data;
    const part = state.part(partOf(url)?.id ?? '');
    const isList = url.searchParams.has('vm');
    const resource: CallSubject['resource'] = part?.kind ?? (vm !== undefined && !isList ? 'vm' : undefined);
    return { resource, machineType: vm?.machineType, tags: vm?.tags ?? part?.tags ?? tagsOf(url.searchParams) };
  }
}

type IsHidden = (of: StoredVm | StoredPart) => boolean;

/** Whether the call is answered as if it had been done. */
function isNothingKept(faults: readonly ShownFault[]): boolean {
  const notKept = faultOf(faults, 'notKept');
  return notKept !== undefined && notKept.field === undefined;
}

function hiddenBy(faults: readonly ShownFault[]): IsHidden {
  const hidden = faultOf(faults, 'hidden');
  if (hidden === undefined) return () => false;
  const sinceMs = hidden.since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(hidden.since);
  const beforeMs = hidden.before === undefined ? Number.POSITIVE_INFINITY : Date.parse(hidden.before);
  return ({ createdAt }) => createdAt > sinceMs && createdAt <= beforeMs;
}

function routeOf({ method, url }: CloudRequest): { operation: CallRecord['operation']; vm?: string } {
  const [, id] = /^\/v1\/vms(?:\/([^/]+))?$/.exec(url.pathname) ?? [];
  if (id !== undefined && method === 'GET') return { operation: 'get', vm: id };
  if (id !== undefined && method === 'DELETE') return { operation: 'delete', vm: id };
  if (url.pathname === '/v1/vms' && method === 'POST') return { operation: 'create' };
  if (['/v1/vms', '/v1/resources'].includes(url.pathname) && method === 'GET') return { operation: 'list' };
  if (partOf(url) !== undefined && method === 'GET') return { operation: 'get' };
  if (partOf(url) !== undefined && method === 'DELETE') return { operation: 'delete' };
  return { operation: 'unknown' };
}

function partOf({ pathname }: URL): { kind: PartKind; id: string } | undefined {
  const [, plural, id] = /^\/v1\/(\w+)\/([^/]+)$/.exec(pathname) ?? [];
  const kind = partKinds.find((each) => `${each}s` === plural);
  return kind === undefined || id === undefined ? undefined : { kind, id };
}

/** `?tag=key=value`, any number of times. */
function tagsOf(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries(
    query.getAll('tag').map((tag) => [tag.slice(0, tag.indexOf('=')), tag.slice(tag.indexOf('=') + 1)]),
  );
}

function failure(status: number, code: string, message: string) {
  return { status, body: { error: { code, message } } };
}

function throttled(retryAfterSeconds: number) {
  return { ...failure(429, 'Throttled', 'too many requests'), headers: { 'retry-after': String(retryAfterSeconds) } };
}

const Coded = z.object({ error: z.object({ code: z.string() }) });
const Identified = z.object({ id: z.string() });

function codeOf(body: unknown): string | undefined {
  return Coded.safeParse(body).data?.error.code;
}

function idOf(body: unknown): string | undefined {
  return Identified.safeParse(body).data?.id;
}

/** A VM as the API shows it. */
export function toAnswer(vm: StoredVm) {
  const { id, name, region, machineType, tags } = vm;
  return {
    id,
    kind: 'vm' as const,
    name,
    region,
    machineType,
    tags,
    state: stateOf(vm, Date.now()),
    createdAt: new Date(vm.createdAt).toISOString(),
    addresses: addressesOf(vm),
  };
}

/** A disk, NIC or address as the API shows it. */
export function toPartAnswer({ id, kind, name, tags, vm, leaked, createdAt }: StoredPart) {
  return { id, kind, name, tags, ...(vm !== null && !leaked && { vm }), createdAt: new Date(createdAt).toISOString() };
}

/** The addresses of a VM, also those of its Node. */
export function addressesOf({ name, number }: StoredVm) {
  const internal = `10.${[number >> 16, number >> 8, number].map((part) => part & 255).join('.')}`;
  return [
    { type: 'InternalIP', address: internal },
    { type: 'Hostname', address: name },
  ];
}
