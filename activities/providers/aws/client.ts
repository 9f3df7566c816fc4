/** Requests to EC2, with the credentials of a class. */
import { EC2Client, type ServiceInputTypes, type ServiceOutputTypes } from '@aws-sdk/client-ec2';
import { DecodeAuthorizationMessageCommand, STSClient } from '@aws-sdk/client-sts';
import { fromWebToken } from '@aws-sdk/credential-provider-web-identity';
import type { AwsCredentialIdentityProvider, Command } from '@smithy/types';
import { z } from 'zod';
import type { ConnectionHooks, Refusal, Session } from '../kit/cloud.ts';
import { unreadable } from '../kit/errors.ts';
import { ProviderError } from '../provider.ts';
import type { AwsCredentials } from './credentials.ts';

/** Where the instances are. */
export interface Reach {
  readonly region: string;
  readonly endpoint?: string | undefined;
}

/** A connection, and what it has learned that never changes. */
export interface Ec2 {
  readonly region: string;
  readonly client: EC2Client;
  readonly sts: STSClient;
  /** Name of the root device of each image, as `/dev/xvda`. */
  readonly rootDevices: Map<string, string>;
}

const timeoutMs = 15_000;

/** @param given left out: those that the SDK finds for this process */
export function connect({ region, endpoint }: Reach, given: AwsCredentials | undefined, hooks: ConnectionHooks): Ec2 {
  const common = {
    region,
    maxAttempts: 1, // the kit decides what is sent again
    requestHandler: { requestTimeout: timeoutMs, connectionTimeout: timeoutMs, throwOnRequestTimeout: true },
    ...(given && { credentials: credentialsOf(given, region, hooks) }),
  };
  return {
    region,
    client: new EC2Client({ ...common, ...(endpoint !== undefined && { endpoint }) }),
    sts: new STSClient(common),
    rootDevices: new Map(),
  };
}

function credentialsOf(
  given: AwsCredentials,
  region: string,
  { onToken, readToken }: ConnectionHooks,
): AwsCredentialIdentityProvider {
  if ('accessKeyId' in given) return async () => given;
  const { roleArn, webIdentityTokenFile } = given;
  return async () => {
    const webIdentityToken = await readToken(webIdentityTokenFile);
    const found = await fromWebToken({ roleArn, webIdentityToken, clientConfig: { region, maxAttempts: 1 } })();
    for (const token of [found.secretAccessKey, found.sessionToken ?? '']) onToken(token);
    return found;
  };
}

/** Sends one request. Throws as `Session.send` does, and says what is not allowed as far as that can be known. */
export async function call<In extends ServiceInputTypes, Out extends ServiceOutputTypes>(
  { client: ec2, signal, send }: Session<Ec2>,
  command: Command<ServiceInputTypes, In, ServiceOutputTypes, Out, EC2Client['config']>,
): Promise<Out> {
  const action = command.constructor.name.replace(/Command$/, '');
  return send(async () => {
    try {
      return await ec2.client.send(command, { abortSignal: signal });
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal?.code !== 'UnauthorizedOperation') throw error;
      throw await explain(ec2, signal, refusal, `ec2:${action}`);
    }
  }, action.startsWith('Describe'));
}

/** Errors of all clients of the SDK. Those of answers that cannot be read have no `$fault`. */
const ServiceError = z.object({
  name: z.string(),
  message: z.string(),
  $fault: z.string().optional(),
  $metadata: z.object({ httpStatusCode: z.int().optional(), requestId: z.string().optional() }),
  $response: z
    .object({ headers: z.record(z.string(), z.string()) })
    .optional()
    .catch(undefined),
  $responseBodyText: z.string().optional(),
  /** Of EC2 and STS: without a code where the answer has no error in their format. */
  Error: z.object({ Code: z.string().optional() }).optional(),
});

/** What an answer of EC2 or STS says; undefined for any other error. */
export function refusalOf(error: unknown): Refusal | undefined {
  // Of the chain of credentials that the SDK looks for by itself.
  if (error instanceof Error && error.name === 'CredentialsProviderError') {
    return { code: error.name, message: error.message, status: 401 };
  }
  const { data } = ServiceError.safeParse(error);
  if (data === undefined) return undefined;
  const { $metadata, $fault, $response, $responseBodyText: body, Error: own, name: code, message } = data;
  const { httpStatusCode: status = 500, requestId } = $metadata;
  const isReadable = $fault !== undefined && (own === undefined || own.Code !== undefined);
  if (isReadable) return { code, message, status, requestId };
  const { 'content-type': type, 'content-length': length } = $response?.headers ?? {};
  const bytes = length === undefined ? body && Buffer.byteLength(body) : Number(length);
  return { message: unreadable(bytes || undefined, type), status, requestId };
}

/** EC2 hides details in a text that only those may decode who have the right `sts:DecodeAuthorizationMessage`. */
const encoded = /\s*Encoded authorization failure message: (\S+)/;

const Decoded = z.object({
  explicitDeny: z.boolean().optional(),
  context: z.object({ action: z.string(), resource: z.string() }),
});

async function explain(ec2: Ec2, signal: AbortSignal, refusal: Refusal, action: string): Promise<ProviderError> {
  const { code, message, status, requestId } = refusal;
  const EncodedMessage = encoded.exec(message)?.[1];
  const decoded = EncodedMessage === undefined ? undefined : await decode(ec2, signal, EncodedMessage);
  const detail = decoded
    ? ` (${decoded.context.action} on ${decoded.context.resource}${decoded.explicitDeny ? ', denied by a policy' : ''})`
    : '';
  const words = `the cloud answered ${status}: ${code}: allow the action ${action}${detail}. ${message.replace(encoded, '')}`;
  return new ProviderError('PermissionDenied', words, { cloudCode: code, requestId });
}

async function decode({ sts }: Ec2, signal: AbortSignal, EncodedMessage: string) {
  try {
    const command = new DecodeAuthorizationMessageCommand({ EncodedMessage });
    const { DecodedMessage = '' } = await sts.send(command, { abortSignal: signal });
    return Decoded.safeParse(JSON.parse(DecodedMessage)).data;
  } catch {
    return undefined; // most often not allowed
  }
}
