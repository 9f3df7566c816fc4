/** Cordons a node, and writes on it if its machine is being deleted. */
import type { Marks } from '../../../api/dialect.ts';
import { dialectOf } from '../../../api/dialects.ts';
import type { MaintenancePurpose } from '../../../api/model/machine.ts';
import type { ObjectRef } from '../../../api/model/ref.ts';
import type { NodeClaim } from '../../../api/node.ts';
import { toKubernetesTime } from '../../../api/time.ts';
import { type Node, nodes } from '../../../kube/core.ts';
import { isConflict, isInvalid, isNotFound } from '../../../kube/errors.ts';
import { mergePatch, strategicMergePatch } from '../../../kube/patch.ts';
import { createOwnNodes, type OwnNodeDeps } from '../../own-node.ts';
import { ProviderError } from '../../providers/provider.ts';

/** Which Node to cordon, and why. Without the rest of the claim its age decides nothing. */
export interface Cordon extends NodeClaim {
  readonly ref: ObjectRef;
  readonly nodeName: string;
  /** Of the Node, where that was marked as the machine's: then it is not read. */
  readonly nodeUid?: string;
  /** Whether the machine was unhealthy when its deletion began; undefined when nobody knows any more. */
  readonly wasUnhealthy?: boolean;
  /**
   * Only a node that goes gets the condition Terminating. That of a preserved machine was cordoned by its preservation.
   */
  readonly purpose: 'deletion' | MaintenancePurpose;
}

/**
 * Cordons the node and writes on it why, if its machine is being deleted. Answers the node; undefined when the machine
 * has none.
 */
export async function cordon(
  { target, ...deps }: OwnNodeDeps,
  request: Cordon,
  signal: AbortSignal,
): Promise<Node | undefined> {
  const { ref, nodeName: name, nodeUid, wasUnhealthy, purpose } = request;
  const cordonNode = ({ uid }: { readonly uid: string }) =>
    target.patch(nodes, { name }, mergePatch({ metadata: { uid }, spec: { unschedulable: true } }), { signal });
  try {
    let node = nodeUid === undefined ? undefined : await undefinedIfOther(() => cordonNode({ uid: nodeUid }));
    if (node === undefined) {
      const found = await findNode({ target, ...deps }, request, signal);
      if (found === undefined) return undefined;
      node = found.spec?.unschedulable ? found : await cordonNode(found.metadata);
    }
    if (purpose !== 'deletion') return node;
    const condition = terminatingCondition(node, wasUnhealthy, dialectOf(ref.dialect).marks);
    if (condition === undefined) return node;
    const { uid } = node.metadata;
    const patch = strategicMergePatch({ metadata: { uid }, status: { conditions: [condition] } });
    await target.patch(nodes, { name }, patch, { signal, subresource: 'status' });
    return node;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/**
 * The node; undefined when the machine has none.
 * @throws {ProviderError} FailedPrecondition: it is to be left alone
 */
export async function findNode(deps: OwnNodeDeps, request: Cordon, signal: AbortSignal): Promise<Node | undefined> {
  const { ref, nodeName } = request;
  const { node, objection } = await createOwnNodes(deps).find({ ...request, ...ref }, nodeName, { signal });
  if (objection !== undefined) throw new ProviderError('FailedPrecondition', objection);
  return node;
}

/** undefined where the object has another UID than the patch. */
async function undefinedIfOther<T>(patch: () => Promise<T>): Promise<T | undefined> {
  try {
    return await patch();
  } catch (error) {
    if (isConflict(error) || isInvalid(error)) return undefined;
    throw error;
  }
}

/** The condition that says why; undefined when the Node has it. A reason that nobody knows is kept. */
function terminatingCondition(
  { status }: Node,
  wasUnhealthy: boolean | undefined,
  { terminating: { type, unhealthy, otherwise } }: Marks,
): object | undefined {
  const reason = wasUnhealthy ? unhealthy : otherwise;
  const present = status?.conditions?.find((condition) => condition.type === type);
  const isTrue = present?.status === 'True';
  if (isTrue && (wasUnhealthy === undefined || present.reason === reason)) return undefined;
  const time = toKubernetesTime(new Date());
  return {
    ...{ type, status: 'True', reason, message: 'The machine of this node is being deleted.' },
    lastHeartbeatTime: time,
    ...(!isTrue && { lastTransitionTime: time }),
  };
}
