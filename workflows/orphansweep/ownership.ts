/** Whose the listed resources are, as the API server says now. */
import type { ListedResource } from '../../api/model/sweep.ts';
import { addReading } from './brake.ts';
import type { Look } from './plan.ts';
import { kubernetes, type Sweep, untilAnswered } from './progress.ts';

/** Of these resources those without a Machine, and surplus VMs. Waits for the API server for as long as it takes. */
export async function withoutMachine(
  sweep: Sweep,
  resources: readonly ListedResource[],
): Promise<Pick<Look, 'ownerless' | 'adopted' | 'surplus'>> {
  const keys = resources.map(({ kind, id, uid, name, attachedTo }) => ({
    ...{ kind, id, ...(uid !== undefined && { uid }), name },
    ...(attachedTo !== undefined && { attachedTo }),
  }));
  const at = new Date().toISOString();
  const { ownerless, adopted, surplus, machines } = await untilAnswered(sweep, () =>
    kubernetes.findOwnerless(sweep.input, keys),
  );
  sweep.census = addReading(sweep.census, machines, at);
  return {
    ownerless: ownerless.flatMap((place) => resources[place] ?? []),
    adopted,
    surplus: surplus.flatMap(({ place, machine, keeper }) => {
      const resource = resources[place];
      return resource === undefined ? [] : [{ resource: { ...resource, excessOf: machine }, keeper }];
    }),
  };
}
