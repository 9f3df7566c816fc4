/** What is stuck besides machines, for the fleet page: owners, classes, sweeps and other workflows. Pure. */
import type { Blocker } from '../../api/names.ts';
import type { KubeObject } from '../../api/objects.ts';
import { conditionsOfSet } from '../../api/owner/failure.ts';
import type { OwnerDeployment } from '../../api/owner/objects.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { reportedProblem } from '../../api/owner/problem.ts';
import { verdictOf } from '../../api/verdict.ts';
import type { WorkflowKind } from '../../api/workflow-id.ts';
import { isOfObject } from '../../temporal/workflows.ts';
import { type Example, nounOf } from '../commands/stuck/causes.ts';
import { dialect } from '../dialect.ts';
import { type Blocked, blockedOf, type Stores } from './cells.ts';

/** An object or a workflow that waits for somebody. */
export interface StuckObject extends Pick<Example, 'problem' | 'unblock'> {
  /** Kind of an object, or what `stuck` calls a workflow. */
  readonly kind: string;
  /** Of an object; the id of a workflow that belongs to none. */
  readonly name: string;
  readonly blockedOn: Blocker;
}

/** Most that are sent. */
export const maxStuck = 50;

/**
 * Owners whose spec is refused or whose workflow is blocked, refused classes, and the workflows that belong to no
 * object, at most `maxStuck`.
 * @param said what the workflows without an object say, by id
 */
export function listStuck(
  stores: Stores,
  installation: string,
  blocked: Blocked,
  said: ReadonlyMap<string, Example>,
): { readonly stuck: readonly StuckObject[]; readonly more: number } {
  const ofOwner = (owner: KubeObject, kind: WorkflowKind, problem: string | undefined): StuckObject[] => {
    const blockedOn = blockedOf(owner, kind, installation, blocked) ?? (problem && 'OwnerSpec');
    return blockedOn ? [{ kind, name: owner.metadata.name, blockedOn, ...(problem && { problem }) }] : [];
  };
  const all = [
    ...[...blocked.values()].flatMap(({ workflowId, type, blockedOn }): StuckObject[] => {
      if (isOfObject(type)) return [];
      const { problem, unblock } = said.get(workflowId) ?? {};
      return [
        {
          ...{ kind: nounOf(type), name: workflowId, blockedOn },
          ...(problem !== undefined && { problem }),
          ...(unblock !== undefined && { unblock }),
        },
      ];
    }),
    ...stores.sources.list().flatMap((source): StuckObject[] => {
      const problem = refusalOf(source, stores);
      const { name } = source.metadata;
      return problem ? [{ kind: dialect.kinds.source?.kind ?? '', name, blockedOn: 'Source', problem }] : [];
    }),
    ...stores.deployments
      .list()
      .flatMap((each: OwnerDeployment) => ofOwner(each, 'MachineDeployment', reportedProblem(each.status?.conditions))),
    ...stores.sets
      .list()
      .filter((set) => controllerOf(set) === undefined)
      .flatMap((set) => ofOwner(set, 'MachineSet', reportedProblem(conditionsOfSet(dialect, set)))),
  ];
  return { stuck: all.slice(0, maxStuck), more: Math.max(0, all.length - maxStuck) };
}

/** Why a source is refused; undefined: it is not, or its present version was not checked yet. */
function refusalOf(source: KubeObject, { secrets }: Stores): string | undefined {
  const { version, problems = [] } = verdictOf(source) ?? {};
  if (problems.length === 0) return undefined;
  const keys = dialect.source.secretsOf(source);
  const isPresent =
    version ===
    dialect.source.versionOf(
      source,
      keys.map((key) => secrets.get(key)),
    );
  return isPresent ? problems.join('; ') : undefined;
}
