/** Marks the Nodes of deployments that roll out: pure functions of the caches. */
import type { RolloutMarks } from '../api/dialect.ts';
import { writableNode } from '../api/node.ts';
import type { KubeObject } from '../api/objects.ts';
import { strategyOf } from '../api/owner/bounds.ts';
import type { OwnerDeployment } from '../api/owner/objects.ts';
import { controllerOf } from '../api/owner/ownership.ts';
import { newSetAmong } from '../api/owner/view.ts';
import { nodes } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { judgeSeen } from './own-nodes.ts';
import { byController, byNode, byUid, indexesOf } from './watches.ts';

type Context = Pick<ControllerContext, 'target' | 'watches' | 'dialect' | 'defaults' | 'keepsAutoscalerAway'>;

/** Keys are names of Nodes. A conflict with another writer of the Node is left to the event of that write. */
export function createRolloutMarkController(context: Context): Controller {
  const { target, watches, dialect, defaults, keepsAutoscalerAway } = context;
  const indexes = indexesOf(dialect, defaults);
  const { toRolloutPatch } = dialect.owner;

  async function handle(name: string): Promise<void> {
    const node = watches.nodes.get({ name });
    const { nodes: nodeWatch, machines, sets, deployments } = watches;
    const areSeen = [nodeWatch, machines, sets, deployments].every(({ synced, reachable }) => synced && reachable);
    if (toRolloutPatch === undefined || node === undefined || !areSeen) return;
    const named = indexes.nodes[byNode](node).flatMap((key) => machines.byIndex(byNode, key));
    const machine = named.find((each) => writableNode(judgeSeen(context, each, node)) !== undefined);
    if (machine === undefined || [machine, node].some(({ metadata }) => metadata.deletionTimestamp !== undefined))
      return;
    const rollout = rolloutOf(machine);
    if (rollout === undefined) return;
    // The workflow of the machine is about to write on a Node that joins, and one of the two writes would be lost.
    if (rollout.isRolling && !node.metadata.finalizers?.includes(dialect.marks.nodeFinalizer)) return;
    const { preservedUntil } = dialect.machine.toSnapshot(machine, defaults);
    const patch = toRolloutPatch(node, {
      ...rollout,
      isPreserved: preservedUntil !== undefined,
      isKeptFromAutoscaler: keepsAutoscalerAway,
    });
    if (patch === undefined) return;
    const { resourceVersion } = node.metadata;
    const change = mergePatch({ ...patch, metadata: { ...patch.metadata, resourceVersion } });
    await ignoreGoneOrChanged(() => target.patch(nodes, { name }, change));
  }

  /**
   * Whether the deployment of a machine rolls out, and the machine is an old one. One that has lost its set or its
   * deployment in the middle of a rollout takes part in none. undefined: its set is not in the cache yet.
   */
  function rolloutOf(machine: KubeObject): Pick<RolloutMarks, 'isRolling' | 'isComplete' | 'isOld'> | undefined {
    const [set] = watches.sets.byIndex(byUid, controllerOf(machine) ?? '');
    if (set === undefined && controllerOf(machine) !== undefined) return undefined;
    const [deployment] = watches.deployments.byIndex(byUid, (set && controllerOf(set)) ?? '');
    if (set === undefined || deployment === undefined) return { isRolling: false, isComplete: true, isOld: false };
    const own = watches.sets.byIndex(byController, deployment.metadata.uid);
    const newSet = newSetAmong(dialect, deployment, own);
    const hasOld = own.some(
      (each) => each !== newSet && watches.machines.byIndex(byController, each.metadata.uid).length > 0,
    );
    const isPaused = (deployment as OwnerDeployment).spec?.paused === true;
    const isRolling = hasOld && (newSet !== undefined || !isPaused);
    const { conditions } = (deployment as OwnerDeployment).status ?? {};
    const { reason = '' } = conditions?.find(({ type }) => type === 'Progressing') ?? {};
    const isComplete = !hasOld && dialect.owner.toProgress(reason) === 'complete';
    return {
      isRolling,
      isComplete,
      isOld: isRolling && set !== newSet && strategyOf(dialect, deployment) !== 'Recreate',
    };
  }

  const namesOf = (machine: KubeObject) =>
    indexes.machines[byNode](machine).flatMap((key) =>
      watches.nodes.byIndex(byNode, key).map(({ metadata }) => metadata.name),
    );
  const namesOfSet = (uid: string) => watches.machines.byIndex(byController, uid).flatMap(namesOf);
  const namesOfDeployment = (uid: string) =>
    watches.sets.byIndex(byController, uid).flatMap(({ metadata }) => namesOfSet(metadata.uid));
  const namesBeside = (set: KubeObject) => {
    const uid = controllerOf(set);
    return uid === undefined ? [] : namesOfDeployment(uid);
  };
  const all = () => watches.machines.list().flatMap(namesOf);

  return {
    queue: 'rollout-marks',
    hears: {
      nodes: ({ object }) => [object.metadata.name],
      // The last machine of an old set ends the rollout.
      machines({ kind, object }) {
        if (kind !== 'deleted') return namesOf(object);
        const [set] = watches.sets.byIndex(byUid, controllerOf(object) ?? '');
        return set === undefined ? [] : namesBeside(set);
      },
      sets: ({ object }) => [...namesBeside(object), ...namesOfSet(object.metadata.uid)],
      deployments: ({ object }) => namesOfDeployment(object.metadata.uid),
    },
    hearsLists: { nodes: all },
    delayMs: 300,
    keys: all,
    handle,
    resync: handle,
  };
}
