/** Who calls a cloud with what, and how fast. */
import { createHash } from 'node:crypto';
import type { SecretRef } from '../../../api/provider.ts';
import { standardTokenFolder } from '../../../api/secret.ts';
import { inOurWords, parseOrRefuse } from '../problems.ts';
import { type ProviderDeps, ProviderError } from '../provider.ts';
import type { Cloud, ConnectionHooks, Session, Tags } from './cloud.ts';
import { readError } from './errors.ts';
import { hideTokens } from './masks.ts';
import { createRequestRate, type Priority, type Turns } from './request-rate.ts';
import { readTokenFile, tokenFileProblem } from './token-file.ts';

/** Part of every request of the contract. */
export interface CloudScope {
  readonly providerSpec?: unknown;
  readonly credentials: readonly SecretRef[];
}

/** A session for one call of the contract. */
export interface CallSession<Client> extends Session<Client> {
  /** The same call, with requests of this priority. */
  at(priority: Priority): CallSession<Client>;
}

interface Connection<Client> {
  readonly client: Client;
  /** The last ones that the credentials were exchanged for. */
  readonly tokens: readonly string[];
  readonly rate: Turns;
  usedMs: number;
}

/** A connection that nobody has used for so long is forgotten, ms: its credentials may have been replaced. */
const forgetMs = 3_600_000;

/**
 * The longest that the first request of a call waits for its turn, ms. Where that takes longer, the call fails and
 * waits in its workflow, where people see it, and not in one of the few slots that a worker has for activities.
 */
const admissionMs = 5_000;
/** The same for its further requests, and for all that one which is throttled takes, ms: the call has its slot. */
const patienceMs = 30_000;

/** How many tokens of a connection are hidden: those of some exchanges, as requests may use the one before. */
const mostTokens = 10;

type MakeClient<Reach, Client> = (reach: Reach, hooks: ConnectionHooks) => Client;

/** What the Secrets of a request say. */
interface Keys {
  /** Names of the Secrets, for people. */
  readonly looked: string;
  readonly keys: Readonly<Record<string, string>>;
  /** The Secrets that they are from. */
  readonly holders: readonly SecretRef[];
  /** A Secret does not exist. */
  readonly isIncomplete: boolean;
}

