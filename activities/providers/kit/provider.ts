/**
 * The kit: makes a provider of a cloud. What docs/providers.md promises is here, once for all clouds: one VM for a
 * Machine whatever answers are lost, no part left behind, nothing deleted that belongs to somebody else.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type FailureCode, failures } from '../../../api/failures.ts';
import { names } from '../../../api/names.ts';
import type {
  CloudResource,
  DeleteVmRequest,
  EnsureVmRequest,
  InterruptionPage,
  ListInterruptionsRequest,
  SecretRef,
  UpdateVmRequest,
  Vm,
  VmDeletion,
} from '../../../api/provider.ts';
import { vmOf } from '../../../api/provider-id.ts';
import { temporalNowMs } from '../../boundary.ts';
import { inOurWords, parseOrRefuse, problemsOf } from '../problems.ts';
import { type CallContext, type Provider, type ProviderDeps, ProviderError } from '../provider.ts';
import type { Cloud, CloudItem, CloudPart, CloudVm, Tags, VmOrder } from './cloud.ts';
import { readCreationFailure } from './errors.ts';
import { type CallSession, createSessions } from './session.ts';

/** `deleteVm` answers `deleting` after this long, so that its caller sees that it goes on, ms. */
export const deletionPatienceMs = 20_000;

/** The pause between two looks at what is being deleted, after one of `pauseMs`: longer by half, at most 5 s. */
export function nextLookPauseMs(pauseMs: number): number {
  return Math.min(5_000, pauseMs * 1.5);
}

/** How often a refused creation looks whether what it has left is gone. */
const takeBackLooks = 3;

/** What of a request says which VMs are the Machine's. */
type MachineRequest = Pick<EnsureVmRequest, 'machine' | 'providerID' | 'providerSpec'>;

/** The VM of a Machine, or the parts that are there without one. */
interface Survivor {
  readonly survivor: CloudVm | undefined;
  readonly parts: readonly CloudPart[];
}

