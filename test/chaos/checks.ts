/** Whether the promises of docs/reliability.md were kept: pure. A new check is a function in the list `checks`. */
import { names } from '../../api/names.ts';
import type { AuditEntry, Evidence, EvidentVm } from './evidence.ts';
import type { Observation } from './observer.ts';
import { agents, type Disturbance, hiding, restoreOfEtcd } from './world.ts';

/** A broken promise, as one line. */
export interface Violation {
  readonly what: string;
  readonly where: string;
  /** RFC 3339. */
  readonly at: string;
}

/** A client gives a call to the cloud up after this time, ms: 15 s and some for a busy machine. */
const clientGivesUpMs = 14_000;
/** From the answer of the cloud until its result is stored in Temporal, at most, ms. */
const storedWithinMs = 5_000;
/** What the observer may hear later than it happened, ms. */
const observerLagMs = 5_000;

/** A Machine may be made this long after a change by a plan from before it, ms. */
const plannedWithinMs = 30_000;
/**
 * A Node that has been Ready for this long is that of a healthy machine, ms: what was decided while it was not is done.
 */
const healthyAfterMs = 30_000;

const timeOf = (ms: number) => new Date(ms).toISOString();

/** When a VM ended or began to be deleted, ms; infinite: it lives. */
function endOf({ deletedAt, vanishesAt }: EvidentVm): number {
  return Math.min(deletedAt ?? Number.POSITIVE_INFINITY, vanishesAt ?? Number.POSITIVE_INFINITY);
}

function overlaps(disturbance: Disturbance, fromMs: number, toMs: number): boolean {
  return disturbance.fromMs <= toMs && disturbance.toMs >= fromMs;
}

function uidOf({ tags }: EvidentVm): string {
  return tags[names.machineUid] ?? '';
}

/**
 * No two VMs of one Machine lived at once, unless nobody got the answer to the create call of one, or the cloud denied
 * that the older one exists.
 */
export function findDoubleVms({ vms, calls, disturbances }: Evidence): Violation[] {
  const isDisturbed = (from: number, to: number, by = '') =>
    disturbances.some((each) => each.what.startsWith(by) && overlaps(each, from, to));
  const isUnanswered = (vm: EvidentVm) => {
    const createdAt = Date.parse(vm.createdAt);
    const answered = calls.find(({ operation, vm: id, at, endedAt, outcome }) => {
      const isOfVm = operation === 'create' && id === vm.id && typeof outcome === 'number';
      return isOfVm && Date.parse(at) <= createdAt && endedAt !== undefined && Date.parse(endedAt) >= createdAt;
    });
    if (answered?.endedAt === undefined) return true;
    const [from, to] = [Date.parse(answered.at), Date.parse(answered.endedAt)];
    return to - from > clientGivesUpMs || isDisturbed(from, to + storedWithinMs);
  };
  return vms.flatMap((vm, i) =>
    vms.slice(0, i).flatMap((older) => {
      const [from, to] = [Date.parse(older.createdAt), Date.parse(vm.createdAt)];
      const isDouble = uidOf(vm) === uidOf(older) && to < endOf(older);
      if (!isDouble || isUnanswered(vm) || isUnanswered(older) || isDisturbed(from, to, hiding)) return [];
      return [{ what: 'two VMs of one Machine', where: `${vm.name}: ${older.id} and ${vm.id}`, at: vm.createdAt }];
    }),
  );
}

/** Each Machine has the VM that it names, and nothing is there besides. */
export function findLeftovers({ vms, resources, machines, endedAt }: Evidence): Violation[] {
  const uids = new Set(machines.map(({ uid }) => uid));
  const orphans = resources
    .filter(({ tags }) => !uids.has(tags[names.machineUid] ?? ''))
    .map(({ id }) => ({ what: 'left without a Machine', where: id, at: endedAt }));
  const wrong = machines.flatMap(({ uid, name, providerID }) => {
    const own = vms.filter((vm) => uidOf(vm) === uid && endOf(vm) === Number.POSITIVE_INFINITY).map(({ id }) => id);
    if (own.length === 1 && providerID?.endsWith(`/${own[0]}`)) return [];
    return [
      { what: 'has not the one VM that it names', where: `${name} names ${providerID}, has ${own}`, at: endedAt },
    ];
  });
  return [...orphans, ...wrong];
}

