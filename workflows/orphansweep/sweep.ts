/**
 * The orphan sweep deletes what carries our tags in a cloud and has no Machine. It looks twice, and each time at the
 * cloud before the Machines: a Machine exists before its VM does, so a VM that is being created is never taken for an
 * orphan.
 */
import { sleep } from '@temporalio/workflow';
import type { ListedResource, PastSweeps, SweepScope } from '../../api/model/sweep.ts';
import { vmOf } from '../../api/provider-id.ts';
import { inParallel } from '../calls/parallel.ts';
import { findFailedRun, reportRun } from '../failed-run.ts';
import { brake, doubtsOf, hasFallen } from './brake.ts';
import { withDoubts } from './doubts.ts';
import { ask, cloudOf, formGroups, type Group, scopeOf } from './groups.ts';
import { holdAtBrake } from './hold.ts';
import type { SweepInput, SweepReport } from './messages.ts';
import { withoutMachine } from './ownership.ts';
import { readPage } from './page.ts';
import {
  type GroupLooks,
  type GroupPlan,
  type HeldSweep,
  judge,
  keyOf,
  type Look,
  planSweep,
  resourcesOf,
  type SweepPlan,
  surplusKeyOf,
} from './plan.ts';
import { kubernetes, type Sweep, show, startSweep, untilAnswered } from './progress.ts';
import { releaseSources } from './release.ts';
import { type RemovalOptions, removeOrphans } from './remove.ts';
import { reportGroups } from './report.ts';

/** Resources that are asked about with one list of the Machines. */
const maxAsked = 3_000;

/**
 * Workflow type `orphanSweep`. Deletes resources in the clouds that have no Machine. Completes with a report; what
 * failed is in it. Fails when nobody approves within 24 h. A run that takes over begins from the start.
 */
export async function orphanSweep(input: SweepInput): Promise<SweepReport> {
  const sweep = startSweep(input);
  const failed = findFailedRun();
  if (failed !== undefined) await reportRun(failed);
  show(sweep, { doing: 'reading the sources' });
  const { sources, limits, past } = await readScope(sweep);
  const groups = await formGroups(sources, (providers) => {
    const asked = `asking the providers ${providers.filter(Boolean).join(', ')} about their classes`;
    show(sweep, { doing: `${asked}; a call that no worker takes ends after a minute` });
  });
  const minimumAgeMs = limits.minimumAgeSeconds * 1_000;

  show(sweep, { doing: 'listing what the clouds have', groups: groups.length });
  await inParallel(groups, (group) => lookAt(sweep, group, 'first'));
  const suspects = suspectsIn(groups, minimumAgeMs);
  await lookAgain(sweep, suspects, limits.confirmAfterSeconds);

  const doubts = [...new Set([...past.unanswered, ...(await doubtsAbout(sweep, past))])];
  const listed = groups.filter(wasListed);
  const vms = listed.reduce((sum, { first, second = first }) => sum + second.vms, 0);
  const planned = await withDoubts(sweep, planSweep(listed, minimumAgeMs));
  const decision = brake(planned, vms, limits, doubts);
  const isWhole = decision.kind === 'hold' && decision.isWhole;
  const held = decision.kind === 'hold' && !input.dryRun ? decision : undefined;
  const before = held === undefined || isWhole ? [] : await doWhatIsCertain(sweep, groups, held, minimumAgeMs);
  const done = new Set(held?.certain.flatMap(({ remove }) => remove.map(({ key }) => key)));
  const settled = held && (await holdAtBrake(sweep, listed, held, { minimumAgeMs, seconds: limits.approvalSeconds }));
  const lost = settled === undefined ? [] : await lookAtSettled(sweep, suspects, settled);

  const judged = groups.filter(wasListed);
  const { approved } = sweep;
  const plan = held === undefined ? planned : planSweep(judged, minimumAgeMs, approved ?? new Set(), done);
  if (plan.kind === 'remove' && !input.dryRun) {
    await removeAll(sweep, judged, plan.groups, { minimumAgeMs, isApproved: approved !== undefined });
  }
  const reported = reportAll(groups, plan.groups);
  const releasedSources = input.dryRun ? [] : await releaseSources(sweep, reported);
  const open = [...(approved === undefined ? doubts.slice(0, maxDoubts) : []), ...lost];
  const notAnswered = [...open, ...notApproved(sweep, plan)];
  return {
    dryRun: input.dryRun,
    startedAt: sweep.startedAt,
    endedAt: new Date().toISOString(),
    groups: reported.map(({ report }) => report),
    ...(decision.kind === 'hold' && { braked: decision.reasons }),
    ...(sweep.approvedBy !== undefined && { approvedBy: sweep.approvedBy }),
    ...seenMachines(sweep, past),
    unanswered: held === undefined || isWhole ? notAnswered : [],
    releasedSources: [...before, ...releasedSources],
  };
}

