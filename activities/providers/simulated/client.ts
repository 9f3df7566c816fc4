import { Agent, request } from 'undici';
import type { z } from 'zod';
import { ProviderError } from '../provider.ts';
import { toConnectionError, toProviderError } from './errors.ts';
import { CloudPage, CloudPart, type CloudResource, CloudVm, type CreateVmBody, type PartKind } from './schema.ts';

/** Where a cloud is and what it accepts. */
export interface CloudAccess {
  readonly endpoint: string;
  readonly token: string;
}

/** Three times what the slowest call of this cloud takes where nothing is wrong. */
const requestTimeoutMs = 15_000;

// One pool for all calls: 64 connections bound what a fleet can have in flight.
const agent = new Agent({ connections: 64 });

/** Creates a VM; the cloud answers with the VM of an earlier call where it knows the token. */
export async function createVm(access: CloudAccess, body: CreateVmBody, signal: AbortSignal): Promise<CloudVm> {
  return read(CloudVm, await call(access, 'POST', '/v1/vms', signal, body));
}

/** Which resources are listed: those with all `tags`; with `vm`, that VM and what was made with it. */
export interface ListFilter {
  readonly tags?: Readonly<Record<string, string>>;
  readonly vm?: string;
}

/** One page of VMs, disks, NICs and addresses, oldest first. */
export async function listPage(
  access: CloudAccess,
  { tags = {}, vm, page }: ListFilter & { page?: string | undefined },
  signal: AbortSignal,
): Promise<CloudPage> {
  const query = new URLSearchParams(
    Object.entries(tags).map(([key, value]): [string, string] => ['tag', `${key}=${value}`]),
  );
  if (vm !== undefined) query.set('vm', vm);
  if (page !== undefined) query.set('page', page);
  return read(CloudPage, await call(access, 'GET', `/v1/resources?${query}`, signal));
}

/** All pages of `listPage`. */
export async function listAll(access: CloudAccess, filter: ListFilter, signal: AbortSignal): Promise<CloudResource[]> {
  const items: CloudResource[] = [];
  let page: string | undefined;
  do {
    const answer = await listPage(access, { ...filter, page }, signal);
    items.push(...answer.items);
    page = answer.nextPage;
  } while (page !== undefined);
  return items;
}

/** A disk, NIC or address by its id in the cloud; undefined when there is none. */
export async function findPart(
  access: CloudAccess,
  { kind, id }: { kind: PartKind; id: string },
  signal: AbortSignal,
): Promise<CloudPart | undefined> {
  const part = await call(access, 'GET', pathOf(kind, id), signal);
  return part === undefined ? undefined : read(CloudPart, part);
}

/** Asks for the deletion of a VM, disk, NIC or address. Succeeds when there is none. */
export async function deleteResource(
  access: CloudAccess,
  { kind, id }: Pick<CloudResource, 'kind' | 'id'>,
  signal: AbortSignal,
): Promise<void> {
  await call(access, 'DELETE', pathOf(kind, id), signal);
}

function pathOf(kind: CloudResource['kind'], id: string): string {
  return `/v1/${kind}s/${encodeURIComponent(id)}`;
}

type Method = 'GET' | 'POST' | 'DELETE';

/** The JSON of the answer; undefined for a resource that is not there. Throws ProviderError, or what `signal` aborts with. */
async function call(access: CloudAccess, method: Method, path: string, signal: AbortSignal, body?: unknown) {
  const answer = await send(access, method, path, signal, body);
  if (answer.status === 404 && /^\/v1\/\w+\//.test(path)) return undefined;
  if (answer.status >= 300) throw toProviderError(answer);
  return answer.body;
}

async function send(access: CloudAccess, method: Method, path: string, signal: AbortSignal, body?: unknown) {
  signal.throwIfAborted();
  const url = new URL(path, access.endpoint);
  try {
    const answer = await request(url, {
      method,
      dispatcher: agent,
      signal: AbortSignal.any([signal, AbortSignal.timeout(requestTimeoutMs)]),
      headers: { authorization: `Bearer ${access.token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return {
      status: answer.statusCode,
      requestId: oneHeader(answer.headers['x-request-id']),
      retryAfter: oneHeader(answer.headers['retry-after']),
      body: parseJson(await answer.body.text()),
    };
  } catch (error) {
    signal.throwIfAborted();
    throw toConnectionError(url.origin, error);
  }
}

function read<T>(schema: z.ZodType<T>, answer: unknown): T {
  const { data, error } = schema.safeParse(answer);
  if (data === undefined)
    throw new ProviderError('Unknown', `the cloud's answer is not as expected: ${error?.message}`);
  return data;
}

function oneHeader(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

/** A proxy in between may answer with something else than JSON; then the status has to do. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
