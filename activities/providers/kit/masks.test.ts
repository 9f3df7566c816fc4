import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { inActivity } from '../../../test/support/in-activity.ts';
import { createMask, hideSecret, hideTokens, masked, showKeys } from './masks.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const base64url = (text: string) => Buffer.from(text).toString('base64url');
const secret = 'p4ss "wörd"\n/+?~& of mine';

/** What an activity that has a secret in hand says instead of a text. */
function hidden(text: string, data: Record<string, string> = { password: secret }): string {
  return inActivity({}, () => {
    hideSecret(data);
    return createMask()(text);
  });
}

describe('a mask', () => {
  it.each([
    ['as it is', secret],
    ['without the white space around it', secret, ` ${secret}\n`],
    ['in JSON', JSON.stringify(secret).slice(1, -1)],
    ['in JSON in JSON', JSON.stringify(JSON.stringify(secret)).slice(3, -3)],
    ['in a URL', encodeURIComponent(secret)],
    ['in a path', encodeURIComponent(secret).replaceAll('%2F', '/')],
    [
      'in a URL with small hexadecimal digits',
      encodeURIComponent(secret).replaceAll(/%../g, (byte) => byte.toLowerCase()),
    ],
    ['in a form', String(new URLSearchParams({ a: secret })).slice(2)],
  ])('hides a secret %s, and nothing around it', (_, form, value = secret) => {
    expect(hidden(`refused: ${form}!`, { password: value })).toBe('refused: (hidden)!');
  });

  it('hides a secret in base64 of both alphabets, wherever in what is encoded it is', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 4, unit: 'grapheme' }), fc.string(), fc.string(), (value, before, after) => {
        fc.pre(value.trim().length >= 4);
        for (const encode of [base64, base64url, (text: string) => encodeURIComponent(base64(text))]) {
          const seen = hidden(`<${encode(before + value.trim() + after)}>`, { password: value });
          expect(seen).toContain('(hidden)');
          const left = seen
            .slice(1, -1)
            .split('(hidden)')
            .map((part) => Buffer.from(decodeURIComponent(part), 'base64').toString());
          expect(left.join('|')).not.toContain(value.trim());
        }
      }),
    );
  });

  it('hides bootstrap tokens of user data with their lines, and lines of keys', () => {
    const line = 'kubeadm join --token abcdef.0123456789abcdef 10.0.0.1';
    const key = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj';
    const userData = `#!/bin/sh\nset -eu\n  ${line}\n-----BEGIN PRIVATE KEY-----\n${key}\n`;
    const seen = (text: string) => hidden(text, { userData });

    expect(seen(`sh: ${line}: not found`)).toBe('sh: (hidden): not found');
    expect(seen('token abcdef.0123456789abcdef has expired')).toBe('token (hidden) has expired');
    expect(seen('secret 0123456789abcdef of abcdef')).toBe('secret (hidden) of abcdef');
    expect(seen(`no key: ${key}`)).toBe('no key: (hidden)');
    expect(seen(base64(`x${line}`))).not.toContain(base64(line).slice(8, 20));
    expect(seen('set -eu')).toBe('set -eu');
    expect(seen(`Invalid user data: ${base64(userData)}`)).toMatch(/^Invalid user data: \(hidden\)\S{0,4}$/);
  });

  it('leaves values of fewer than 4 characters, and those of keys that are no secret', () => {
    const seen = inActivity({}, () => {
      hideSecret({ pin: '123', region: 'eu-west-1', tenantID: 'tenant-1' });
      showKeys(['tenantID']);
      return createMask()('tenant-1 in eu-west-1 refused 123');
    });

    expect(seen).toBe('tenant-1 in (hidden) refused 123');
  });

  it('hides the longest secret first', () => {
    expect(hidden('abcdef abcd', { one: 'abcd', two: 'abcdef' })).toBe('(hidden) (hidden)');
  });

  it('hides tokens that were fetched meanwhile, and in each string of a value', () => {
    const seen = inActivity({}, () => {
      const tokens: string[] = [];
      hideTokens(tokens);
      tokens.push('gAAAAtoken');
      return masked({ vms: 1, of: ['a gAAAAtoken'], no: undefined, null: null }, createMask());
    });

    expect(seen).toEqual({ vms: 1, of: ['a (hidden)'], no: undefined, null: null });
  });

  it('knows nothing of another activity', () => {
    hidden('x');

    expect(inActivity({}, () => createMask()(secret))).toBe(secret);
    expect(createMask()(secret)).toBe(secret);
  });

  it('shortens a text to 2,000 characters, and says so at its end', () => {
    const seen = hidden(`${'x'.repeat(1_995)}${secret}${'y'.repeat(10_000)}`);

    expect(seen).toHaveLength(2_000);
    expect(seen).toMatch(/^x+… \(cut: there were 12003 characters\)$/);
    expect(hidden('x'.repeat(2_000))).toBe('x'.repeat(2_000));
  });
});