/** Reads all sources, in as many calls as payloads need. */
async function readScope(sweep: Sweep): Promise<SweepScope> {
  const { input } = sweep;
  const first = await untilAnswered(sweep, () => kubernetes.readSweepScope(input));
  const sources = [...first.sources];
  for (let { next } = first; next !== undefined; ) {
    const after = next;
    const page = await untilAnswered(sweep, () => kubernetes.readSweepScope(input, after));
    sources.push(...page.sources);
    next = page.next;
  }
  return { ...first, sources };
}

/**
 * Deletes what nothing speaks for, and releases sources, before a person is asked about the rest. Answers the names of
 * sources.
 */
async function doWhatIsCertain(
  sweep: Sweep,
  groups: readonly Group[],
  { certain, groups: waiting }: Pick<HeldSweep, 'certain' | 'groups'>,
  minimumAgeMs: number,
): Promise<readonly string[]> {
  await removeAll(sweep, groups.filter(wasListed), certain, { minimumAgeMs, isApproved: false });
  const plans = waiting.map(({ remove, kept, ...plan }) => {
    const doubtful = { reason: 'doubtful', resources: resourcesOf(remove) } as const;
    return { ...plan, remove: [], kept: [...kept, doubtful] };
  });
  return releaseSources(sweep, reportAll(groups, plans));
}

/** @param plans of the groups that were listed */
function reportAll(groups: readonly Group[], plans: readonly GroupPlan[]) {
  return reportGroups({
    unlisted: groups.filter((group) => !wasListed(group)),
    listed: groups.filter(wasListed).map((group, i) => ({ group, plan: plans[i] })),
  });
}

/** Reasons to doubt that a sweep passes to the next one. */
const maxDoubts = 5;

function seenMachines({ census }: Sweep, past: PastSweeps): Pick<SweepReport, 'machines'> {
  if (census === undefined) return past.machines === undefined ? {} : { machines: past.machines };
  const { at, most, newest } = census;
  return { machines: { at, count: most, resourceVersion: newest } };
}

function notApproved({ startedAt }: Sweep, { groups }: SweepPlan): string[] {
  const isPartial = groups.some(({ kept }) => kept.some(({ reason }) => reason === 'notApproved'));
  return isPartial ? [`some orphans of the sweep of ${startedAt} were not approved`] : [];
}

/** Why the Machines are not believed. Asks how many were deleted only where many are missing. */
async function doubtsAbout(sweep: Sweep, { machines }: PastSweeps): Promise<string[]> {
  const { census, input } = sweep;
  const isFewer = census !== undefined && machines !== undefined && hasFallen(census, machines);
  const deleted = isFewer ? await untilAnswered(sweep, () => kubernetes.countDeletions(input, machines.at)) : 0;
  return doubtsOf(census, machines, deleted);
}

type ListedGroup = Group & GroupLooks;

function wasListed(group: Group): group is ListedGroup {
  return group.failure === undefined && group.first !== undefined;
}

/** The groups that have something to be suspicious of, with the keys of that. */
function suspectsIn(groups: readonly Group[], minimumAgeMs: number): Suspects {
  const suspects = new Map<Group, ReadonlySet<string>>();
  for (const group of groups.filter(wasListed)) {
    const { orphans } = judge(group.first, minimumAgeMs);
    if (orphans.length > 0) suspects.set(group, new Set(orphans.map(({ key }) => key)));
  }
  return suspects;
}

type Suspects = ReadonlyMap<Group, ReadonlySet<string>>;

