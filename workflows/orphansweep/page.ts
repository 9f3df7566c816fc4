/**
 * A page of `listVms`, checked: a provider's worker may be in any language, and a schema is too large for a workflow.
 */
import type { ListedResource } from '../../api/model/sweep.ts';
import type { CloudResource } from '../../api/provider.ts';
import { unusable } from '../calls/answers.ts';
import type { Failure } from '../calls/failure.ts';

const kinds: readonly unknown[] = ['vm', 'disk', 'nic', 'port', 'ip'] satisfies CloudResource['kind'][];

/** A page of `listVms`, without what a sweep has no use for. */
export interface ListedPage {
  readonly items: readonly ListedResource[];
  readonly nextPage?: string;
}

/**
 * The page of an answer to `listVms`; a field that is null counts as left out. One item that is not understood makes
 * the whole answer a failure of the provider: nothing is judged by half of a list.
 * @param page what was asked for
 */
export function readPage(answer: unknown, page: string | undefined): ListedPage | Failure {
  const { items, nextPage }: { items?: unknown; nextPage?: unknown } = Object(answer);
  if (!Array.isArray(items)) return unusable('listVms', 'items', items, 'a list');
  const isLast = nextPage === undefined || nextPage === null || nextPage === '';
  if (!isLast && typeof nextPage !== 'string') return unusable('listVms', 'nextPage', nextPage, 'a text');
  if (!isLast && nextPage === page)
    return unusable('listVms', 'nextPage', nextPage, 'another page than the one asked for');
  for (const [i, item] of items.entries()) {
    const problem = problemOf(item);
    if (problem !== undefined)
      return unusable('listVms', `items.${i}.${problem.field}`, problem.value, problem.accepted);
  }
  return { items: items.map(toListed), ...(!isLast && { nextPage }) };
}

function problemOf(item: unknown): { field: string; value: unknown; accepted: string } | undefined {
  const { kind, id, uid, name, createdAt, alive, attachedTo }: Partial<Record<string, unknown>> = Object(item);
  if (!kinds.includes(kind)) return { field: 'kind', value: kind, accepted: kinds.join(', ') };
  if (typeof id !== 'string' || id === '') return { field: 'id', value: id, accepted: 'a text' };
  const isUid = uid === undefined || uid === null || typeof uid === 'string';
  if (!isUid) return { field: 'uid', value: uid, accepted: 'a text' };
  if (typeof name !== 'string') return { field: 'name', value: name, accepted: 'a text' };
  const isAlive = alive === undefined || alive === null || typeof alive === 'boolean';
  if (!isAlive) return { field: 'alive', value: alive, accepted: 'true or false' };
  const isAttached = attachedTo === undefined || attachedTo === null || typeof attachedTo === 'string';
  if (!isAttached) return { field: 'attachedTo', value: attachedTo, accepted: 'a text' };
  if (typeof createdAt === 'string' && !Number.isNaN(Date.parse(createdAt))) return undefined;
  return { field: 'createdAt', value: createdAt, accepted: 'a time such as 2026-01-02T03:04:05Z' };
}

function toListed({ kind, id, uid, name, createdAt, alive, attachedTo }: CloudResource): ListedResource {
  return { kind, id, ...(uid && { uid }), name, createdAt, ...(alive && { alive }), ...(attachedTo && { attachedTo }) };
}
