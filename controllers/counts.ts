/** Writes the counts of machines to the status of their sets and deployments: pure functions of the caches. */

import type { KubeObject, Resource } from '../api/objects.ts';
import { toDeploymentCounts, toSetCounts } from '../api/owner/counts.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { hearOwners, msUntilNextAvailable, ownerKeys } from './owners.ts';
import { byController, byUid } from './watches.ts';

/** Keys are UIDs of sets and deployments. Where a count is right already nothing is written. */
export function createCountsController(
  context: Pick<ControllerContext, 'control' | 'watches' | 'dialect'>,
): Controller {
  const { control, watches, dialect } = context;
  const { kinds } = dialect;

  /** Conflicts with the other writer of the status are left to its event, or to the next resync. */
  async function write(resource: Resource<KubeObject>, { metadata }: KubeObject, status: object | undefined) {
    if (status === undefined) return;
    const { namespace, name, resourceVersion } = metadata;
    const patch = mergePatch({ metadata: { resourceVersion }, status });
    await ignoreGoneOrChanged(() => control.patch(resource, { namespace, name }, patch, { subresource: 'status' }));
  }

  async function handle(uid: string): Promise<void> {
    const { deployments, sets, machines } = watches;
    const api = { ...dialect, nowMs: Date.now() };
    const [set] = sets.byIndex(byUid, uid);
    if (set !== undefined) await write(kinds.set, set, toSetCounts(api, set, machines.byIndex(byController, uid)));
    const [deployment] = deployments.byIndex(byUid, uid);
    if (deployment === undefined) return;
    const own = sets.byIndex(byController, uid);
    const theirs = own.flatMap((each) => machines.byIndex(byController, each.metadata.uid));
    await write(kinds.deployment, deployment, toDeploymentCounts(api, deployment, own, theirs));
  }

  return {
    queue: 'counts',
    hears: hearOwners(watches),
    delayMs: 250,
    restMs: 1_000,
    keys: () => ownerKeys(watches),
    handle,
    resync: handle,
    againInMs: (uid) => msUntilNextAvailable(context, uid),
  };
}
