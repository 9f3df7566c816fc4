/** Which orphans may be healthy VMs: their Machines may have been lost, and not deleted. */
import { patched } from '@temporalio/workflow';
import type { AskedOrphan, ListedResource } from '../../api/model/sweep.ts';
import { inPortions } from '../../api/payloads.ts';
import { type Orphan, type SweepPlan, withoutVmPatch } from './plan.ts';
import { kubernetes, type Sweep, untilAnswered } from './progress.ts';

/** Most orphans that are asked about in one call. */
const maxAsked = 500;

/** The same plan, with what speaks for each VM. */
export async function withDoubts(sweep: Sweep, { kind, groups }: SweepPlan): Promise<SweepPlan> {
  const doubted = await doubtOrphans(
    sweep,
    groups.flatMap(({ remove }) => remove),
  );
  const plans = groups.map(({ remove, ...group }) => ({
    ...group,
    remove: remove.map((each) => doubted.get(each.key) ?? each),
  }));
  return { kind, groups: plans };
}

/** Those of these orphans that something speaks for, by their keys. */
export async function doubtOrphans(sweep: Sweep, orphans: readonly Orphan[]): Promise<ReadonlyMap<string, Orphan>> {
  const doubted = new Map(attachedWithoutVm(orphans).map((orphan) => [orphan.key, orphan]));
  const vms = orphans.filter(({ resources }) => resources.some(isVm));
  if (vms.length === 0 || !patched('doubts-about-an-orphan')) return doubted;
  for (const asked of inPortions(vms, maxAsked, toAsked)) {
    const answers = await untilAnswered(sweep, () => kubernetes.findDoubts(sweep.input, asked.map(toAsked)));
    for (const [place, orphan] of asked.entries()) {
      const doubts = answers[place] ?? [];
      if (doubts.length > 0) doubted.set(orphan.key, { ...orphan, resources: orphan.resources.map(doubtedBy(doubts)) });
    }
  }
  return doubted;
}

/**
 * Orphans without a VM of which one has something: the cloud did not list it, or a person has taken its tags away so that
 * it stays.
 */
function attachedWithoutVm(orphans: readonly Orphan[]): Orphan[] {
  const attached = orphans.filter(
    ({ resources }) => !resources.some(isVm) && resources.some(({ attachedTo }) => attachedTo !== undefined),
  );
  if (attached.length === 0 || !patched(withoutVmPatch)) return [];
  return attached.map((orphan) => ({
    ...orphan,
    resources: orphan.resources.map(({ attachedTo, ...resource }) =>
      attachedTo === undefined ? resource : { ...resource, attachedTo, doubts: [`the VM ${attachedTo} has it`] },
    ),
  }));
}

function isVm({ kind }: ListedResource): boolean {
  return kind === 'vm';
}

function doubtedBy(doubts: readonly string[]) {
  return (resource: ListedResource) => (isVm(resource) ? { ...resource, doubts } : resource);
}

function toAsked({ uid, resources, keeper }: Orphan): AskedOrphan {
  const vms = resources.filter(isVm);
  const ageMs = Math.min(...vms.map(({ createdAt }) => Date.now() - Date.parse(createdAt)));
  return {
    ...(uid !== undefined && { uid }),
    ...{ ageMs, vms: vms.map(({ id, name }) => ({ id, name })) },
    ...(keeper !== undefined && { isSurplus: true }),
  };
}
