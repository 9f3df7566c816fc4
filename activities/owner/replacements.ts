/** Begins to replace unhealthy machines, unless too many Nodes went bad together. */
import { isHealthy } from '../../api/attention.ts';
import { dialectOf } from '../../api/dialects.ts';
import type { Asking } from '../../api/model/owner.ts';
import { names } from '../../api/names.ts';
import { toStatuses } from '../../api/node.ts';
import type { KubeObject } from '../../api/objects.ts';
import { update } from '../../kube/update.ts';
import { temporalNowMs } from '../boundary.ts';
import { createOwnNodes } from '../own-node.ts';
import { noteKept } from './not-kept.ts';
import { recordOnOwner } from './report.ts';
import { inBatches, type Owner, type Step } from './step.ts';

/**
 * Writes on each machine that the plan names that it is replaced, unless it or its Node is well by now. Answers which
 * outage keeps one of them, if any does. Throws while the cluster of the Nodes does not answer.
 */
export async function beginReplacements(step: Step, owner: Owner): Promise<string | undefined> {
  let outage: string | undefined;
  await inBatches(step, step.plan.replace ?? [], async (asking) => {
    outage = (await beginReplacement(step, asking, owner)) ?? outage;
  });
  if (outage !== undefined) {
    const note =
      'Too many Nodes are unhealthy or missing together: no unhealthy machine is replaced until that is over. ' +
      'If VMs are gone for good, delete their Machines';
    recordOnOwner(step, owner, 'ReplacementHeld', note);
  }
  return outage;
}

async function beginReplacement(step: Step, { name, uid, askedAt }: Asking, owner: Owner): Promise<string | undefined> {
  const { deps, api, ref } = step;
  const { control, findOutage, defaults } = deps;
  const { requestOf } = api.owner.machines;
  const key = { namespace: ref.namespace, name, uid };
  const isAsking = (live: KubeObject) => live.metadata.uid === uid && requestOf(live)?.askedAt === askedAt;

  const machine = await control.find(api.kinds.machine, key);
  if (machine === undefined || !isAsking(machine)) return undefined;
  const snapshot = dialectOf(ref.dialect).machine.toSnapshot(machine, defaults);
  const { nodeName, limits } = snapshot;
  const { node } =
    nodeName === undefined
      ? { node: undefined }
      : await createOwnNodes(deps).find({ ...ref, ...snapshot, name }, nodeName, {});
  const conditions = toStatuses(node?.status?.conditions);
  if (isHealthy({ conditions }, limits.nodeConditions)) return undefined; // its workflow is about to see that
  const outage = await findOutage(ref, snapshot, node, temporalNowMs());
  if (outage !== undefined) return outage;

  const decide = (live: KubeObject) =>
    isAsking(live) && live.metadata.annotations?.[names.replace] !== askedAt
      ? { metadata: { annotations: { [names.replace]: askedAt } } }
      : undefined;
  const decided = await update(control, api.kinds.machine, key, decide);
  if (decided === undefined) return undefined;
  const left = decide(decided);
  noteKept(step, `machine ${name}`, left);
  if (left !== undefined) return undefined;
  const since = requestOf(machine)?.unhealthySince;
  recordOnOwner(step, owner, 'ReplacingMachine', `Replacing machine ${name}: its Node is unhealthy since ${since}`);
  return undefined;
}
