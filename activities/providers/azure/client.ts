/** Requests to Azure Resource Manager (ARM), with the credentials of a class. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { ComputeManagementClient } from '@azure/arm-compute';
import { NetworkManagementClient } from '@azure/arm-network';
import type { TokenCredential } from '@azure/core-auth';
import {
  createDefaultHttpClient,
  createHttpHeaders,
  createPipelineRequest,
  type PipelineRequest,
  type PipelineResponse,
} from '@azure/core-rest-pipeline';
import { z } from 'zod';
import { temporalNowMs } from '../../boundary.ts';
import type { CloudVm, ConnectionHooks, CreationFailure, Refusal, Session } from '../kit/cloud.ts';
import { unreadable } from '../kit/errors.ts';
import { ProviderError } from '../provider.ts';
import type { AzureCredentials } from './credentials.ts';
import { findIdentity, identityOf, identityRefusalOf } from './identity.ts';
import type { AzureProviderSpec } from './schema.ts';

/** Where the VMs are. */
export type Reach = Pick<AzureProviderSpec, 'resourceGroup' | 'cloudConfiguration'>;

type CloudName = Reach['cloudConfiguration']['name'];

/** A connection, and what it has learned that never changes. */
export interface Arm {
  readonly subscriptionId: string;
  readonly resourceGroup: string;
  /** Origin of ARM. */
  readonly endpoint: string;
  readonly compute: ComputeManagementClient;
  readonly network: NetworkManagementClient;
  /** IDs of the subnets that exist, by themselves. */
  readonly subnets: Set<string>;
  /** Plans of images of the marketplace, by URN; those whose terms were accepted, too, where the class has it so. */
  readonly plans: Map<string, Plan | undefined>;
}

/** Plan of an image of the marketplace, as a VM names it. */
export interface Plan {
  readonly name: string;
  readonly publisher: string;
  readonly product: string;
}

const timeoutMs = 15_000;

const endpoints: Record<CloudName, string> = {
  AzurePublic: 'https://management.azure.com',
  AzureChina: 'https://management.chinacloudapi.cn',
  AzureGovernment: 'https://management.usgovcloudapi.net',
};

/** Origin of ARM. The environment may name another, but no class: it would get the tokens of the Secret. */
export function endpointOf({ cloudConfiguration: { name } }: Reach): string {
  const given = process.env['AZURE_RESOURCE_MANAGER_ENDPOINT'];
  return given ? new URL(given).origin : endpoints[name];
}

export function connect(reach: Reach, given: AzureCredentials, hooks: ConnectionHooks): Arm {
  return connectWith(reach, given.subscriptionId, identityOf(given, reach.cloudConfiguration.name, hooks), hooks);
}

/** With what the environment of this process says. */
export function connectByDefault(reach: Reach, hooks: ConnectionHooks): Arm {
  const { subscriptionId, credential } = findIdentity(reach.cloudConfiguration.name);
  return connectWith(reach, subscriptionId, credential, hooks);
}

function connectWith(
  reach: Reach,
  subscriptionId: string,
  source: TokenCredential,
  { onAllowance, onToken }: ConnectionHooks,
): Arm {
  const credential: TokenCredential = {
    async getToken(...asked) {
      const found = await source.getToken(...asked);
      if (found !== null) onToken(found.token);
      return found;
    },
  };
  const endpoint = endpointOf(reach);
  const options = {
    endpoint,
    credentials: { scopes: [`${endpoints[reach.cloudConfiguration.name]}/.default`] },
    retryOptions: { maxRetries: 0 }, // the kit decides what is sent again
  };
  const compute = new ComputeManagementClient(credential, subscriptionId, options);
  const network = new NetworkManagementClient(credential, subscriptionId, options);
  for (const { pipeline } of [compute, network]) {
    pipeline.addPolicy({
      name: 'callPolicy',
      async sendRequest(request, next) {
        const call = calls.getStore();
        prepare(request, endpoint, call?.signal);
        const response = await next(request);
        if (call !== undefined) call.answer = response;
        for (const allowance of allowancesOf(response)) onAllowance(allowance);
        return response;
      },
    });
  }
  const { resourceGroup } = reach;
  return { subscriptionId, resourceGroup, endpoint, compute, network, subnets: new Set(), plans: new Map() };
}

