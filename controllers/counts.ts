/** Writes the counts of machines to the status of their sets and deployments: pure functions of the caches. */

import { dialectOf } from '../api/dialects.ts';
import { machineDeployments, machineSets } from '../api/gardener/resources.ts';
import type { KubeObject, Resource } from '../api/objects.ts';
import { toDeploymentCounts, toSetCounts } from '../api/owner/counts.ts';
import type { KubeClient } from '../kube/client.ts';
import { isConflict, isNotFound } from '../kube/errors.ts';
import { mergePatch } from '../kube/patch.ts';
import { byController, byUid, type Watches } from './watches.ts';

const dialect = dialectOf('gardener');

/**
 * Answers a function that brings the status of the set or deployment with a UID up to date. It writes nothing when
 * nothing has changed. A conflict with the other writer of the status is for the next event.
 */
export function createCountsWriter(control: KubeClient, watches: Watches): (uid: string) => Promise<void> {
  return async (uid) => {
    const { deployments, sets, machines } = watches;
    const [set] = sets.byIndex(byUid, uid);
    if (set !== undefined) {
      await write(control, machineSets, set, toSetCounts(dialect, set, machines.byIndex(byController, uid)));
    }
    const [deployment] = deployments.byIndex(byUid, uid);
    if (deployment === undefined) return;
    const own = sets.byIndex(byController, uid);
    const theirs = own.flatMap((each) => machines.byIndex(byController, each.metadata.uid));
    await write(
      control,
      machineDeployments,
      deployment,
      toDeploymentCounts(dialect, deployment, own, theirs, new Date()),
    );
  };
}

async function write<T extends KubeObject>(
  control: KubeClient,
  resource: Resource<T>,
  { metadata }: KubeObject,
  status: object | undefined,
): Promise<void> {
  if (status === undefined) return;
  const { namespace, name, resourceVersion } = metadata;
  const patch = mergePatch({ metadata: { resourceVersion }, status });
  try {
    await control.patch(resource, { namespace, name }, patch, { subresource: 'status' });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}
