import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it, jest } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { jsonBytes, maxListBytes } from '../api/payloads.ts';
import { type CodecKeys, createCodec, keyIdOf } from './codec.ts';

const first = randomBytes(32);
const second = randomBytes(32);
const keysOf = (current: string | undefined, keys: Readonly<Record<string, Buffer>>): CodecKeys => ({
  current,
  keys: new Map(Object.entries(keys)),
});
const codecOf = (current: string | undefined, keys: Readonly<Record<string, Buffer>>) =>
  createCodec(() => keysOf(current, keys));
const toPayload = (value: unknown) => defaultPayloadConverter.toPayload(value) as Payload;
const fromPayload = (payload: Payload | undefined) => defaultPayloadConverter.fromPayload(payload ?? {});

describe('createCodec', () => {
  it('encrypts with the current key, each time in another way, and decrypts', async () => {
    const codec = codecOf('b', { a: first, b: second });
    const values = [{ name: 'node-17' }, undefined, null, 'text'];
    const encoded = await codec.encode([...values, ...values].map(toPayload));

    expect(encoded.map(keyIdOf)).toEqual(encoded.map(() => 'b'));
    expect(encoded.map(({ data }) => Buffer.from(data ?? []).includes('node-17'))).not.toContain(true);
    expect(new Set(encoded.map(({ data }) => Buffer.from(data ?? []).toString('hex'))).size).toBe(encoded.length);
    expect((await codec.decode(encoded)).map(fromPayload)).toEqual([...values, ...values]);
  });

  it('decrypts with older keys, and leaves alone what is not encrypted', async () => {
    const [old] = await codecOf('a', { a: first }).encode([toPayload('old')]);
    const plain = toPayload('plain');
    const codec = codecOf('b', { a: first, b: second });

    expect((await codec.decode([old!, plain])).map(fromPayload)).toEqual(['old', 'plain']);
    expect((await codec.decode([plain]))[0]).toBe(plain);
  });

  it('encrypts nothing without a current key, and decrypts all the same', async () => {
    const [old] = await codecOf('a', { a: first }).encode([toPayload('old')]);
    const codec = codecOf(undefined, { a: first });
    const plain = toPayload('plain');

    expect(await codec.encode([plain])).toEqual([plain]);
    expect((await codec.decode([old!])).map(fromPayload)).toEqual(['old']);
  });

  it('names the key that is missing, and the fix', async () => {
    const encoded = await codecOf('a', { a: first }).encode([toPayload('old')]);

    await expect(codecOf('b', { b: second, c: second }).decode(encoded)).rejects.toMatchObject({
      type: 'Unavailable',
      nonRetryable: false,
      message:
        "a payload is encrypted with the key 'a', which this process does not have: add the file a to the folder of --temporal-codec-keys, which has b, c",
    });
    await expect(createCodec().decode(encoded)).rejects.toThrow(
      "a payload is encrypted with the key 'a', which this process does not have: give the folder with the keys in --temporal-codec-keys",
    );
  });

  it.each([
    ['another key of the same name', { a: second }, (data: Buffer) => data],
    ['a payload that somebody has changed', { a: first }, (data: Buffer) => data.fill(0, 20, 24)],
    ['a payload without its end', { a: first }, (data: Buffer) => data.subarray(0, -1)],
    ['an empty payload', { a: first }, () => Buffer.alloc(0)],
  ])('refuses %s', async (_, keys, change) => {
    const [encoded] = await codecOf('a', { a: first }).encode([toPayload('old')]);
    const changed = { ...encoded, data: change(Buffer.from(encoded?.data ?? [])) };

    await expect(codecOf('a', keys).decode([changed])).rejects.toThrow(
      "a payload cannot be decrypted with the key 'a' that it names: correct the file of this name",
    );
  });

  it('adds less than 200 bytes, so the limits of payloads hold', async () => {
    const list = 'x'.repeat(maxListBytes - 2);
    const [encoded] = await codecOf('k'.repeat(63), { ['k'.repeat(63)]: first }).encode([toPayload(list)]);

    expect(jsonBytes(list)).toBe(maxListBytes);
    const metadata = Object.entries(encoded?.metadata ?? {}).flat();
    const bytes = metadata.reduce((sum, each) => sum + each.length, encoded?.data?.length ?? 0);
    expect(bytes).toBeLessThan(maxListBytes + 200);
  });

  it('reads the keys again after 5 s, and keeps the old ones while the new ones cannot be used', async () => {
    let now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const problems: unknown[] = [];
    let answer = () => keysOf('a', { a: first });
    const codec = createCodec(
      () => answer(),
      (error) => problems.push(error),
    );
    const idNow = async () => keyIdOf((await codec.encode([toPayload(1)]))[0] ?? {});

    const broken = new Error('the file b is no key');
    answer = () => {
      throw broken;
    };
    expect(await idNow()).toBe('a');
    expect(problems).toEqual([]);
    for (now of [5_000, 10_000, 15_000]) expect(await idNow()).toBe('a');
    expect(problems).toEqual([broken]);
    answer = () => keysOf('b', { a: first, b: second });
    now = 20_000;
    expect(await idNow()).toBe('b');
    jest.restoreAllMocks();
  });

  it('ends where the first keys cannot be used', () => {
    const refuse = () => {
      throw new Error('the file b is no key');
    };
    expect(() => createCodec(refuse)).toThrow('the file b is no key');
  });
});

describe('the format that the contract of providers has', () => {
  /** `json codec <title>` in docs/providers.md. */
  const [, text = ''] = /```json codec example\n([^`]*)```/.exec(readFileSync('docs/providers.md', 'utf8')) ?? [];
  const example = JSON.parse(text || '{}') as {
    key: string;
    payload: { metadata: Record<string, string>; data: string };
    value: unknown;
  };
  const bytes = (base64: string) => Buffer.from(base64, 'base64');
  const payload = {
    metadata: Object.fromEntries(
      Object.entries(example.payload?.metadata ?? {}).map(([key, each]) => [key, bytes(each)]),
    ),
    data: bytes(example.payload?.data ?? ''),
  };

  it('is what is decrypted', async () => {
    const codec = codecOf(undefined, { '2026-11': bytes(example.key) });

    expect(keyIdOf(payload)).toBe('2026-11');
    expect((await codec.decode([payload])).map(fromPayload)).toEqual([example.value]);
  });

  it('is what is written: nonce, AES-256-GCM of the protobuf of the payload, tag', async () => {
    const [encoded] = await codecOf('2026-11', { '2026-11': bytes(example.key) }).encode([toPayload(example.value)]);
    const data = Buffer.from(encoded?.data ?? []);
    const open = (from: Buffer) => {
      const decipher = createDecipheriv('aes-256-gcm', bytes(example.key), from.subarray(0, 12));
      decipher.setAuthTag(from.subarray(-16));
      return Buffer.concat([decipher.update(from.subarray(12, -16)), decipher.final()]);
    };
    const inside = open(data);
    const nonce = payload.data.subarray(0, 12);
    const encrypting = createCipheriv('aes-256-gcm', bytes(example.key), nonce);
    const again = Buffer.concat([nonce, encrypting.update(inside), encrypting.final(), encrypting.getAuthTag()]);

    expect(inside).toEqual(open(payload.data));
    expect(again).toEqual(payload.data);
    expect(encoded?.metadata).toEqual(payload.metadata);
  });
});
