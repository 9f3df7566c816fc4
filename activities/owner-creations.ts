/**
 * Which machines are being created in a set: an annotation on it says so before the first of them is there. Whoever takes
 * over from a step that was lost, with its workflow or with all of Temporal, and may still be under way, makes the same
 * machines and none beside them; and the step ends when it sees that another has begun.
 */
import { type Creation, creationText, creationTextOf } from '../api/gardener/creations.ts';
import type { MachineSet } from '../api/gardener/machine-set.ts';
import { names } from '../api/names.ts';
import { machineSets } from '../kube/gardener.ts';
import { update } from '../kube/update.ts';
import { isAsPlanned, type Step } from './owner-step.ts';

/** Says what is created from now on, unless another creation has begun since the plan was made. Safe to repeat. */
export async function beginCreation(step: Step, creation: Creation): Promise<void> {
  const before = creation.after ?? '';
  await annotate(step, creation, creationText(creation), (set) => {
    return creationTextOf(set) === before && isAsPlanned(step, set);
  });
}

/** Whether a set still says that this creation is under way. */
export function isUnderWay(creation: Creation, set: MachineSet): boolean {
  return creationTextOf(set) === creationText(creation);
}

/** Nothing of it is under way any more. */
export async function endCreation(step: Step, creation: Creation): Promise<void> {
  await annotate(step, creation, null, (set) => isUnderWay(creation, set));
}

async function annotate(
  { deps, ref }: Step,
  { set: name, uid }: Creation,
  text: string | null,
  isWanted: (set: MachineSet) => boolean,
): Promise<void> {
  const patch = { metadata: { annotations: { [names.creating]: text } } };
  const key = { namespace: ref.namespace, name, uid };
  await update(deps.control, machineSets, key, (set) => (isWanted(set) ? patch : undefined));
}