/**
 * No VM was deleted that its Machine named, unless the Machine was deleted, or its Node was on purpose, or the Node of
 * another VM had its name when it was made. Where the Machine was lost, a person has approved the deletion of a VM that
 * had joined. Millwright has a cause where it deletes a Machine.
 */
export function findWrongDeletions(evidence: Evidence): Violation[] {
  const { vms, calls, audit, observations, nodeObservations } = evidence;
  const deletionsOf = (name: string) =>
    audit.filter((entry) => isDeletion(entry, 'machines', name) || isDeletion(entry, 'nodes', name));
  return vms.flatMap((vm) => {
    const call = calls.find(({ operation, vm: id, effect }) => operation === 'delete' && id === vm.id && effect);
    if (call === undefined || vm.deletedAt === null) return [];
    const atMs = vm.deletedAt;
    const seen = observations.filter(({ uid }) => uid === uidOf(vm));
    const last = seen.findLast(({ atMs: seenAt }) => seenAt <= atMs);
    const isNamed = last?.state === 'present' && last.providerID?.endsWith(`/${vm.id}`);
    const isGoneSoon = seen.some((each) => each.state !== 'present' && Math.abs(each.atMs - atMs) < observerLagMs);
    const where = `${vm.name}: ${vm.id}`;
    const deletions = deletionsOf(vm.name).filter((entry) => Date.parse(entry.at) <= atMs);
    if (deletions.length === 0 && isNamed && !isGoneSoon && !hadTakenName(nodeObservations, vm, atMs)) {
      return [{ what: 'a VM was deleted that its Machine names', where, at: timeOf(atMs) }];
    }
    if (needsApproval(evidence, vm, atMs, deletions) && !evidence.approved.some((id) => id.endsWith(`/${vm.id}`))) {
      return [{ what: 'a VM was deleted that nobody has approved', where, at: timeOf(atMs) }];
    }
    const first = deletions.find((entry) => Date.parse(entry.at) >= Date.parse(vm.createdAt));
    if (first === undefined || !first.userAgent.startsWith(agents.millwright) || hasCause(evidence, vm, first))
      return [];
    return [{ what: 'Millwright deleted a healthy Machine without a cause', where, at: first.at }];
  });
}

/** Whether a Node had the name of a VM when that was made, and the VM has not joined since. */
function hadTakenName(nodes: Evidence['nodeObservations'], { name, createdAt }: EvidentVm, atMs: number): boolean {
  const createdAtMs = Date.parse(createdAt);
  const own = nodes.filter((each) => each.name === name && each.atMs <= atMs);
  const before = own.findLast((each) => each.atMs <= createdAtMs);
  return before?.isThere === true && !own.some((each) => each.isReady && each.atMs > createdAtMs);
}

/**
 * Whether a VM was that of a Machine, had joined, and nobody had deleted the Machine or the Node: etcd has lost them.
 */
function needsApproval(
  { observations, nodeObservations }: Evidence,
  vm: EvidentVm,
  atMs: number,
  deletions: readonly AuditEntry[],
): boolean {
  const createdAtMs = Date.parse(vm.createdAt);
  const seen = observations.filter((each) => each.uid === uidOf(vm) && each.atMs <= atMs + observerLagMs);
  const wasNamed = seen.some(({ providerID }) => providerID?.endsWith(`/${vm.id}`));
  const hasJoined = nodeObservations.some(
    (node) => node.name === vm.name && node.isReady && createdAtMs <= node.atMs && node.atMs <= atMs,
  );
  const wasDeleted =
    seen.some(({ state }) => state === 'being deleted') ||
    deletions.some(({ at }) => Date.parse(at) >= createdAtMs - plannedWithinMs);
  return wasNamed && hasJoined && vm.vanishesAt === null && !wasDeleted;
}

