/** What the workflow that grants the limits of a namespace reads in Kubernetes. */
import { dialectOf } from '../api/dialects.ts';
import type { LimitReading, LimitScope } from '../api/model/limits.ts';
import type { KubeObject, Resource } from '../api/objects.ts';
import { toLimitReading } from '../api/owner/limit-reading.ts';
import type { KubeClient } from '../kube/client.ts';

export type LimitActivities = ReturnType<typeof createLimitActivities>;

/** @param deps cluster of the Machines and their owners */
export function createLimitActivities({ control }: { readonly control: KubeClient }) {
  return {
    /**
     * Reads by quorum how far the limits of a namespace are used. Sets come first: a machine that is created meanwhile
     * is in the list of machines, or its set recorded it before.
     * @param claiming UIDs of owners that are part of the reading whatever they use
     */
    async readLimits({ dialect, namespace }: LimitScope, claiming: readonly string[]): Promise<LimitReading> {
      const api = dialectOf(dialect);
      const list = async <T extends KubeObject>(resource: Resource<T>) =>
        (await control.list(resource, { namespace })).items;
      const sets = await list(api.kinds.set);
      const [deployments, machines] = await Promise.all([list(api.kinds.deployment), list(api.kinds.machine)]);
      return toLimitReading(api, { deployments, sets, machines }, claiming);
    },
  };
}
