import { randomUUID } from 'node:crypto';
import { type Params, Refusal } from './wire.ts';

/** A list as far as one answer shows it. */
interface Page<T> {
  readonly items: readonly T[];
  readonly nextToken: string | undefined;
}

/**
 * Makes the function that cuts a list into pages as EC2 does. A token stands for what was left to show when it was
 * made.
 * @param ids name of the parameter that asks for items by id, which EC2 does not take together with MaxResults
 * @param pageSize the most that a page has, whatever MaxResults allows
 */
export function createPages<T>(ids: string, pageSize: number) {
  const rests = new Map<string, readonly T[]>();

  /** The page that a request asks for. `read` reads the whole list. */
  return async function pageOf(params: Params, read: () => Promise<readonly T[]>): Promise<Page<T>> {
    const { MaxResults: limit, NextToken: token } = params;
    if (limit === undefined && token === undefined) return { items: await read(), nextToken: undefined };
    if (params[`${ids}.1`] !== undefined) {
      const message = `The parameter ${ids} cannot be used with the parameter maxResults`;
      throw new Refusal(400, 'InvalidParameterCombination', message);
    }
    const count = Number(limit ?? 1000);
    if (!(count >= 5 && count <= 1000)) {
      const message = `Value ( ${limit} ) for parameter maxResults is invalid. Expecting a value from 5 to 1000.`;
      throw new Refusal(400, 'InvalidParameterValue', message);
    }
    const left = token === undefined ? await read() : rests.get(token);
    if (left === undefined) throw new Refusal(400, 'InvalidNextToken', 'The specified NextToken is not valid.');
    const size = Math.min(count, pageSize);
    if (left.length <= size) return { items: left, nextToken: undefined };
    const nextToken = randomUUID();
    rests.set(nextToken, left.slice(size));
    return { items: left.slice(0, size), nextToken };
  };
}