/** Makes a provider of a cloud. */
export function createProvider<Spec extends { tags: Tags }, Reach, Credentials, Client>(
  strict: Cloud<Spec, Reach, Credentials, Client>,
  deps: ProviderDeps,
): Provider {
  const cloud = { ...strict, ...withNulls(strict) };
  type Own = CallSession<Client>;
  const sessions = createSessions(cloud, deps);
  const settleMs = cloud.settleSeconds * 1_000;
  const { interruptions } = cloud;

  /**
   * What the cloud shows of a VM, by its provider ID or its id. A cloud may know wildcards, and then finds another VM.
   */
  async function findVm(session: Own, name: string): Promise<readonly CloudItem[]> {
    const id = idOf(name).toLowerCase();
    const found = await cloud.findVm(session, id);
    return found.some((each) => isVm(each) && idOf(each.providerID).toLowerCase() !== id) ? [] : found;
  }

  /**
   * What the cloud shows of a Machine: all with its UID, and as `named` the VM of its provider ID with its parts
   * whatever their tags, if it has not the UID.
   */
  async function find(
    session: Own,
    { machine, providerID }: Pick<EnsureVmRequest, 'machine' | 'providerID'>,
    withParts = false,
  ): Promise<{ readonly own: readonly CloudItem[]; readonly named: readonly CloudItem[] }> {
    const answered = await cloud.findOwn(session, machine, withParts);
    // A cloud may ignore a filter that it does not know, and then lists what belongs to others.
    const found = answered.filter(({ tags }) => tags[names.machineUid] === machine.uid);
    const own = found.filter(isLeft);
    if (!isOurs(providerID) || found.some((each) => isNamed(each, providerID))) return { own, named: [] };
    const ids = new Set(own.map(({ id }) => id));
    return { own, named: (await findVm(session, providerID)).filter(({ id }) => !ids.has(id)) };
  }

  /** The same without the VM of somebody else that the Machine may name: what may be used, changed and deleted. */
  async function listSafe(
    session: Own,
    request: MachineRequest,
    withParts = false,
  ): Promise<{ readonly listed: readonly CloudItem[]; readonly stranger?: CloudVm }> {
    const { own, named } = await find(session, request, withParts);
    if (named.length === 0) return { listed: own };
    const tags = parseOrRefuse(cloud.tags, request.providerSpec, 'providerSpec');
    const vm = named.find(isVm);
    const isOfOthers = vm !== undefined && !hasTags(vm.tags, tags);
    return isOfOthers
      ? { listed: own, ...(isLeft(vm) && { stranger: vm }) }
      : { listed: [...own, ...named.filter(isLeft)] };
  }

  /** VMs of somebody else to which parts of the Machine are attached: with another UID, or without a UID and the tags of the class. */
  async function findHolders(session: Own, request: MachineRequest, listed: readonly CloudItem[]): Promise<CloudVm[]> {
    const known = listed.filter(isVm).map(({ id }) => id.toLowerCase());
    const users = new Set(listed.filter(isPart).flatMap(({ attachedTo }) => attachedTo?.toLowerCase() ?? []));
    const unknown = [...users].filter((id) => !known.includes(id));
    if (unknown.length === 0) return [];
    const tags = parseOrRefuse(cloud.tags, request.providerSpec, 'providerSpec');
    const found = await Promise.all(unknown.map((id) => findVm(session, id)));
    const isOwn = (vm: CloudVm) => {
      const uid = vm.tags[names.machineUid];
      return uid === undefined ? hasTags(vm.tags, tags) : uid === request.machine.uid;
    };
    return found.flatMap((items) => items.filter(isVm)).filter((vm) => isLeft(vm) && !isOwn(vm));
  }

  /**
   * The VM of its name that others have made for a Machine without a provider ID, and those that are being deleted. By
   * the name alone nothing is deleted. Throws `OutOfRange` where it may be one of several.
   */
  async function findUntagged(
    session: Own,
    { machine, providerID, providerSpec }: Pick<EnsureVmRequest, 'machine' | 'providerID' | 'providerSpec'>,
  ): Promise<{ readonly alive?: CloudVm; readonly dying: readonly CloudVm[] }> {
    if (isOurs(providerID) || cloud.findByName === undefined) return { dying: [] };
    const tags = parseOrRefuse(cloud.tags, providerSpec, 'providerSpec');
    const found = await cloud.findByName(session, machine.name, tags);
    const untagged = found.filter((vm) => vm.tags[names.machineUid] === undefined);
    const [alive, ...more] = untagged.filter(isAlive);
    if (alive && more.length > 0) {
      const ids = [alive, ...more].map(({ id }) => id).join(', ');
      const message = `${ids} have the name and tags of the Machine: set spec.providerID to one of them, or delete them`;
      throw new ProviderError('OutOfRange', message);
    }
    return { ...(alive && { alive }), dying: untagged.filter(({ state }) => state === 'deleting') };
  }

  /** The same for a creation. Only where its outcome is unknown: no VM is made before the finalizer is on. */
  async function findAdoptable(session: Own, request: EnsureVmRequest): Promise<CloudVm[]> {
    const { alive } = request.outcomeUnknown ? await findUntagged(session, request) : {};
    return alive === undefined ? [] : [alive];
  }

  /** Whether a provider ID is of this cloud. */
  function isOurs(providerID: string | undefined): providerID is string {
    return providerID?.toLowerCase().startsWith(`${cloud.scheme}://`) === true;
  }

  /**
   * The VM that the Machine names, else the oldest that is alive; others are deleted. Where there is none, the parts
   * that a failed creation has left. `created` may not be listed yet. Throws where the Machine names somebody else's.
   */
  async function findSurvivor(
    session: Own,
    request: EnsureVmRequest,
    { created, onFound }: { readonly created?: CloudVm; readonly onFound?: () => void } = {},
  ): Promise<Survivor> {
    const { providerID } = request;
    const { listed: own, stranger } = await listSafe(session, request);
    if (stranger !== undefined) throw ofOthers(stranger);
    const listed = own.length > 0 || created ? own : await findAdoptable(session, request);
    const unlisted = created && !listed.some(({ id }) => id === created.id) ? [created] : [];
    const rank = (vm: CloudVm) => (providerID !== undefined && isNamed(vm, providerID) ? 0 : isAlive(vm) ? 1 : 2);
    const [survivor, ...surplus] = [...listed.filter(isVm), ...unlisted]
      .filter(({ state }) => state !== 'deleting' && state !== 'gone')
      .toSorted((a, b) => rank(a) - rank(b) || byAge(a, b));
    if (listed.length > 0) onFound?.();
    if (!request.mustExist) await deleteEach(session, surplus);
    return { survivor, parts: listed.some(isVm) ? [] : listed.filter(isPart) };
  }

  /** The VM of a request that must change nothing. Its class may be one of which no VM could be made. */
  async function look(request: EnsureVmRequest, signal: AbortSignal): Promise<Vm> {
    const session = await sessions.open(request, 'create', signal);
    const { survivor } = await findSurvivor(session, request);
    if (survivor !== undefined) return toVm(survivor);
    throw new ProviderError('NotFound', `the cloud shows no VM of Machine ${request.machine.name}`);
  }

  /** Asks for all deletions, also where one is refused, and throws the first refusal. */
  async function deleteEach(session: Own, items: readonly CloudItem[]): Promise<void> {
    const outcomes = await Promise.allSettled(items.map((item) => cloud.delete(session, item)));
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  async function deleteAll(
    session: Own,
    request: Omit<DeleteVmRequest, 'only' | 'credentials'>,
    context: CallContext,
  ): Promise<VmDeletion> {
    const start = performance.now();
    const settledAt = start + (request.outcomeUnknown ? settleMs : 0);
    const found = new Set<string>();
    let looking = session;
    for (let pollMs = cloud.deletionPollMs; ; pollMs = nextLookPauseMs(pollMs)) {
      const lookedAt = performance.now();
      const { listed, stranger: named } = await listSafe(looking, request);
      const strangers = [...(named ? [named] : []), ...(await findHolders(looking, request, listed))];
      const mayBeOthers = listed.length === 0 && request.mayBeUntagged === true;
      const { alive, dying = [] } = mayBeOthers ? await findUntagged(looking, request) : {};
      if (alive !== undefined) return { state: 'deleting', nodeNames: [...found], untaggedVm: toIdentity(alive) };
      const own = [...listed.filter((item) => !strangers.some((vm) => isAttached(item, vm))), ...dying];
      const vms = own.filter(isVm);
      const present = namesOf(vms);
      for (const name of present) found.add(name);
      const nodeNames = [...found];
      if (own.length === 0 && lookedAt >= settledAt) {
        const stranger = strangers.find(({ state }) => state !== 'deleting');
        if (stranger !== undefined) throw stranger === named ? ofOthers(stranger) : holding(stranger);
        return { state: strangers.length > 0 ? 'deleting' : 'gone', nodeNames };
      }
      if (present.some((name) => request.nodeNames?.includes(name) === false)) return { state: 'deleting', nodeNames };

      // Most parts go with their VM, and before it none can be deleted.
      const doomed = vms.length > 0 ? vms.filter(({ state }) => state !== 'deleting') : own;
      await deleteEach(session, doomed);
      const nowMs = performance.now();
      if (own.length > 0 && nowMs - start >= deletionPatienceMs) return { state: 'deleting', nodeNames };
      context.heartbeat({ vmsLeft: vms.length, partsLeft: own.length - vms.length });
      // Where nothing is listed, only something that is listed late can change that.
      await sleep(own.length > 0 ? pollMs : Math.max(settledAt - nowMs, 0), undefined, { signal: context.signal });
      looking = session.at('create'); // to look whether something is gone is no more urgent than to create
    }
  }

  /**
   * Deletes one resource, of a VM its parts as well. Its UID tag may be another since it was listed, or it may never
   * have been this installation's.
   */
  async function deleteOnly(session: Own, only: NonNullable<DeleteVmRequest['only']>, tags: Tags): Promise<VmDeletion> {
    const { kind, id, uid } = only;
    const isAsListed = (each: CloudItem) => each.tags[names.machineUid] === uid && hasTags(each.tags, tags);
    const found = (await findOnly(session, kind, id)).filter(isLeft);
    const named = found.find((each) => each.kind === kind);
    if (named !== undefined && !isAsListed(named)) {
      const wanted = uid === undefined ? 'no UID tag' : `the UID tag ${uid}`;
      const message = `the ${kind} ${id} was changed: it must have the tags of its class and ${wanted}`;
      throw new ProviderError('FailedPrecondition', message);
    }
    const doomed = named === undefined ? found.filter(isAsListed) : [named];
    if (doomed.length === 0) return { state: 'gone', nodeNames: [] };
    const live = doomed.filter((each) => !isVm(each) || each.state !== 'deleting');
    await deleteEach(session, live);
    return { state: 'deleting', nodeNames: namesOf(doomed.filter(isVm)) };
  }

  /** A resource; of a VM its parts, too, also when they have outlived it. */
  async function findOnly(session: Own, kind: CloudItem['kind'], id: string): Promise<readonly CloudItem[]> {
    if (kind === 'vm') return findVm(session, id);
    const part = await cloud.findPart(session, kind, id);
    return part === undefined ? [] : [part];
  }

  /**
   * Creates the VM. What a refusal leaves is deleted, and a code says that nothing was made only where that is known.
   */
  async function create(session: Own, request: EnsureVmRequest, order: Omit<VmOrder<Spec>, 'tags'>, mayExist: boolean) {
    const tags = { ...order.spec.tags, [names.machineUid]: request.machine.uid };
    let hasChanged = false;
    const counted: Own = {
      ...session,
      async send(act, isRead = false) {
        const answer = await session.send(act);
        hasChanged ||= !isRead;
        return answer;
      },
    };
    try {
      return await cloud.create(counted, { ...order, tags });
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      const { outcomeUnknown, nothingMade } = failures[error.code];
      const isFirstRefused = nothingMade && !hasChanged;
      if (outcomeUnknown || isFirstRefused) throw error;
      // Parts that are listed may be those of an earlier attempt that still runs.
      const isClean = !mayExist && (await takeBack(session, request, hasChanged));
      throw isClean ? error : somethingLeft(error);
    }
  }

  /** Deletes the parts that a refused creation has left. Answers whether nothing is left for certain. */
  async function takeBack(session: Own, request: EnsureVmRequest, mayBeListedLate: boolean): Promise<boolean> {
    const { signal } = session;
    try {
      if (mayBeListedLate) await sleep(settleMs, undefined, { signal });
      for (let look = 0; look < takeBackLooks; look++) {
        const { listed: own } = await listSafe(session, request);
        if (own.length === 0) return true;
        if (own.some(isVm)) return false; // it is the Machine's, and parts may belong to it
        await deleteEach(session, own);
        await sleep(cloud.deletionPollMs, undefined, { signal });
      }
      return false;
    } catch (error) {
      if (error instanceof ProviderError) return false;
      throw error;
    }
  }

  /** Of the VM that was created and others that have come to light. */
  async function chooseSurvivor(session: Own, request: EnsureVmRequest, created: CloudVm): Promise<CloudVm> {
    try {
      return (await findSurvivor(session, request, { created })).survivor ?? created;
    } catch (error) {
      throw error instanceof ProviderError ? somethingLeft(error) : error;
    }
  }

  /**
   * Why the cloud could not make a VM that it had accepted, as far as it says so. Where it shows neither the VM nor a
   * part, the failure is an old one.
   */
  async function findFailure(
    session: Own,
    { lastKnownState }: EnsureVmRequest,
    { survivor, parts }: Survivor,
  ): Promise<ProviderError | undefined> {
    const mayHaveFailed = survivor ? survivor.state === 'creating' || survivor.state === 'failed' : parts.length > 0;
    if (!mayHaveFailed) return undefined;
    const ofOperation =
      lastKnownState === undefined ? undefined : await cloud.failureOf?.(session, lastKnownState, survivor);
    const failure = ofOperation ?? survivor?.failure;
    return failure && readCreationFailure(cloud, failure);
  }

  /**
   * Throws a failure that time or a person has to change, as if the request had been refused, and deletes the VM and
   * what was made for it: the next call sends it again. Answers nothing for any other, after which the VM itself has
   * failed.
   */
  async function refuse(
    session: Own,
    { machine, providerID, providerSpec }: EnsureVmRequest,
    failure: ProviderError,
    context: CallContext,
  ): Promise<void> {
    const { code } = failure;
    if (code !== 'ResourceExhausted' && !failures[code].nothingMade) return;
    try {
      const own = { machine, providerSpec, ...(providerID !== undefined && { providerID }), outcomeUnknown: false };
      await deleteAll(session, own, context);
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error; // what is left now goes with the next call
    }
    throw somethingLeft(failure);
  }

  /** The VM, as `uninitialized` while its set-up is not done. A refusal of the set-up is its message: the VM exists. */
  async function finish(session: Own, { lastKnownState }: EnsureVmRequest, spec: Spec, vm: CloudVm): Promise<Vm> {
    const answer = {
      ...(lastKnownState !== undefined && { lastKnownState }),
      ...toVm(vm),
      ...(cloud.setTags && { tags: tagsOf(vm, spec.tags) }),
    };
    if (cloud.setUp === undefined || answer.state === 'failed') return answer;
    try {
      const message = await cloud.setUp(session, spec, vm);
      if (message === undefined) return answer;
      // What a new VM has may be listed late: that is no reason to complain.
      const isNew = temporalNowMs() < Date.parse(vm.createdAt) + settleMs;
      return { ...answer, state: 'uninitialized', ...(!isNew && { message }) };
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      return { ...answer, state: 'uninitialized', message: error.message };
    }
  }

  async function updateVm(request: UpdateVmRequest, { signal }: CallContext): Promise<void> {
    const { [names.machineUid]: _, ...tags } = request.tags;
    const removed = request.removedTags.filter((key) => key !== names.machineUid && tags[key] === undefined);
    const session = await sessions.open(request, 'sweep', signal);
    const { listed } = await listSafe(session, request, true);
    await cloud.setTags?.(session, listed, { tags, removed });
  }

  async function listInterruptions(
    request: ListInterruptionsRequest,
    { signal }: CallContext,
  ): Promise<InterruptionPage> {
    const tags = parseOrRefuse(cloud.tags, request.providerSpec, 'providerSpec');
    const session = await sessions.open(request, 'create', signal); // a VM that is taken away has to be replaced
    return (await interruptions?.list(session, tags, request.page)) ?? { items: [] };
  }

  async function readUserData({ namespace, name, key }: EnsureVmRequest['userData'], signal: AbortSignal) {
    const secret = await deps.readSecret({ namespace, name }, signal);
    const userData = secret?.[key]?.toString();
    if (userData) return userData;
    const problem = secret === undefined ? 'does not exist: create it' : `has no key ${key}: add it`;
    throw new ProviderError('InvalidArgument', `Secret ${namespace}/${name} with the user data ${problem}`);
  }

  return {
    plainKeys: cloud.credentialKeys.filter((key) => !cloud.secretKeys.includes(key)),

    async ensureVm(request, context) {
      const mayExist = request.outcomeUnknown || context.attempt > 1;
      let isMade = mayExist;
      let asked: string | undefined;
      try {
        if (request.mustExist) return await look(request, context.signal);
        const spec = parseOrRefuse(cloud.providerSpec, completeSpec(request), 'providerSpec');
        asked = cloud.asked?.(spec);
        // Read with the credentials, as most classes have both in one Secret; it is missed only where a VM has to be
        // made.
        const userDataRead = readUserData(request.userData, context.signal);
        userDataRead.catch(() => undefined);
        const session = await sessions.open(request, 'create', context.signal);

        const onFound = () => {
          isMade = true;
        };
        let found = await findSurvivor(session, request, { onFound });
        if (found.survivor === undefined && mayExist) {
          await sleep(settleMs, undefined, { signal: context.signal });
          found = await findSurvivor(session, request);
        }
        const { survivor, parts } = found;
        const failure = await findFailure(session, request, found);
        if (failure !== undefined) await refuse(session, request, failure, context);
        if (survivor !== undefined) return await finish(session, request, spec, failed(survivor, failure));

        const { machine, token } = request;
        const order = { spec, machine, token, userData: await userDataRead };
        if (!mayExist) await deleteEach(session, parts); // otherwise they may be those of an attempt that still runs
        isMade = true;
        const created = await create(session, request, { ...order, parts: mayExist ? parts : [] }, mayExist);
        const chosen = mayExist ? await chooseSurvivor(session, request, created) : created;
        const verdict = chosen.failure && readCreationFailure(cloud, chosen.failure);
        if (verdict !== undefined) await refuse(session, request, verdict, context);
        return await finish(session, request, spec, failed(chosen, verdict));
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error;
        const answer = error.code === 'ResourceExhausted' && asked ? forWantOf(asked, error) : error;
        throw isMade ? answer : nothingMade(answer);
      }
    },

    async deleteVm(request, context) {
      const session = await sessions.open(request, 'delete', context.signal);
      try {
        if (request.only === undefined) return await deleteAll(session, request, context);
        const tags = parseOrRefuse(cloud.tags, request.providerSpec, 'providerSpec');
        return await deleteOnly(session, request.only, tags);
      } catch (error) {
        throw error instanceof ProviderError ? notGone(error) : error;
      }
    },

    async listVms(request, { signal }) {
      const tags = parseOrRefuse(cloud.tags, request.providerSpec, 'providerSpec');
      const session = await sessions.open(request, 'sweep', signal);
      const { items, nextPage } = await cloud.list(session, tags, request.page);
      const left = items.filter(isLeft).map((item) => toResource(item, cloud.scheme));
      return { items: left, ...(nextPage !== undefined && { nextPage }) };
    },

    async validateClass(request, { signal }) {
      const { data: spec, error } = cloud.providerSpec.safeParse(request.providerSpec, { error: inOurWords });
      const { problems, holders, isUsable } = await sessions.judge(request, signal);
      const reach = cloud.reach.safeParse(request.providerSpec).data;
      const tags = cloud.tags.safeParse(request.providerSpec).data;
      return {
        problems: [...(error ? problemsOf(error, request.providerSpec, 'providerSpec') : []), ...problems],
        ...(reach && tags && isUsable && { listScope: listScopeOf(reach, tags, holders) }),
        ...(cloud.setTags && spec && { tags: { ...spec.tags } }),
        ...(spec && interruptions?.mayHit(spec) && { interruptible: true }),
      };
    },

    async volumeIds({ volumes }) {
      const ids = volumes.flatMap(({ name, spec }): [string, string][] => {
        const id = cloud.volumeId(spec);
        return id === undefined ? [] : [[name, id]];
      });
      return { ids: Object.fromEntries(ids) };
    },

    ...(cloud.setTags && { updateVm }),
    ...(interruptions && { listInterruptions }),
  };
}

/** A field that is null counts as left out, as for programs in Go, which write so what they have no value for. */
function withNulls<Spec extends { tags: Tags }, Reach>({
  providerSpec,
  reach,
  tags,
}: Pick<Cloud<Spec, Reach, never, never>, 'providerSpec' | 'reach' | 'tags'>) {
  return {
    providerSpec: z.preprocess(withoutNulls, providerSpec),
    reach: z.preprocess(withoutNulls, reach),
    tags: z.preprocess(withoutNulls, tags),
  };
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(entries.map(([key, each]) => [key, withoutNulls(each)]));
}

function completeSpec({ providerSpec, providerSpecDefaults }: EnsureVmRequest): unknown {
  const isObject = typeof providerSpec === 'object' && providerSpec !== null;
  return isObject && providerSpecDefaults ? { ...providerSpecDefaults, ...providerSpec } : providerSpec;
}

/** A refusal after which something may exist: its code must not say that nothing was made. */
function somethingLeft(refusal: ProviderError): ProviderError {
  if (!failures[refusal.code].nothingMade) return refusal;
  const message = `${refusal.message}; something may have been made before`;
  return withCode('Internal', message, refusal);
}

/** From `deleteVm` NotFound would say that all is gone. In the middle of it something else went, so it looks again. */
function notGone(refusal: ProviderError): ProviderError {
  return refusal.code === 'NotFound' ? withCode('Aborted', refusal.message, refusal) : refusal;
}

/** A failure before anything was sent that changes the cloud. */
function nothingMade({ code, message, cloudCode, requestId, retryAfterMs, cause }: ProviderError): ProviderError {
  return new ProviderError(code, message, { cloudCode, requestId, retryAfterMs, nothingMade: true, cause });
}

/** Says what there is no room for. */
function forWantOf(asked: string, refusal: ProviderError): ProviderError {
  const { code, message, cloudCode, requestId, retryAfterMs, nothingMade } = refusal;
  const details = { cloudCode, requestId, retryAfterMs, nothingMade, cause: refusal };
  return new ProviderError(code, `${message} (asked for ${asked})`, details);
}

function withCode(code: FailureCode, message: string, refusal: ProviderError): ProviderError {
  const { cloudCode, requestId, retryAfterMs } = refusal;
  return new ProviderError(code, message, { cloudCode, requestId, retryAfterMs, cause: refusal });
}

function listScopeOf(reach: unknown, tags: Tags, holders: readonly SecretRef[]): string {
  const sorted = Object.entries(tags).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([reach, holders.map(({ namespace, name }) => `${namespace}/${name}`), sorted]);
}

function toVm(vm: CloudVm): Vm {
  const { state, providerID, nodeName, addresses, lastKnownState, id, failure } = vm;
  const common = {
    providerID,
    addresses: [...addresses],
    ...(nodeName !== undefined && { nodeName }),
    ...(lastKnownState !== undefined && { lastKnownState }),
  };
  if (state === 'creating' || state === 'running') return { ...common, state };
  return { ...common, state: 'failed', message: failure?.message ?? `the VM ${id} was ${endings[state]} in the cloud` };
}

function toIdentity({ providerID, nodeName }: CloudVm): NonNullable<VmDeletion['untaggedVm']> {
  return { providerID, ...(nodeName !== undefined && { nodeName }) };
}

const endings = { stopped: 'stopped', failed: 'not made', deleting: 'deleted', gone: 'deleted' } as const;

/** A VM that will never run, where its creation has failed. */
function failed(vm: CloudVm, failure: ProviderError | undefined): CloudVm {
  return failure === undefined ? vm : { ...vm, state: 'failed', failure };
}

/** Those of the wanted tags that it has, with its values. */
function tagsOf(vm: CloudVm, wanted: Tags): Record<string, string> {
  return Object.fromEntries(
    Object.keys(wanted).flatMap((key) => (vm.tags[key] === undefined ? [] : [[key, vm.tags[key]]])),
  );
}

function toResource(item: CloudItem, scheme: string): CloudResource {
  const { kind, id, name, createdAt, tags } = item;
  const uid = tags[names.machineUid];
  const common = { kind, name, createdAt, tags: { ...tags }, ...(uid !== undefined && { uid }) };
  if (isVm(item)) return { ...common, id: item.providerID, alive: isAlive(item) };
  return { ...common, id, ...(item.attachedTo !== undefined && { attachedTo: `${scheme}:///${item.attachedTo}` }) };
}

function isVm(item: CloudItem): item is CloudVm {
  return item.kind === 'vm';
}

function isPart(item: CloudItem): item is CloudPart {
  return !isVm(item);
}

function isAttached(item: CloudItem, vm: CloudVm): boolean {
  return isPart(item) && item.attachedTo?.toLowerCase() === vm.id.toLowerCase();
}

function isLeft(item: CloudItem): boolean {
  return !isVm(item) || item.state !== 'gone';
}

function isAlive({ state }: CloudVm): boolean {
  return state === 'creating' || state === 'running';
}

/** Names of the VMs' Nodes, as far as the cloud has chosen them. */
function namesOf(vms: readonly CloudVm[]): string[] {
  return vms.flatMap(({ nodeName }) => nodeName ?? []);
}

/** Oldest first. Every look sorts VMs of the same second in the same way. */
function byAge(a: CloudVm, b: CloudVm): number {
  return Date.parse(a.createdAt) - Date.parse(b.createdAt) || (a.id < b.id ? -1 : 1);
}

function hasTags(tags: Tags, wanted: Tags): boolean {
  return Object.entries(wanted).every(([key, value]) => tags[key] === value);
}

function ofOthers({ providerID, name }: CloudVm): ProviderError {
  const message =
    `the VM ${providerID}${name && ` (${name})`} is neither used nor deleted: it has neither the tags of the class nor the ` +
    'UID of the Machine. Correct or remove spec.providerID; if the VM is the Machine’s, give it the tags of the class';
  return new ProviderError('FailedPrecondition', message);
}

/** Why a part of the Machine stays. */
function holding({ providerID, name, tags }: CloudVm): ProviderError {
  const uid = tags[names.machineUid];
  const whose = uid === undefined ? 'has neither the tags of the class nor a UID of a Machine' : `has the UID ${uid}`;
  const message =
    `what is attached to the VM ${providerID}${name && ` (${name})`} is not deleted: this VM ${whose}. Detach from it ` +
    'what has the UID of the Machine; if the VM is the Machine’s, give it this UID as its tag';
  return new ProviderError('FailedPrecondition', message);
}

function isNamed(item: CloudItem, providerID: string): boolean {
  return isVm(item) && vmOf(item.providerID) === vmOf(providerID);
}

/** The cloud's own id in a provider ID, or a bare id as it is. */
function idOf(providerID: string): string {
  return providerID.slice(providerID.lastIndexOf('/') + 1);
}