/** Opens sessions with a cloud. Machines whose classes reach the same place with the same credentials share a rate. */
export function createSessions<Spec extends { tags: Tags }, Reach, Credentials, Client>(
  cloud: Cloud<Spec, Reach, Credentials, Client>,
  { readSecret, onRequestRate, onRequest, defaultCredentials = false, tokenFolder = standardTokenFolder }: ProviderDeps,
) {
  const connections = new Map<string, Connection<Client>>();
  const { tokenFileKey = '' } = cloud;

  /** The credentials' keys; those of a later Secret win. */
  async function readKeys(refs: readonly SecretRef[], signal: AbortSignal): Promise<Keys> {
    const secrets = await Promise.all(refs.map(async (ref) => ({ ref, data: await readSecret(ref, signal) })));
    const keys: Record<string, string> = {};
    const holders = new Set<SecretRef>();
    for (const key of cloud.credentialKeys) {
      const valueIn = ({ data }: (typeof secrets)[number]) => data?.[key]?.toString().trim();
      const holder = secrets.findLast((secret) => valueIn(secret));
      if (holder === undefined) continue;
      keys[key] = valueIn(holder) ?? '';
      holders.add(holder.ref);
    }
    const looked = secrets.map(({ ref, data }) => `${nameOf(ref)}${data ? '' : ', which does not exist'}`).join(', ');
    const isIncomplete = secrets.some(({ data }) => data === undefined);
    return { looked, keys, holders: [...holders], isIncomplete };
  }

  /** How to connect with these keys, or what is wrong with them. */
  function judgeKeys({ keys, holders, looked, isIncomplete }: Keys): {
    problems: string[];
    makeClient?: MakeClient<Reach, Client>;
  } {
    const { connectByDefault } = cloud;
    // A Secret that is gone may have had credentials of another account, in which the VMs are.
    if (defaultCredentials && connectByDefault !== undefined && holders.length === 0 && !isIncomplete)
      return { problems: [], makeClient: connectByDefault };
    const { data, error } = cloud.credentials.safeParse(keys, { error: inOurWords });
    const path = keys[tokenFileKey];
    const ofFile = path === undefined ? undefined : tokenFileProblem({ key: tokenFileKey, path, folder: tokenFolder });
    const problems = [
      ...(error?.issues.map(({ message }) => message) ?? []),
      ...(ofFile === undefined ? [] : [ofFile]),
    ];
    if (error || ofFile !== undefined)
      return { problems: problems.map((problem) => `${problem} (looked in: ${looked || 'none'})`) };
    return { problems: [], makeClient: (reach, hooks) => cloud.connect(reach, data, hooks) };
  }

  function connect(reach: Reach, { keys, holders }: Keys, makeClient: MakeClient<Reach, Client>): Connection<Client> {
    const nowMs = performance.now();
    for (const [id, { usedMs }] of connections) if (usedMs + forgetMs < nowMs) connections.delete(id);
    const id = createHash('sha256')
      .update(JSON.stringify([reach, keys]))
      .digest('base64');
    const known = connections.get(id);
    if (known !== undefined) {
      known.usedMs = nowMs;
      return known;
    }
    const rate = createRequestRate(cloud.rateLimit);
    const tokens: string[] = [];
    const onToken = (token: string) => void tokens.splice(0, tokens.push(token) - mostTokens);
    const readToken = async (path: string) => {
      const token = await readTokenFile({ key: tokenFileKey, path, folder: tokenFolder });
      onToken(token);
      return token;
    };
    const client = makeClient(reach, { onAllowance: rate.allowed, onToken, readToken });
    const connection = { client, tokens, rate, usedMs: nowMs };
    connections.set(id, connection);
    const labels = {
      provider: cloud.scheme,
      endpoint: cloud.endpointOf(reach),
      credentials: holders.length > 0 ? holders.map(nameOf).join(', ') : 'default',
    };
    onRequestRate?.(labels, connection.rate);
    return connection;
  }

  return {
    /**
     * A session for one call of the contract. Throws ProviderError `InvalidArgument` before anything is sent if the
     * cloud cannot be reached with what the class and its Secrets say.
     */
    async open(request: CloudScope, priority: Priority, signal: AbortSignal): Promise<CallSession<Client>> {
      const reach = parseOrRefuse(cloud.reach, request.providerSpec, 'providerSpec');
      const found = await readKeys(request.credentials, signal);
      const { problems, makeClient } = judgeKeys(found);
      if (makeClient === undefined) throw new ProviderError('InvalidArgument', problems.join('; '));
      const { client, tokens, rate } = connect(reach, found, makeClient);
      hideTokens(tokens);
      const labels = { provider: cloud.scheme, endpoint: cloud.endpointOf(reach) };
      let isAdmitted = false;

      async function send<T>(act: () => Promise<T>, at: Priority): Promise<T> {
        const untilMs = performance.now() + (isAdmitted ? patienceMs : admissionMs);
        let throttling: ProviderError | undefined;
        for (;;) {
          try {
            await rate.turn(at, untilMs, signal);
          } catch (tooLate) {
            signal.throwIfAborted();
            throw throttling ? withPause(throttling, tooLate) : tooLate;
          }
          isAdmitted = true;
          const sentMs = performance.now();
          const report = (hasFailed: boolean) =>
            onRequest?.({ ...labels, seconds: (performance.now() - sentMs) / 1_000, hasFailed });
          try {
            const answer = await act();
            rate.taken();
            report(false);
            return answer;
          } catch (thrown) {
            signal.throwIfAborted();
            report(true);
            const { error: failure, isThrottled } = readError(cloud, reach, thrown);
            if (!isThrottled) throw failure.code === 'Unauthenticated' ? ofSecrets(failure, found) : failure;
            rate.throttled(sentMs, failure.retryAfterMs);
            if (performance.now() + (failure.retryAfterMs ?? 0) > untilMs) throw failure;
            throttling = failure;
          }
        }
      }

      const at = (own: Priority): CallSession<Client> => ({ client, signal, send: (act) => send(act, own), at });
      return at(priority);
    },

    /** What is wrong with the credentials, and the Secrets that hold them. Sends nothing. */
    async judge(request: CloudScope, signal: AbortSignal) {
      const found = await readKeys(request.credentials, signal);
      const { problems, makeClient } = judgeKeys(found);
      return { problems, holders: found.holders, isUsable: makeClient !== undefined };
    },
  };
}

/** A refused login, with the Secrets whose credentials were used. */
function ofSecrets(refusal: ProviderError, { holders }: Keys): ProviderError {
  const { code, message, cloudCode, requestId } = refusal;
  const used = holders.length > 0 ? `Secret ${holders.map(nameOf).join(', ')}` : 'the environment of the worker';
  return new ProviderError(code, `${message} (credentials of ${used})`, { cloudCode, requestId, cause: refusal });
}

/** A throttled request that has no more turn in time: what the cloud said, with the longer of both pauses. */
function withPause(throttling: ProviderError, tooLate: unknown): ProviderError {
  const { code, message, cloudCode, requestId, retryAfterMs = 0 } = throttling;
  const pauseMs = tooLate instanceof ProviderError ? (tooLate.retryAfterMs ?? 0) : 0;
  return new ProviderError(code, message, {
    cloudCode,
    requestId,
    retryAfterMs: Math.max(retryAfterMs, pauseMs),
    cause: throttling,
  });
}

function nameOf({ namespace, name }: SecretRef): string {
  return `${namespace}/${name}`;
}