/**
 * Whether its Node was not Ready or its VM taken away, or, since the VM was made, people have changed or deleted its
 * deployment or anything of that, or etcd was restored.
 */
function hasCause({ audit, disturbances, nodeObservations }: Evidence, vm: EvidentVm, { at }: AuditEntry): boolean {
  const [fromMs, toMs] = [Date.parse(vm.createdAt) - plannedWithinMs, Date.parse(at)];
  const node = nodeObservations.findLast(({ name, atMs }) => name === vm.name && atMs <= toMs);
  const isHealthy = node?.isReady === true && node.atMs <= toMs - healthyAfterMs && vm.vanishesAt === null;
  const isOfPeople = ({ userAgent, resource, name, code, at: then }: AuditEntry) =>
    userAgent.startsWith(agents.chaos) &&
    owned.includes(resource) &&
    deploymentOf(name) === deploymentOf(vm.name) &&
    code < 300 &&
    fromMs <= Date.parse(then) &&
    Date.parse(then) <= toMs;
  const isRestored = disturbances.some((each) => each.what === restoreOfEtcd && overlaps(each, fromMs, toMs));
  return !isHealthy || isRestored || audit.some(isOfPeople);
}

const owned: readonly string[] = ['machinedeployments', 'machinesets', 'machines'];

/** Of a Machine, a MachineSet or a MachineDeployment of a run: their names begin with it, and it has no hyphen. */
function deploymentOf(name: string): string | undefined {
  return name.split('-')[0];
}

function isDeletion({ verb, resource, name, code }: AuditEntry, of: string, named: string): boolean {
  return verb === 'delete' && resource === of && name === named && code < 300;
}

/** Machines that nobody has touched are those of the beginning, with their VMs. */
export function findReplacements({ untouchedBefore, machines, endedAt }: Evidence): Violation[] {
  return untouchedBefore.flatMap(({ uid, name, providerID }) => {
    const now = machines.find((each) => each.uid === uid);
    if (now?.providerID === providerID) return [];
    return [
      {
        what: 'a Machine was replaced that nobody has touched',
        where: `${name}: ${now?.providerID ?? 'gone'}`,
        at: endedAt,
      },
    ];
  });
}

/**
 * No Machine was made of a deployment that had as many as it may have, which somebody has asked for a moment ago.
 * Preserved Machines are left out, because of older templates they do not count, and so are those of sets that had
 * another owner a moment ago.
 */
export function findSurplusMachines(evidence: Evidence): Violation[] {
  const { observations, bounds } = evidence;
  return creationsIn(evidence).flatMap(({ name, atMs, fromMs, toMs, deployment, made, deploymentOfSet }) => {
    const most = Math.max(...valuesOf(boundsOf(bounds, deployment), fromMs, toMs).map((each) => each.most));
    const then = new Map(observations.filter((each) => each.atMs <= toMs).map((each) => [each.uid, each]));
    const own = [...then.values()].filter((each) => {
      const counts = made.has(each.uid) && each.state === 'present' && !each.isPreserved;
      return counts && deploymentOfSet(each.set) === deployment;
    });
    if (own.length <= most) return [];
    const where = `${name} is number ${own.length} of ${most}`;
    return [{ what: 'a Machine was made beyond replicas and maxSurge', where, at: timeOf(atMs) }];
  });
}

/**
 * No Machine was made of a deployment with a limit while as many Machines of such deployments were provisioning as the
 * lowest limit of the namespace allows. Limits count that somebody has set a moment ago, or before. Left out are
 * Machines that the observer has heard of late: how many were provisioning when they were made, it has not seen.
 */
