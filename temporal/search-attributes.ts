/** The search attributes of our workflows. A namespace must have them before a workflow sets one. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, ConnectionLike } from '@temporalio/client';
import { searchAttributes } from '../api/names.ts';
import { grpcCodeOf, grpcCodes, reasonOf } from './connection.ts';

const names = Object.values(searchAttributes);
/** Number of the type Keyword in Temporal's API. */
const keyword = 2;
/** How long a server may take until an added attribute can be used, ms. */
const timeoutMs = 15_000;

/**
 * Adds missing search attributes to the namespace, and returns when all can be used. Safe to repeat and to run in
 * several processes at once. Throws an Error that names the attributes and the fix.
 */
export async function ensureSearchAttributes(connection: ConnectionLike, namespace: string): Promise<void> {
  await connection.withDeadline(Date.now() + timeoutMs, async () => {
    await addMissing(connection, namespace);
    while (!(await areUsable(connection, namespace))) await sleep(100);
  });
}

/**
 * Runs a call that sets search attributes. A server whose database was lost refuses it: then they are added, and the
 * call is repeated.
 */
export async function withSearchAttributes<T>({ connection, options }: Client, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (grpcCodeOf(error) !== grpcCodes.invalidArgument) throw error;
    await ensureSearchAttributes(connection, options.namespace);
    return start();
  }
}

/** Those that the namespace lacks or has with another type. Throws ServiceError, also where they may not be listed. */
export async function lackingSearchAttributes(
  { operatorService }: ConnectionLike,
  namespace: string,
): Promise<string[]> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  return names.filter((name) => customAttributes[name] !== keyword);
}

async function addMissing({ operatorService }: ConnectionLike, namespace: string): Promise<void> {
  try {
    const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
    const wrong = names.filter((name) => (customAttributes[name] ?? keyword) !== keyword);
    if (wrong.length > 0) {
      throw new Error(
        `${wrong.join(', ')} in the Temporal namespace '${namespace}' must be of type Keyword: remove the attributes of another type`,
      );
    }
    const missing = names.filter((name) => customAttributes[name] === undefined);
    if (missing.length === 0) return;
    const wanted = Object.fromEntries(missing.map((name) => [name, keyword]));
    await operatorService.addSearchAttributes({ namespace, searchAttributes: wanted }).catch((cause: unknown) => {
      if (grpcCodeOf(cause) !== grpcCodes.invalidArgument) throw cause;
      throw new Error(
        `the Temporal namespace '${namespace}' does not take the search attributes ${missing.join(', ')} (${reasonOf(cause)}): ` +
          'remove those that nobody uses, or give another namespace with --temporal-namespace',
        { cause },
      );
    });
  } catch (error) {
    // Another process may have been faster. Where they may not be listed, as on Temporal Cloud, they may still be used.
    if (!ignored.has(grpcCodeOf(error))) throw error;
  }
}

const ignored = new Set<number | undefined>([
  grpcCodes.alreadyExists,
  grpcCodes.permissionDenied,
  grpcCodes.unauthenticated,
  grpcCodes.unimplemented,
]);

/** false while the server does not know all of them. */
async function areUsable({ workflowService }: ConnectionLike, namespace: string): Promise<boolean> {
  const query = names.map((name) => `${name} = 'none'`).join(' AND ');
  try {
    await workflowService.countWorkflowExecutions({ namespace, query });
    return true;
  } catch (error) {
    const code = grpcCodeOf(error);
    if (code === grpcCodes.invalidArgument) return false;
    if (code !== grpcCodes.deadlineExceeded) throw error;
    const cause = { cause: error };
    throw new Error(
      `the Temporal namespace '${namespace}' lacks search attributes: add ${names.join(', ')}, all of type Keyword`,
      cause,
    );
  }
}
