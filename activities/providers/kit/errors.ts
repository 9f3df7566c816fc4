import { z } from 'zod';
import type { FailureCode } from '../../../api/failures.ts';
import { ProviderError } from '../provider.ts';
import type { Cloud, CreationFailure, Tags } from './cloud.ts';

/** What a request to a cloud has thrown. */
export interface CloudFailure {
  readonly error: ProviderError;
  /** The cloud did nothing, because it has got too many requests. */
  readonly isThrottled: boolean;
}

const code = z.string().optional().catch(undefined);

/** As connections of Node, of undici and of `fetch` fail. */
const ConnectionFailure = z.object({ name: z.string(), code, cause: z.object({ code }).optional().catch(undefined) });

/**
 * Translates an error of a cloud's client. A code that the cloud's table lacks is throttling with status 429,
 * `Unavailable` above 500, a refusal from 400 and `Unknown` otherwise. Throws what is neither an answer nor a failed
 * connection, which is a defect.
 */
export function readError<Reach>(
  cloud: Pick<Cloud<{ tags: Tags }, Reach, unknown, unknown>, 'errors' | 'refusalOf' | 'endpointOf'>,
  reach: Reach,
  thrown: unknown,
): CloudFailure {
  if (thrown instanceof ProviderError) return { error: thrown, isThrottled: false };
  const refusal = cloud.refusalOf(thrown);
  if (refusal === undefined) return { error: connectionError(cloud.endpointOf(reach), thrown), isThrottled: false };
  const { code: cloudCode, message, status, requestId, retryAfterMs } = refusal;
  const known =
    (cloudCode === undefined ? undefined : cloud.errors[cloudCode]) ?? (status === 429 ? 'Throttled' : undefined);
  const code: FailureCode =
    known === 'Throttled' ? 'Unavailable' : (known ?? codeOfStatus(status, cloudCode !== undefined));
  const words = cloudCode === undefined ? message : `${cloudCode}: ${message}`;
  const error = new ProviderError(code, `the cloud answered ${status}: ${words}`, {
    cloudCode,
    requestId,
    retryAfterMs,
    cause: thrown,
  });
  return { error, isThrottled: known === 'Throttled' };
}

/**
 * What is said of an answer that is not in the cloud's own format. Nothing of the body: a class or a Secret may name
 * the server, which may be any.
 * @param bytes undefined: not known
 */
export function unreadable(bytes: number | undefined, contentType = ''): string {
  const [type = 'an unknown type'] = /^[\w.+-]{1,40}\/[\w.+-]{1,40}/.exec(contentType) ?? [];
  return `the answer is not in the cloud's format (${bytes === undefined ? '' : `${bytes} bytes of `}${type})`;
}

/** What became of a creation that the cloud had accepted. A code that the cloud's table lacks is `Internal`. */
export function readCreationFailure(
  { errors }: Pick<Cloud<never, never, never, never>, 'errors'>,
  { code: cloudCode, message }: CreationFailure,
): ProviderError {
  const known = cloudCode === undefined ? undefined : errors[cloudCode];
  const code: FailureCode = known === 'Throttled' ? 'Unavailable' : (known ?? 'Internal');
  const words = cloudCode === undefined ? message : `${cloudCode}: ${message.trim()}`;
  return new ProviderError(code, `the cloud had accepted the VM and could not make it: ${words}`, { cloudCode });
}

/** A cloud that names a reason with a status from 400 has refused. Without one the answer may be that of a proxy. */
function codeOfStatus(status: number, isNamed: boolean): FailureCode {
  if (status > 500) return 'Unavailable';
  return isNamed && status >= 400 && status < 500 && status !== 408 ? 'FailedPrecondition' : 'Unknown';
}

function connectionError(endpoint: string, thrown: unknown): ProviderError {
  const { name, code: own, cause } = ConnectionFailure.safeParse(thrown).data ?? {};
  const cloudCode = own ?? cause?.code;
  // The AWS SDK also gives this name to connections that were cut.
  if (name === 'TimeoutError' && (cloudCode === undefined || cloudCode === 'ETIMEDOUT')) {
    return new ProviderError('DeadlineExceeded', `the cloud at ${endpoint} did not answer in time`, { cause: thrown });
  }
  if (cloudCode === undefined || cloudCode.includes('INVALID')) throw thrown;
  return new ProviderError('Unavailable', `the cloud at ${endpoint} cannot be reached (${cloudCode})`, {
    cloudCode,
    cause: thrown,
  });
}
