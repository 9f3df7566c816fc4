/** What the fleet page shows of each machine. Pure. */
import type { ObjectRef } from '../../api/model/ref.ts';
import type { Blocker } from '../../api/names.ts';
import type { KubeObject } from '../../api/objects.ts';
import { deploymentOf } from '../../api/owner/ownership.ts';
import { type WorkflowKind, workflowId } from '../../api/workflow-id.ts';
import type { Watches } from '../../controllers/watches.ts';
import { byNode, byUid, nodeKeyOf } from '../../controllers/watches.ts';
import type { Node } from '../../kube/core.ts';
import type { BlockedWorkflow } from '../../temporal/blocked.ts';
import { type Listed, listedMachine } from '../commands/get/rows.ts';
import { dialect, dialectName, noLimits } from '../dialect.ts';

/** A machine. What is not so, or not known, is left out. */
export interface Cell extends Pick<Listed, 'name' | 'deployment' | 'waitsFor' | 'since'> {
  readonly phase: string;
  /** Of its Node, or the one that its Node shall be in. */
  readonly zone?: string;
  readonly blockedOn?: Blocker;
}

export type Stores = Pick<Watches, 'machines' | 'sets' | 'deployments' | 'sources' | 'secrets' | 'nodes'>;

/** By the ids of their workflows. */
export type Blocked = ReadonlyMap<string, BlockedWorkflow>;

const zoneLabel = 'topology.kubernetes.io/zone';

/** Makes the cells of a namespace. A machine that has not changed keeps its cell, the same object. */
export function createCells(
  { machines, sets, nodes }: Pick<Stores, 'machines' | 'sets' | 'nodes'>,
  installation: string,
) {
  const known = new WeakMap<KubeObject, { readonly node: Node | undefined; readonly cell: Cell }>();

  function cellOf(machine: KubeObject, blocked: Blocked): Cell {
    const key = nodeKeyOf(dialect, dialect.machine.toSnapshot(machine, noLimits));
    const [node] = key === undefined ? [] : nodes.byIndex(byNode, key);
    const blockedOn = blockedOf(machine, 'Machine', installation, blocked);
    const deployment = deploymentOf(dialect, machine, (uid) => sets.byIndex(byUid, uid)[0]);
    const before = known.get(machine);
    const isSame = before?.node === node && before?.cell.blockedOn === blockedOn;
    if (before !== undefined && isSame && before.cell.deployment === deployment) return before.cell;
    const cell = toCell(listedMachine(machine, deployment), machine, node, blockedOn);
    known.set(machine, { node, cell });
    return cell;
  }

  return (blocked: Blocked): ReadonlyMap<string, Cell> =>
    new Map(machines.list().map((machine) => [machine.metadata.name, cellOf(machine, blocked)]));
}

function toCell(
  { name, deployment, phase, waitsFor, since }: ReturnType<typeof listedMachine>,
  machine: KubeObject,
  node: Node | undefined,
  blockedOn: Blocker | undefined,
): Cell {
  const wanted = dialect.machine.toNodePatch(machine, { metadata: {} })?.metadata?.labels;
  const zone = node?.metadata.labels?.[zoneLabel] ?? wanted?.[zoneLabel];
  return {
    ...{ name, phase },
    ...(since !== undefined && { since }),
    ...(deployment !== undefined && { deployment }),
    ...(zone && { zone }),
    ...(waitsFor !== undefined && { waitsFor }),
    ...(blockedOn !== undefined && { blockedOn }),
  };
}

/** What the workflow of an object is blocked on. */
export function blockedOf(
  { metadata }: KubeObject,
  kind: WorkflowKind,
  installation: string,
  blocked: Blocked,
): Blocker | undefined {
  const { namespace = '', name, uid } = metadata;
  const ref: ObjectRef = { dialect: dialectName, namespace, name, uid };
  return blocked.get(workflowId(installation, kind, ref))?.blockedOn;
}

/** What to send to somebody who has seen `before`. */
export function changesOf(before: ReadonlyMap<string, Cell>, now: ReadonlyMap<string, Cell>) {
  return {
    changed: [...now.values()].filter((cell) => before.get(cell.name) !== cell),
    gone: [...before.keys()].filter((name) => !now.has(name)),
  };
}
