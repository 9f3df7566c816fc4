/** The deletions of a sweep, each orphan's right after a last look for its Machine. */
import { patched, sleep } from '@temporalio/workflow';
import type { ListedResource, SweepNotice } from '../../api/model/sweep.ts';
import type { DeleteVmRequest } from '../../api/provider.ts';
import { readVmDeletion } from '../calls/answers.ts';
import { concurrency, inParallel } from '../calls/parallel.ts';
import { doubtOrphans } from './doubts.ts';
import { ask, cloudOf, type Group, type Removal, reportedOn, scopeOf } from './groups.ts';
import { type Findings, withoutMachine } from './ownership.ts';
import { judge, type Orphan, resourcesOf, surplusKeyOf, withoutVmPatch } from './plan.ts';
import { recordNotices, type Sweep, show } from './progress.ts';

export interface RemovalOptions {
  readonly minimumAgeMs: number;
  /** A person has named what goes: no doubt keeps it. */
  readonly isApproved: boolean;
}

/**
 * Deletes orphans of a group, as many at once as one look for their Machines is fresh for, and notes on it what came of
 * that.
 */
export async function removeOrphans(
  sweep: Sweep,
  group: Group,
  orphans: readonly Orphan[],
  { minimumAgeMs, isApproved }: RemovalOptions,
): Promise<void> {
  const removal = (group.removal ??= { deleted: [], deleting: [], cameBack: [], doubtful: [], failed: [] });
  for (let i = 0; i < orphans.length; i += concurrency) {
    const batch = orphans.slice(i, i + concurrency);
    const doomed = stillOrphans(batch, await withoutMachine(sweep, resourcesOf(batch)), minimumAgeMs);
    const left = batch.filter(({ key }) => doomed.has(key));
    removal.cameBack.push(...batch.filter(({ key }) => !doomed.has(key)));
    const doubted = isApproved ? new Map<string, Orphan>() : await doubtOrphans(sweep, left);
    removal.doubtful.push(...doubted.values());
    const notices: SweepNotice[] = [];
    await inParallel(
      left.filter(({ key }) => !doubted.has(key)),
      async (orphan) => {
        notices.push(...(await removeOne(sweep, group, orphan, removal)));
      },
    );
    await recordNotices(sweep, notices);
  }
}

/** Keys of those that have no Machine even now, as the answer about their resources says. */
export function stillOrphans(batch: readonly Orphan[], answer: Findings, minimumAgeMs: number): ReadonlySet<string> {
  const keepers = new Map(batch.map(({ key, keeper }) => [key, keeper]));
  const surplus = answer.surplus.filter(({ resource, keeper }) => keepers.get(surplusKeyOf(resource)) === keeper);
  const alive = new Set(surplus.map(({ keeper }) => keeper)); // as the last list of the cloud says
  const look = { ...answer, surplus, alive, atMs: Date.now(), seen: 0, vms: 0, present: [] };
  const complete = new Map(batch.map(({ key, resources: { length } }) => [key, length]));
  const { orphans } = judge(look, minimumAgeMs);
  return new Set(orphans.filter(({ key, resources: left }) => left.length === complete.get(key)).map(({ key }) => key));
}

/** Between two questions whether the cloud is done, and how many are asked. */
const askPauseMs = 5_000;
const maxAsks = 12;

async function removeOne(sweep: Sweep, group: Group, orphan: Orphan, removal: Removal): Promise<SweepNotice[]> {
  const object = reportedOn(group);
  const notices: SweepNotice[] = [];
  for (const { target, resources } of toDeletions(orphan, sweep.input.namespace)) {
    const part = { ...orphan, resources };
    const deletion = await deleteTarget(group, target);
    if ('code' in deletion) {
      removal.failed.push({ orphan: part, failure: deletion });
      show(sweep, { failed: sweep.progress.failed + 1 });
      const note = `could not delete ${nameOf(part)}, which ${whyOf(part, 'has')}: ${deletion.message}`;
      notices.push({ object, reason: 'OrphanNotDeleted', note });
    } else {
      const isGone = deletion.state === 'gone';
      (isGone ? removal.deleted : removal.deleting).push(part);
      show(sweep, { deleted: sweep.progress.deleted + 1 });
      const done = isGone || !patched('orphans-that-are-not-gone') ? 'deleted' : 'the cloud is still deleting';
      notices.push({ object, reason: 'OrphanDeleted', note: `${done} ${nameOf(part)}, which ${whyOf(part, 'had')}` });
    }
  }
  return notices;
}

/** What goes in one call. */
interface Deletion {
  readonly target: Pick<DeleteVmRequest, 'machine' | 'providerID' | 'only'>;
  readonly resources: Orphan['resources'];
}

/** Asks until the cloud is done, or for a minute. */
async function deleteTarget({ sources: [source], provider }: Group, target: Deletion['target']) {
  const request = { ...scopeOf(source), ...target, outcomeUnknown: false };
  for (let asks = 1; ; asks += 1) {
    const { answer, failure } = await ask(provider, () => cloudOf(provider).deleteVm(request));
    const deletion = failure ?? readVmDeletion(answer);
    if ('code' in deletion || deletion.state === 'gone' || asks >= maxAsks) return deletion;
    await sleep(askPauseMs, { summary: 'next question whether it is gone' });
  }
}

/** In which order resources without a VM go: an address cannot before what has it. */
const partOrder: readonly ListedResource['kind'][] = ['nic', 'port', 'disk', 'ip'];

/**
 * By its UID all that carries it. A VM without one, a surplus one, and what is there without a VM, by the id alone: a
 * provider that does not know `only` then deletes nothing, and a VM that is not listed stays.
 */
function toDeletions({ uid, resources, keeper }: Orphan, namespace: string): readonly Deletion[] {
  const leading = leadingOf(resources);
  const name = leading?.name || 'unknown';
  const toOnly = (resource: ListedResource): Deletion => {
    const { kind, id } = resource;
    const only = { kind, id, ...(uid !== undefined && { uid }) };
    return { target: { machine: { uid: 'none', namespace, name }, only }, resources: [resource] };
  };
  if (leading !== undefined && (uid === undefined || keeper !== undefined)) return [toOnly(leading)];
  const hasVm = leading?.kind === 'vm';
  if (!hasVm && patched(withoutVmPatch)) {
    const rank = ({ kind }: ListedResource) => partOrder.indexOf(kind);
    return resources.toSorted((a, b) => rank(a) - rank(b)).map(toOnly);
  }
  const machine = { uid: uid ?? 'none', namespace, name };
  return [{ target: { machine, ...(hasVm && { providerID: leading.id }) }, resources }];
}

/** The VM, or what is there without one. */
function leadingOf(resources: readonly ListedResource[]): ListedResource | undefined {
  return resources.find(({ kind }) => kind === 'vm') ?? resources[0];
}

function nameOf({ resources }: Orphan): string {
  const leading = leadingOf(resources);
  const others = resources.length > 1 ? ` and ${resources.length - 1} more of its UID` : '';
  return `${leading?.kind} ${leading?.id} (${leading?.name || 'without a name'}, made ${leading?.createdAt})${others}`;
}

function whyOf({ resources }: Orphan, verb: 'has' | 'had'): string {
  const machine = leadingOf(resources)?.excessOf;
  return machine === undefined ? `${verb} no Machine` : `carries the UID of Machine ${machine}, which names another VM`;
}