export function findMachinesAboveLimit(evidence: Evidence): Violation[] {
  const { bounds } = evidence;
  const limited = [...new Set(bounds.map(({ uid }) => uid))].map((uid) => boundsOf(bounds, uid));
  return creationsIn(evidence).flatMap(({ name, atMs, createdMs, fromMs, deployment, before, deploymentOfSet }) => {
    const limitsAt = (ms: number) => limited.map((own) => own.findLast((each) => each.atMs <= ms)?.mostProvisioning);
    const times = [fromMs, ...bounds.map((each) => each.atMs).filter((ms) => fromMs < ms && ms <= atMs)];
    const limit = Math.max(
      ...times.map((ms) => Math.min(...limitsAt(ms).map((each) => each ?? Number.POSITIVE_INFINITY))),
    );
    const takesPart = (uid: string | undefined) =>
      valuesOf(boundsOf(bounds, uid), fromMs, atMs).every((each) => each.mostProvisioning !== undefined);
    const provisioning = before.filter((each) => {
      const owner = deploymentOfSet(each.set);
      return each.isProvisioning && owner !== undefined && takesPart(owner);
    });
    const isLate = createdMs < atMs - observerLagMs;
    if (isLate || !takesPart(deployment) || provisioning.length < limit) return [];
    const where = `${name} is number ${provisioning.length + 1} of ${limit}`;
    return [{ what: 'a Machine was made above a limit of the namespace', where, at: timeOf(atMs) }];
  });
}

/**
 * The Machines that were made, each with what was known a moment before and after. Left out are those without a
 * deployment, or with another one a moment ago, and those that a restore of etcd may have brought back.
 */
function creationsIn({ observations, owners, disturbances }: Evidence) {
  const made = new Set<string>();
  const before = new Map<string, Observation>();
  return observations.flatMap((observation) => {
    const { uid, name, set, atMs, createdMs } = observation;
    const [fromMs, toMs] = [atMs - plannedWithinMs, atMs + observerLagMs];
    const others = made.has(uid) ? [] : [...before.values()];
    const isNew = !made.has(uid);
    made.add(uid);
    before.set(uid, observation);
    const isRestored = disturbances.some((each) => each.what === restoreOfEtcd && overlaps(each, fromMs, toMs));
    const deploymentOfSet = (of: string | undefined) => {
      const changes = owners.filter((each) => each.set === of);
      const ownerAt = (ms: number) => (changes.findLast((each) => each.atMs <= ms) ?? changes[0])?.deployment;
      return ownerAt(fromMs) === ownerAt(toMs) ? ownerAt(toMs) : undefined;
    };
    const deployment = deploymentOfSet(set);
    if (!isNew || deployment === undefined || isRestored) return [];
    return [{ name, atMs, createdMs, fromMs, toMs, deployment, made: new Set(made), before: others, deploymentOfSet }];
  });
}

function boundsOf(bounds: Evidence['bounds'], deployment: string | undefined): Evidence['bounds'] {
  return bounds.filter(({ uid }) => uid === deployment);
}

/** What held at some time from `fromMs` until `toMs`. Default of that: the end. */
function valuesOf<T extends { readonly atMs: number }>(
  changes: readonly T[],
  fromMs: number,
  toMs = Number.POSITIVE_INFINITY,
): readonly T[] {
  const until = changes.filter(({ atMs }) => atMs <= toMs);
  return until.slice(
    Math.max(
      0,
      until.findLastIndex(({ atMs }) => atMs <= fromMs),
    ),
  );
}

/**
 * No bootstrap token is left of a machine that has joined or is gone. Two expire instead: of a Machine that was deleted
 * by force while something was broken, and of one that a restore of etcd does not bring back as it does the token.
 */
export function findLeftTokens({ tokens, machines, observations, disturbances, endedAt }: Evidence): Violation[] {
  const uids = new Set(machines.map(({ uid }) => uid));
  return tokens.flatMap(({ name, machineUid, createdAt }) => {
    const isOlder = (each: Disturbance) => each.what === restoreOfEtcd && Date.parse(createdAt) <= each.toMs;
    const forced = observations.filter((each) => each.uid === machineUid && each.isForced);
    const [fromMs = Infinity, toMs = 0] = [forced[0]?.atMs, forced.at(-1)?.atMs];
    const isForced = disturbances.some((each) => overlaps(each, fromMs, toMs));
    if (!uids.has(machineUid) && (isForced || disturbances.some(isOlder))) return [];
    return [{ what: 'a bootstrap token is left', where: `${name} of the Machine ${machineUid}`, at: endedAt }];
  });
}

