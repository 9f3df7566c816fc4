/** The deletions of a sweep, each right after a last look for its Machine. */
import { patched, sleep } from '@temporalio/workflow';
import type { ListedResource, SweepNotice } from '../../api/model/sweep.ts';
import type { DeleteVmRequest } from '../../api/provider.ts';
import { readVmDeletion } from '../calls/answers.ts';
import { concurrency, inParallel } from '../calls/parallel.ts';
import { doubtOrphans } from './doubts.ts';
import { ask, cloudOf, type Group, type Removal, scopeOf } from './groups.ts';
import { withoutMachine } from './ownership.ts';
import { judge, type Orphan, surplusKeyOf } from './plan.ts';
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
    const doomed = await stillOrphans(sweep, batch, minimumAgeMs);
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

/** Keys of those that have no Machine even now. */
async function stillOrphans(sweep: Sweep, batch: readonly Orphan[], minimumAgeMs: number): Promise<Set<string>> {
  const resources = batch.flatMap((orphan) => orphan.resources);
  const answer = await withoutMachine(sweep, resources);
  const keepers = new Map(batch.map(({ key, keeper }) => [key, keeper]));
  const surplus = answer.surplus.filter(({ resource, keeper }) => keepers.get(surplusKeyOf(resource)) === keeper);
  const alive = new Set(surplus.map(({ keeper }) => keeper)); // as the last list of the cloud says
  const look = { ...answer, surplus, alive, atMs: Date.now(), seen: resources.length, vms: 0, present: [] };
  const complete = new Map(batch.map(({ key, resources: { length } }) => [key, length]));
  const { orphans } = judge(look, minimumAgeMs);
  return new Set(orphans.filter(({ key, resources: left }) => left.length === complete.get(key)).map(({ key }) => key));
}

/** Between two questions whether the cloud is done, and how many are asked. */
const askPauseMs = 5_000;
const maxAsks = 12;

async function removeOne(sweep: Sweep, group: Group, orphan: Orphan, removal: Removal): Promise<SweepNotice[]> {
  const [source] = group.sources;
  const request = { ...scopeOf(source), ...toDeletion(orphan, sweep.input.namespace), outcomeUnknown: false };
  const { object } = source;
  for (let asks = 1; ; asks += 1) {
    const { answer, failure } = await ask(group.provider, () => cloudOf(group.provider).deleteVm(request));
    const deletion = failure ?? readVmDeletion(answer);
    if ('code' in deletion) {
      removal.failed.push({ orphan, failure: deletion });
      show(sweep, { failed: sweep.progress.failed + 1 });
      const note = `could not delete ${nameOf(orphan)}, which ${whyOf(orphan, 'has')}: ${deletion.message}`;
      return [{ object, reason: 'OrphanNotDeleted', note }];
    }
    if (deletion.state === 'deleting' && asks < maxAsks) {
      await sleep(askPauseMs, { summary: 'next question whether it is gone' });
      continue;
    }
    (deletion.state === 'gone' ? removal.deleted : removal.deleting).push(orphan);
    show(sweep, { deleted: sweep.progress.deleted + 1 });
    const isGone = deletion.state === 'gone' || !patched('orphans-that-are-not-gone');
    const note = `${isGone ? 'deleted' : 'the cloud is still deleting'} ${nameOf(orphan)}, which ${whyOf(orphan, 'had')}`;
    return [{ object, reason: 'OrphanDeleted', note }];
  }
}

/**
 * By its UID all that carries it. A VM without one, and a surplus one, by its id alone: a provider that does not know
 * `only` then deletes nothing.
 */
function toDeletion(
  { uid, resources, keeper }: Orphan,
  namespace: string,
): Pick<DeleteVmRequest, 'machine' | 'providerID' | 'only'> {
  const leading = leadingOf(resources);
  const name = leading?.name || 'unknown';
  if (leading !== undefined && (uid === undefined || keeper !== undefined)) {
    const only = { kind: leading.kind, id: leading.id, ...(uid !== undefined && { uid }) };
    return { machine: { uid: 'none', namespace, name }, only };
  }
  return {
    machine: { uid: uid ?? 'none', namespace, name },
    ...(leading?.kind === 'vm' && { providerID: leading.id }),
  };
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
