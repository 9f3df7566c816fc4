/** What the API server has said of each Machine and each Node, and when. */
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { toStatuses } from '../../api/node.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Node, nodes } from '../../kube/core.ts';
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

/** From when on a Node is Ready, or is not or gone. */
export interface NodeObservation {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  readonly name: string;
  readonly isReady: boolean;
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Watches the Machines of a namespace and all Nodes until `stop`. Observations are in the order of their times. */
export function observe(client: KubeClient, namespace: string) {
  const observations: Observation[] = [];
  const note = ({ metadata, spec }: Machine, isGone: boolean) => {
    const state = isGone ? 'gone' : metadata.deletionTimestamp === undefined ? 'present' : 'being deleted';
    const { uid, name } = metadata;
    observations.push({ atMs: Date.now(), uid, name, providerID: spec?.providerID, state });
  };
  const nodeObservations: NodeObservation[] = [];
  const noteNode = ({ metadata: { name }, status }: Node, isGone: boolean) => {
    const isReady = !isGone && toStatuses(status?.conditions)['Ready'] === 'True';
    const last = nodeObservations.findLast((each) => each.name === name);
    if (last?.isReady !== isReady) nodeObservations.push({ atMs: Date.now(), name, isReady });
  };
  const ofNodes = startReflector({
    ...{ client, resource: nodes, logger: silent },
    onEvent: (event) => {
      if (event.kind !== 'synced') noteNode(event.object, event.kind === 'deleted');
    },
  });
  const ofMachines = startReflector({
    ...{ client, namespace, resource: machines, logger: silent },
    onEvent: (event) => {
      if (event.kind !== 'synced') note(event.object, event.kind === 'deleted');
    },
  });
  const stop = () => Promise.all([ofMachines.stop(), ofNodes.stop()]);
  return { observations, nodeObservations, stop };
}