/**
 * Before the first create call for a Machine Millwright has written to it, and it had the finalizer around that call.
 * Left out are calls around a restore of etcd, which takes finalizers away, and Machines that were never seen.
 */
export function findUnprotectedVms({ vms, calls, audit, observations, disturbances }: Evidence): Violation[] {
  return vms.flatMap((vm) => {
    const call = calls.find(({ operation, token }) => operation === 'create' && token === vm.token);
    const atMs = Date.parse(call?.at ?? vm.createdAt);
    const seen = observations.filter(({ uid }) => uid === uidOf(vm));
    const [before, after] = [seen.filter((each) => each.atMs <= atMs), seen.find((each) => each.atMs > atMs)];
    const createdMs = seen[0]?.createdMs ?? 0;
    const isWritten = audit.some(({ verb, resource, name, userAgent, code, at }) => {
      const isOfMachine = verb === 'patch' && resource === 'machines' && name === vm.name && code < 300;
      const writtenMs = Date.parse(at);
      return isOfMachine && userAgent.startsWith(agents.millwright) && createdMs <= writtenMs && writtenMs <= atMs;
    });
    const isStored = before.at(-1)?.isProtected === true || after?.isProtected === true;
    const wasStored = before.some(({ isProtected }) => isProtected);
    const isRestored = disturbances.some((each) => {
      return each.what === restoreOfEtcd && overlaps(each, atMs - plannedWithinMs, atMs + observerLagMs);
    });
    if (seen.length === 0 || (isStored && (isWritten || wasStored)) || isRestored) return [];
    return [
      { what: 'a VM was asked for before the finalizer was stored', where: `${vm.name}: ${vm.id}`, at: timeOf(atMs) },
    ];
  });
}

/**
 * No Machine is left that the autoscaler has named. Left out are those that have changed their owner since, that people
 * have changed since or preserved, and all after which etcd was restored.
 */
export function findKeptMachines(evidence: Evidence): Violation[] {
  const { named, machines, observations, owners, audit, disturbances, endedAt } = evidence;
  return named.flatMap(({ uid, name, deployment, atMs }) => {
    const seen = observations.filter((each) => each.uid === uid);
    const since = valuesOf(seen, atMs);
    const isOfOthers = since.some(({ set }) => {
      const changes = owners.filter((each) => each.set === set);
      return changes.length === 0 || valuesOf(changes, atMs).some((each) => each.deployment !== deployment);
    });
    const isChanged = audit.some((entry) => {
      const isOfMachine = entry.verb === 'patch' && entry.resource === 'machines' && entry.name === name;
      return isOfMachine && entry.userAgent.startsWith(agents.chaos) && Date.parse(entry.at) >= atMs;
    });
    const isRestored = disturbances.some(({ what, toMs }) => what === restoreOfEtcd && toMs >= atMs);
    const isExcepted = isOfOthers || isChanged || isRestored || since.some(({ isPreserved }) => isPreserved);
    if (isExcepted || !machines.some((each) => each.uid === uid)) return [];
    return [{ what: 'a Machine is left that the autoscaler has named', where: name, at: endedAt }];
  });
}

/** The Node and the VM of somebody else are as they were. */
export function findChangedStrangers({ strangersBefore, strangersAfter, endedAt }: Evidence): Violation[] {
  return Object.entries(strangersBefore).flatMap(([what, before]) => {
    const after = strangersAfter[what];
    if (after === before) return [];
    return [{ what: `the ${what} of somebody else was changed`, where: `${before} became ${after}`, at: endedAt }];
  });
}

/** Machines were deleted by Millwright, by people and by the garbage collector alone. */
export function findForeignDeletions({ audit }: Evidence): Violation[] {
  const known = [agents.chaos, agents.millwright, 'kube-controller-manager'];
  return audit
    .filter(({ verb, resource, userAgent }) => {
      return verb.startsWith('delete') && resource === 'machines' && !known.some((each) => userAgent.startsWith(each));
    })
    .map(({ name, userAgent, at }) => ({ what: `a Machine was deleted by ${userAgent}`, where: name, at }));
}