/** The second look, some time later. */
async function lookAgain(sweep: Sweep, suspects: Suspects, pauseSeconds: number): Promise<void> {
  if (suspects.size === 0) return;
  const candidates = [...suspects.values()].reduce((sum, keys) => sum + keys.size, 0);
  const until = new Date(Date.now() + pauseSeconds * 1_000).toISOString();
  show(sweep, { doing: 'waiting to look again at what has no Machine', candidates, until });
  await sleep(pauseSeconds * 1_000, { summary: 'second look at what has no Machine' });
  show(sweep, { doing: 'looking again at what has no Machine' });
  await lookAtAll(sweep, suspects, [...suspects.keys()]);
}

/**
 * A second look in place of the one that may be a day old by now. Answers with what the next sweep has to doubt: that a
 * group could not be listed again.
 */
async function lookAtSettled(sweep: Sweep, suspects: Suspects, settled: ReadonlySet<string>): Promise<string[]> {
  show(sweep, { doing: 'looking again at what does not wait any more' });
  const isConcerned = (group: Group) => [...(suspects.get(group) ?? [])].some((key) => settled.has(key));
  const concerned = [...suspects.keys()].filter(isConcerned);
  await lookAtAll(sweep, suspects, concerned);
  const isLost = concerned.some(({ failure }) => failure !== undefined);
  return isLost ? [`not all that the sweep of ${sweep.startedAt} held could be listed again after approval`] : [];
}

async function lookAtAll(sweep: Sweep, suspects: Suspects, groups: readonly Group[]): Promise<void> {
  await inParallel(groups, (group) => lookAt(sweep, group, 'second', suspects.get(group)));
}

/** Lists a group, and then reads the Machines. A group that cannot be listed keeps no other from being. */
async function lookAt(
  sweep: Sweep,
  group: Group,
  which: 'first' | 'second',
  suspects: ReadonlySet<string> = new Set(),
): Promise<void> {
  const [source] = group.sources;
  if (group.failure !== undefined) return;
  const look = {
    atMs: Date.now(),
    seen: 0,
    vms: 0,
    ownerless: [],
    adopted: [],
    surplus: [],
    present: [],
  } as Mutable<Omit<Look, 'alive'>>;
  const alive = new Set<string>();
  let waiting: ListedResource[] = [];
  let page: string | undefined;
  do {
    const request = { ...scopeOf(source), ...(page !== undefined && { page }), withoutTags: true };
    const { answer, failure } = await ask(group.provider, () => cloudOf(group.provider).listVms(request));
    const listed = failure ?? readPage(answer, page);
    if ('code' in listed) {
      group.failure = listed;
      return;
    }
    look.seen += listed.items.length;
    look.vms += listed.items.filter(({ kind }) => kind === 'vm').length;
    if (which === 'first') show(sweep, { seen: sweep.progress.seen + listed.items.length });
    const keys = listed.items.flatMap((item) => [keyOf(item), surplusKeyOf(item)]);
    look.present.push(...keys.filter((key) => suspects.has(key)));
    for (const item of listed.items) if (item.kind === 'vm' && item.alive === true) alive.add(vmOf(item.id));
    waiting.push(...listed.items);
    page = listed.nextPage;
    if (waiting.length > 0 && (page === undefined || waiting.length >= maxAsked)) {
      const { ownerless, adopted, surplus } = await withoutMachine(sweep, waiting);
      look.ownerless.push(...ownerless);
      look.adopted.push(...adopted);
      look.surplus.push(...surplus);
      waiting = [];
    }
  } while (page !== undefined);
  group[which] = { ...look, alive };
  if (which === 'first') show(sweep, { listed: sweep.progress.listed + 1 });
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : T[K] };

async function removeAll(
  sweep: Sweep,
  groups: readonly ListedGroup[],
  plans: readonly GroupPlan[],
  how: RemovalOptions,
): Promise<void> {
  const candidates = plans.reduce((sum, { remove }) => sum + remove.length, 0);
  if (candidates === 0) return;
  show(sweep, { doing: 'deleting what has no Machine', candidates });
  for (const [i, group] of groups.entries()) await removeOrphans(sweep, group, plans[i]?.remove ?? [], how);
}