/** What a request is sent for. */
interface Call {
  /** The SDK does not pass it to further pages. */
  readonly signal: AbortSignal;
  /** The last one: errors of the SDK quote answers that it cannot read, and leave out what pages say. */
  answer?: PipelineResponse;
}

const calls = new AsyncLocalStorage<Call>();

function prepare(request: PipelineRequest, endpoint: string, signal: AbortSignal | undefined): void {
  // Links of pages and operations come back from the workflow: no token goes anywhere else.
  if (new URL(request.url).origin !== endpoint) {
    throw new ProviderError(
      'FailedPrecondition',
      `a link leads to ${new URL(request.url).origin} and not to ${endpoint}`,
    );
  }
  if (signal !== undefined) request.abortSignal = signal;
  request.timeout = timeoutMs;
}

/**
 * What ARM takes at most at once for a subscription and an application (learn.microsoft.com,
 * request-limits-and-throttling).
 */
const subscriptionHeaders = { reads: 250, writes: 200, deletes: 200 };

/**
 * What Azure will still take, as it says with an answer. Limits of the compute provider for one VM alone, whose names
 * end with `Resource`, say nothing of other requests.
 */
export function allowancesOf({ headers }: Pick<PipelineResponse, 'headers'>) {
  const ofSubscription = Object.entries(subscriptionHeaders).map(([kind, most]) => ({
    kind,
    left: headers.get(`x-ms-ratelimit-remaining-subscription-${kind}`),
    most,
  }));
  const ofProvider = (headers.get('x-ms-ratelimit-remaining-resource') ?? '').split(',').map((policy) => {
    const [kind = '', left] = policy.trim().split(';');
    return { kind, left };
  });
  return [...ofSubscription, ...ofProvider].flatMap(({ left, ...each }) =>
    left !== undefined && /^\d+$/.test(left) && !each.kind.endsWith('Resource')
      ? [{ ...each, left: Number(left) }]
      : [],
  );
}

/** Sends one request. Throws as `Session.send` does. */
export async function call<T>(
  { client: { endpoint }, signal, send }: Session<Arm>,
  act: () => Promise<T>,
  isRead = false,
): Promise<T> {
  return send(async () => {
    const sent: Call = { signal };
    try {
      return await calls.run(sent, act);
    } catch (error) {
      if (signal.aborted || !(error instanceof Error)) throw error;
      if (error.name === 'AbortError') {
        const message = `the cloud at ${endpoint} did not answer in time`;
        throw new ProviderError('DeadlineExceeded', message, { cause: error });
      }
      const { answer } = sent;
      if (answer === undefined || error instanceof ProviderError || identityRefusalOf(error) !== undefined) throw error;
      const isReadable = answer.status < 300 && (!answer.bodyAsText || jsonOf(answer) !== undefined);
      throw isReadable ? error : new ArmError(answer);
    }
  }, isRead);
}

/** Sends a request that changes nothing. */
export async function read<T>(session: Session<Arm>, act: () => Promise<T>): Promise<T> {
  return call(session, act, true);
}

/** The same; undefined where there is none. */
export async function find<T>(session: Session<Arm>, act: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read(session, act);
  } catch (error) {
    if (error instanceof ProviderError && error.code === 'NotFound') return undefined;
    throw error;
  }
}

/** What Azure has accepted: the resource as it shows it at first, and the URL of the operation that goes on. */
export interface Accepted {
  readonly state: string | undefined;
  readonly operation: string | undefined;
}

interface StartOptions {
  onResponse(response: PipelineResponse): void;
}

const Resource = z.object({ properties: z.object({ provisioningState: z.string().optional() }).optional() });

/** Starts an operation, and returns when Azure has accepted it: what becomes of it is asked for later. */
export async function start(
  session: Session<Arm>,
  act: (options: StartOptions) => { submitted(): Promise<void> },
): Promise<Accepted> {
  let answer: PipelineResponse | undefined;
  const onResponse: StartOptions['onResponse'] = (response) => {
    answer = response;
  };
  await call(session, () => act({ onResponse }).submitted());
  return {
    state: Resource.safeParse(jsonOf(answer)).data?.properties?.provisioningState,
    operation: answer?.headers.get('azure-asyncoperation') ?? answer?.headers.get('location'),
  };
}