/** Every process that ended by itself has said why. */
export function findUnexplainedEnds({ endings }: Evidence): Violation[] {
  return endings
    .filter(({ code, signal, lastLines }) => signal !== 'SIGKILL' && code !== 0 && !explains(lastLines))
    .map(({ process, at, code, signal }) => {
      return { what: 'a process ended without a reason', where: `${process}, ${signal ?? `exit code ${code}`}`, at };
    });
}

function explains(lastLines: string): boolean {
  return /"level":"(error|fatal)"/.test(lastLines);
}

/** What the SDK says of the timeout of a local activity whose worker has ended meanwhile. No process ends from it. */
const lateTimeout = 'receive half not dropped: SendError';

/** No process has crashed. */
export function findCrashes({ logs, endedAt }: Evidence): Violation[] {
  return Object.entries(logs).flatMap(([process, log]) => {
    const found = log.split('\n').find((line, i, lines) => isOfCrash(line) && !lines[i + 1]?.startsWith(lateTimeout));
    return found === undefined ? [] : [{ what: 'a process crashed', where: `${process}: ${found}`, at: endedAt }];
  });
}

/** What the command line logs of an error that nobody caught, and what Node and the SDK print of theirs. */
function isOfCrash(line: string): boolean {
  if (line.startsWith('{"level":')) return line.includes('ending because of an unexpected error');
  return /unhandled|uncaught|panicked|^\w*Error: (?!millwright|waited)/i.test(line); // these two are of the supervisor
}

/** No secret value is in anything that people read. */
export function findSecrets({ secrets, texts, logs, endedAt }: Evidence): Violation[] {
  return Object.entries({ ...texts, ...logs }).flatMap(([where, text]) =>
    secrets.some((secret) => text.includes(secret)) ? [{ what: 'a secret value is in', where, at: endedAt }] : [],
  );
}

/**
 * What the SDK logs of a worker that was frozen for longer than a workflow task may take, and has mixed it up with the
 * next one of its run.
 */
const mixedUp = 'Trying to send a new WFT for a run which already has one!';

/** When workers have mixed up tasks, ms since the epoch, by their clocks. */
function mixUpsIn(logs: Evidence['logs']): number[] {
  const lines = Object.values(logs).flatMap((log) => log.split('\n').filter((line) => line.includes(mixedUp)));
  return lines.map((line) => Date.parse(/"time":"([^"]+)"/.exec(line)?.[1] ?? ''));
}

/**
 * Every run can be replayed. Where Temporal was restored, or a worker has mixed up tasks, the history of a run that was
 * open then may differ from what a worker remembered: the controllers end such a run if Temporal refuses to replay it.
 */
export function findReplayDifferences({ replays, restores, logs }: Evidence): Violation[] {
  const moments = [...restores, ...mixUpsIn(logs)];
  return replays.flatMap(({ run, startedAt, closedAt, difference, isRefused }) => {
    if (difference === undefined) return [];
    const wasOpen = (atMs: number) =>
      Date.parse(startedAt) <= atMs && (closedAt === undefined || atMs <= Date.parse(closedAt));
    const mayDiffer = moments.some(wasOpen) && (closedAt !== undefined || !isRefused);
    return mayDiffer ? [] : [{ what: 'a run is replayed differently', where: `${run}: ${difference}`, at: startedAt }];
  });
}

/** All checks. */
export const checks: readonly ((evidence: Evidence) => Violation[])[] = [
  findDoubleVms,
  findLeftovers,
  findWrongDeletions,
  findReplacements,
  findSurplusMachines,
  findMachinesAboveLimit,
  findLeftTokens,
  findUnprotectedVms,
  findKeptMachines,
  findChangedStrangers,
  findForeignDeletions,
  findUnexplainedEnds,
  findCrashes,
  findSecrets,
  findReplayDifferences,
];

/** For people. */
export function lineOf({ what, where, at }: Violation): string {
  return `${at} ${what}: ${where}`;
}
