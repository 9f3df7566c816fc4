/** Reading what Temporal stores where the SDK hands it over as it is: parts of histories, and whole ones as JSON. */
import type { Client } from '@temporalio/client';
import type { DataConverter, Payload } from '@temporalio/common';
import {
  decodeFromPayloadsAtIndex,
  decodeOptionalFailureToOptionalError,
} from '@temporalio/common/lib/internal-non-workflow/codec-helpers.js';
import { encryptedEncoding } from './codec.ts';
import { isObject, type Json, jsonEncoding, textOf } from './history.ts';

type Failure = Parameters<typeof decodeOptionalFailureToOptionalError>[1];

/** The message of a failure, as its program wrote it; undefined where there is none. Throws what the codec throws. */
export async function readMessage({ options }: Client, failure: Failure): Promise<string | undefined> {
  const error = await decodeOptionalFailureToOptionalError(options.loadedDataConverter, failure);
  return error?.message || undefined;
}

/** The first of several payloads; undefined where there is none. Throws what the codec throws. */
export async function readFirst<T>(
  { options }: Client,
  payloads: Payload[] | null | undefined,
): Promise<T | undefined> {
  return decodeFromPayloadsAtIndex<T | undefined>(options.loadedDataConverter, 0, payloads);
}

/**
 * A history as Temporal gives it in JSON, with decoded payloads, and failures with the messages that their programs
 * wrote. Throws what the codec throws. A text that is no history is returned as it is.
 */
export async function decodeHistory({ payloadCodecs = [] }: DataConverter, history: string): Promise<string> {
  const [codec] = payloadCodecs;

  async function decoded(value: Json): Promise<Json> {
    if (Array.isArray(value)) return Promise.all(value.map(decoded));
    if (!isObject(value)) return value;
    if (isPayload(value)) {
      const given = payloadFromJson(value);
      const [payload = given] = (await codec?.decode([given])) ?? [];
      return payload === given ? value : payloadToJson(payload);
    }
    const fields = Object.entries(value).map(async ([key, each]) => [key, await decoded(each)] as const);
    return withMessage(Object.fromEntries(await Promise.all(fields)));
  }

  if (!marks.some((mark) => history.includes(mark))) return history;
  const parsed = tryToParse(history);
  return parsed === undefined ? history : JSON.stringify(await decoded(parsed));
}

/** Texts of which each history has one where there is something to decode. */
const marks = [Buffer.from(encryptedEncoding).toString('base64'), 'encodedAttributes'];

/** A payload in the JSON of protobuf. */
export type PayloadJson = { readonly metadata?: Json | undefined; readonly data?: Json | undefined };

type JsonObject = { readonly [key: string]: Json };

function tryToParse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** A payload whose metadata says how it is encoded; those that a tool has shortened have none. */
function isPayload({ metadata, data = '' }: JsonObject): boolean {
  return isObject(metadata) && typeof metadata['encoding'] === 'string' && typeof data === 'string';
}

/** Of a payload in the JSON of protobuf, whose bytes are in base64. */
export function payloadFromJson({ metadata, data }: PayloadJson): Payload {
  const bytes = (value: Json | undefined) => Buffer.from(textOf(value), 'base64');
  const fields = Object.entries(isObject(metadata) ? metadata : {});
  return { metadata: Object.fromEntries(fields.map(([key, value]) => [key, bytes(value)])), data: bytes(data) };
}

/** The same in the other direction. */
export function payloadToJson({ metadata, data }: Payload): Json {
  const text = (bytes: Uint8Array | null | undefined) => Buffer.from(bytes ?? []).toString('base64');
  const fields = Object.entries(metadata ?? {}).map(([key, value]) => [key, text(value)]);
  return { metadata: Object.fromEntries(fields), data: text(data) };
}

/** A failure whose message is in a payload has it again where other failures have it. */
function withMessage(object: JsonObject): JsonObject {
  const { encodedAttributes, ...others } = object;
  if (!isObject(encodedAttributes)) return object;
  const { metadata, data } = encodedAttributes;
  if (!isObject(metadata) || metadata['encoding'] !== jsonEncoding || typeof data !== 'string') return object;
  const attributes = tryToParse(Buffer.from(data, 'base64').toString());
  if (attributes === undefined || !isObject(attributes)) return object;
  const { message = '', stack_trace: stackTrace = '' } = attributes;
  return { ...others, message, stackTrace };
}