const Operation = z.object({
  status: z.string(),
  endTime: z.string().optional(),
  error: z.object({ code: z.string().optional(), message: z.string().default('') }).optional(),
});

/**
 * An operation whose VM is gone is looked at within two minutes. Where it ended longer ago, it is that of an earlier
 * VM, ms.
 */
const oldMs = 180_000;

/**
 * Why an operation has failed; undefined while it goes on, after it has succeeded, where Azure has forgotten it, and
 * where it was that of an earlier VM: it ended before `vm` was made.
 */
export async function failureOf(
  session: Session<Arm>,
  operation: string,
  vm: Pick<CloudVm, 'createdAt'> | undefined,
): Promise<CreationFailure | undefined> {
  const { endpoint } = session.client;
  if (!URL.canParse(operation) || new URL(operation).origin !== endpoint) return undefined;
  const answer = await find(session, () => request(session.client, 'GET', operation));
  const { status, error, endTime = '' } = Operation.safeParse(answer).data ?? {};
  if (status !== 'Failed' && status !== 'Canceled') return undefined;
  if (Date.parse(endTime) < (vm === undefined ? temporalNowMs() - oldMs : Date.parse(vm.createdAt))) return undefined;
  return {
    code: qualify(error?.code ?? status, error?.message ?? ''),
    message: error?.message ?? `the operation is ${status}`,
  };
}

const http = createDefaultHttpClient();

/** What the packages of the SDK that we use have no function for. Answers the body. */
export async function request(arm: Arm, method: 'GET' | 'PUT', url: string, body?: unknown): Promise<unknown> {
  const headers = createHttpHeaders({ accept: 'application/json', 'content-type': 'application/json' });
  const made = createPipelineRequest({
    url,
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer = await arm.compute.pipeline.sendRequest(http, made);
  if (answer.status < 300) return jsonOf(answer);
  throw new ArmError(answer);
}

function jsonOf(answer: PipelineResponse | undefined): unknown {
  try {
    return JSON.parse(answer?.bodyAsText ?? '');
  } catch {
    return undefined;
  }
}

const Reason = z.object({ code: z.string(), message: z.string() });
const ErrorBody = z.union([z.object({ error: Reason }).transform(({ error }) => error), Reason]);

/** An answer that is an error, or cannot be read. */
export class ArmError extends Error {
  readonly code: string | undefined;
  readonly response: PipelineResponse;

  constructor(response: PipelineResponse) {
    const { code, message } = ErrorBody.safeParse(jsonOf(response)).data ?? {};
    const bytes = Buffer.byteLength(response.bodyAsText ?? '');
    super(message ?? unreadable(bytes, response.headers.get('content-type')));
    this.code = code;
    this.response = response;
  }
}

/** What an answer of ARM or of Entra ID says; undefined for any other error. */
export function refusalOf(error: unknown): Refusal | undefined {
  const ofIdentity = identityRefusalOf(error);
  if (ofIdentity !== undefined) return ofIdentity;
  if (!(error instanceof ArmError)) return undefined;
  const { message, code, response } = error;
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  return {
    code: qualify(code, message),
    message,
    status: response.status,
    requestId: response.headers.get('x-ms-correlation-request-id') ?? response.headers.get('x-ms-request-id'),
    ...(retryAfter > 0 && { retryAfterMs: retryAfter * 1_000 }),
  };
}

/** Azure gives these codes for many reasons: only the message says which. */
function qualify(code: string | undefined, message: string): string | undefined {
  if (code === 'OperationNotAllowed') {
    if (/quota/i.test(message)) return `${code}.Quota`;
    if (/marked for deletion|attached to|in use|in progress|being /i.test(message)) return `${code}.Busy`;
  }
  return code === 'BadRequest' && /not supported/i.test(message) ? `${code}.NotSupported` : code;
}
