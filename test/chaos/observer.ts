/** What the API server has said of each Machine, and when. */
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { KubeClient } from '../../kube/client.ts';
import { startReflector } from '../../kube/reflector.ts';

/** A Machine at a time. */
export interface Observation {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly uid: string;
  readonly name: string;
  readonly providerID: string | undefined;
  readonly state: 'present' | 'being deleted' | 'gone';
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Watches the Machines of a namespace until `stop`. Observations are in the order of their times. */
export function observeMachines(client: KubeClient, namespace: string) {
  const observations: Observation[] = [];
  const note = ({ metadata, spec }: Machine, isGone: boolean) => {
    const state = isGone ? 'gone' : metadata.deletionTimestamp === undefined ? 'present' : 'being deleted';
    const { uid, name } = metadata;
    observations.push({ atMs: Date.now(), uid, name, providerID: spec?.providerID, state });
  };
  const { stop } = startReflector({
    ...{ client, namespace, resource: machines, logger: silent },
    onEvent: (event) => {
      if (event.kind !== 'synced') note(event.object, event.kind === 'deleted');
    },
  });
  return { observations, stop };
}
