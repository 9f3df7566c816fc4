/** The codec of payloads: what Temporal stores of workflows can be read only with a key. ADR 53. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { ApplicationFailure, type Payload, type PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';
import type { FailureCode } from '../api/failures.ts';

/** The keys of a process. */
export interface CodecKeys {
  /** Id of the one of `keys` that encrypts; undefined: payloads are written as they are. */
  readonly current: string | undefined;
  /** 32 bytes each, by id. */
  readonly keys: ReadonlyMap<string, Buffer>;
}

/** Metadata `encoding` of an encrypted payload. */
export const encryptedEncoding = 'binary/encrypted';
/** Metadata that names the key. The format is that of Temporal's samples, so programs of others understand it. */
const keyIdField = 'encryption-key-id';

const cipher = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;

/** In the message of a failure of a process without the key of a payload. */
export const lacksKey = 'which this process does not have';

/** How old keys may be that are used, ms. */
const rereadMs = 5_000;

const { Payload: PayloadMessage } = proto.temporal.api.common.v1;

/**
 * A codec that encrypts with the current key, and decrypts with any. Payloads that are not encrypted stay as they are.
 * Without keys it encrypts nothing, and says of an encrypted payload what is missing. The failures of its methods may
 * be retried, because keys are read again.
 * @param readKeys throws where the keys cannot be used: at first this ends the call, later the old ones stay in use
 * @param onProblem called once for each such error of a later read
 */
export function createCodec(
  readKeys: () => CodecKeys = () => ({ current: undefined, keys: new Map() }),
  onProblem: (error: unknown) => void = () => undefined,
): PayloadCodec {
  let known = readKeys();
  let readAt = performance.now();
  let problem = '';

  function newestKeys(): CodecKeys {
    if (performance.now() - readAt < rereadMs) return known;
    readAt = performance.now();
    try {
      known = readKeys();
      problem = '';
    } catch (error) {
      if (String(error) !== problem) onProblem(error);
      problem = String(error);
    }
    return known;
  }

  return {
    async encode(payloads) {
      const { current, keys } = newestKeys();
      if (current === undefined) return payloads;
      return payloads.map((payload) => encrypt(payload, current, keys.get(current)!));
    },
    async decode(payloads) {
      return payloads.map((payload) => (isEncrypted(payload) ? decrypt(payload, newestKeys()) : payload));
    },
  };
}

function isEncrypted({ metadata }: Payload): boolean {
  return textOf(metadata?.['encoding']) === encryptedEncoding;
}

/** Id of the key of an encrypted payload; undefined where it is not encrypted. */
export function keyIdOf(payload: Payload): string | undefined {
  return isEncrypted(payload) ? textOf(payload.metadata?.[keyIdField]) : undefined;
}

function encrypt(payload: Payload, keyId: string, key: Buffer): Payload {
  const nonce = randomBytes(nonceBytes);
  const encrypting = createCipheriv(cipher, key, nonce);
  const sealed = [encrypting.update(PayloadMessage.encode(payload).finish()), encrypting.final()];
  const metadata = { encoding: Buffer.from(encryptedEncoding), [keyIdField]: Buffer.from(keyId) };
  return { metadata, data: Buffer.concat([nonce, ...sealed, encrypting.getAuthTag()]) };
}

function decrypt(payload: Payload, { keys }: CodecKeys): Payload {
  const id = keyIdOf(payload) ?? '';
  const key = keys.get(id);
  if (key === undefined) {
    const fix =
      keys.size === 0
        ? 'give the folder with the keys in --temporal-codec-keys'
        : `add the file ${id} to the folder of --temporal-codec-keys, which has ${[...keys.keys()].join(', ')}`;
    throw unreadable(`a payload is encrypted with the key '${id}', ${lacksKey}: ${fix}`);
  }
  const data = Buffer.from(payload.data ?? []);
  try {
    const decrypting = createDecipheriv(cipher, key, data.subarray(0, nonceBytes), { authTagLength: tagBytes });
    decrypting.setAuthTag(data.subarray(-tagBytes));
    const opened = [decrypting.update(data.subarray(nonceBytes, -tagBytes)), decrypting.final()];
    return PayloadMessage.decode(Buffer.concat(opened));
  } catch (cause) {
    const problem = `a payload cannot be decrypted with the key '${id}' that it names`;
    const fix = 'correct the file of this name in the folder of --temporal-codec-keys; the payload may also be damaged';
    throw unreadable(`${problem}: ${fix}`, cause);
  }
}

/** An activity that cannot read its input was not called: it is retried like one that no worker answers. */
function unreadable(message: string, cause?: unknown): ApplicationFailure {
  const type: FailureCode = 'Unavailable';
  return ApplicationFailure.create({ type, message, ...(cause instanceof Error && { cause }) });
}

function textOf(bytes: Uint8Array | null | undefined): string {
  return Buffer.from(bytes ?? []).toString();
}
