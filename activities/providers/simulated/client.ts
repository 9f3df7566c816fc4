import { Agent, request } from 'undici';
import type { z } from 'zod';
import { CloudPage, CloudPart, CloudVm, type CreateVmBody, type PartKind } from './schema.ts';

/** Where a cloud is and what it accepts. */
export interface CloudAccess {
  readonly endpoint: string;
  readonly token: string;
}

interface Answer {
  readonly status: number;
  readonly requestId?: string | undefined;
  /** Header of that name, s. */
  readonly retryAfter?: string | undefined;
  /** The JSON; undefined where it is none. */
  readonly body: unknown;
  /** Of the body. */
  readonly bytes: number;
  readonly contentType?: string | undefined;
}

/** An answer of the cloud that is an error, or cannot be read. */
export class AnswerError extends Error {
  override readonly name = 'AnswerError';
  readonly answer: Answer;

  constructor(answer: Answer) {
    super(`the cloud answered ${answer.status}`);
    this.answer = answer;
  }
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
interface ListFilter {
  readonly tags?: Readonly<Record<string, string>>;
  readonly vm?: string;
  /** Only VMs that are about to be taken away. */
  readonly interrupted?: boolean;
  readonly page?: string | undefined;
}

/** One page of VMs, disks, NICs and addresses, oldest first. */
export async function listPage(
  access: CloudAccess,
  { tags = {}, vm, interrupted = false, page }: ListFilter,
  signal: AbortSignal,
): Promise<CloudPage> {
  const query = new URLSearchParams(
    Object.entries(tags).map(([key, value]): [string, string] => ['tag', `${key}=${value}`]),
  );
  if (vm !== undefined) query.set('vm', vm);
  if (interrupted) query.set('interrupted', 'true');
  if (page !== undefined) query.set('page', page);
  return read(CloudPage, await call(access, 'GET', `/v1/resources?${query}`, signal));
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
  { kind, id }: { kind: string; id: string },
  signal: AbortSignal,
): Promise<void> {
  await call(access, 'DELETE', pathOf(kind, id), signal);
}

function pathOf(kind: string, id: string): string {
  return `/v1/${kind}s/${encodeURIComponent(id)}`;
}

type Method = 'GET' | 'POST' | 'DELETE';

/** The answer; undefined for a resource that is not there. Throws AnswerError, or what a connection fails with. */
async function call(access: CloudAccess, method: Method, path: string, signal: AbortSignal, body?: unknown) {
  const answer = await send(access, method, path, signal, body);
  if (answer.status === 404 && /^\/v1\/\w+\//.test(path)) return undefined;
  if (answer.status >= 300) throw new AnswerError(answer);
  return answer;
}

async function send(
  access: CloudAccess,
  method: Method,
  path: string,
  signal: AbortSignal,
  body?: unknown,
): Promise<Answer> {
  signal.throwIfAborted();
  const answer = await request(new URL(path, access.endpoint), {
    method,
    dispatcher: agent,
    signal: AbortSignal.any([signal, AbortSignal.timeout(requestTimeoutMs)]),
    headers: { authorization: `Bearer ${access.token}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.body.text();
  return {
    status: answer.statusCode,
    requestId: oneHeader(answer.headers['x-request-id']),
    retryAfter: oneHeader(answer.headers['retry-after']),
    body: parseJson(text),
    bytes: Buffer.byteLength(text),
    contentType: oneHeader(answer.headers['content-type']),
  };
}

function read<T>(schema: z.ZodType<T>, answer: Answer | undefined): T {
  const { data } = schema.safeParse(answer?.body);
  if (data !== undefined) return data;
  throw new AnswerError(answer ?? { status: 404, body: undefined, bytes: 0 });
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
