/**
 * Hides what is secret in texts for people. The boundary of a worker hides it in every failure and heartbeat of an
 * activity, and serve.ts in the texts of answers, so that no provider has to.
 */
import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { shortened } from '../../../api/failures.ts';
import type { SecretData } from '../provider.ts';

/** Hides secrets in a text, and shortens it. */
export type Mask = (text: string) => string;

/** What an activity has in hand. */
interface InHand {
  readonly secrets: SecretData[];
  /** Keys of Secrets whose values are no secret. */
  readonly plainKeys: Set<string>;
  /** Others add to these lists later. */
  readonly tokens: Set<readonly string[]>;
}

const inHand = new WeakMap<Context, InHand>();
const nothing: InHand = { secrets: [], plainKeys: new Set(), tokens: new Set() };

/** Shorter values, characters, are not hidden: each would be found in many words. */
const shortest = 4;

/** Hides the values of a Secret in what the activity that runs here says. Without an activity it does nothing. */
export function hideSecret(data: SecretData): void {
  ofActivity()?.secrets.push(data);
}

/** The same for the strings that a list has by then. */
export function hideTokens(tokens: readonly string[]): void {
  ofActivity()?.tokens.add(tokens);
}

/** The values of these keys are no secret in any Secret. */
export function showKeys(keys: readonly string[]): void {
  const { plainKeys } = ofActivity() ?? {};
  for (const key of keys) plainKeys?.add(key);
}

/** Hides what an activity has in hand. Default: the one that runs here. */
export function createMask(context = asyncLocalStorage.getStore()): Mask {
  let forms: string[] | undefined; // of user data there are many, and most calls have no text
  return (text) => {
    forms ??= formsIn((context && inHand.get(context)) ?? nothing);
    return shortened(forms.reduce((rest, form) => rest.replaceAll(form, '(hidden)'), text));
  };
}

/** Longest first: a short one may be a part of it. */
function formsIn({ secrets, plainKeys, tokens }: InHand): string[] {
  const entries = secrets.flatMap((data) => Object.entries(data));
  const values = entries.flatMap(([key, value]) => (plainKeys.has(key) ? [] : [value.toString()]));
  const forms = new Set([...values, ...[...tokens].flat()].flatMap(partsOf).flatMap(formsOf));
  return [...forms].filter(({ length }) => length >= shortest).toSorted((a, b) => b.length - a.length);
}

/** A value of JSON in which all strings are masked. */
export function masked<T>(value: T, mask: Mask): T;
export function masked(value: unknown, mask: Mask): unknown {
  if (typeof value === 'string') return mask(value);
  if (Array.isArray(value)) return value.map((each) => masked(each, mask));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, masked(each, mask)]));
}

function ofActivity(): InHand | undefined {
  const context = asyncLocalStorage.getStore();
  if (context === undefined) return undefined;
  const known = inHand.get(context) ?? { secrets: [], plainKeys: new Set(), tokens: new Set() };
  inHand.set(context, known);
  return known;
}

/** As kubeadm defines it: id and secret. */
const bootstrapToken = /\b[a-z0-9]{6}\.([a-z0-9]{16})\b/g;
/** Of a key in PEM. */
const base64Line = /^[A-Za-z0-9+/]{40,}={0,2}$/;

/** A secret, and what is secret in it by itself: bootstrap tokens with their lines, and lines of keys. */
function partsOf(secret: string): string[] {
  const lines = secret.split('\n').map((line) => line.trim());
  const tokens = [...secret.matchAll(bootstrapToken)].flatMap(([token, ofToken = '']) => [token, ofToken]);
  const withToken = lines.filter((line) => tokens.some((token) => line.includes(token)));
  return [secret.trim(), ...tokens, ...withToken, ...lines.filter((line) => base64Line.test(line))];
}

/** A text as others write it: as it is, in JSON (twice), in a URL or a form, and in base64 of both alphabets. */
function formsOf(text: string): string[] {
  if (text.length < shortest) return [];
  const json = JSON.stringify(text).slice(1, -1);
  const form = new URLSearchParams([['', text]]).toString().slice(1);
  const inBase64 = [0, 1, 2].map((before) => base64At(text, before));
  const escaped = [encodeURIComponent(text.toWellFormed()), form, ...inBase64.map(encodeURIComponent)];
  return [
    ...[text, json, JSON.stringify(json).slice(1, -1)],
    ...[...escaped, ...escaped.map((each) => each.replaceAll('%2F', '/'))].flatMap((each) => [
      each,
      each.replaceAll(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase()),
    ]),
    ...inBase64.flatMap((each) => [each, each.replaceAll('+', '-').replaceAll('/', '_')]),
  ];
}

/** The digits that depend on the text alone, wherever it is in what is encoded. @param before bytes in its first group */
function base64At(text: string, before: number): string {
  const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]);
  const bits = 8 * bytes.length;
  return bytes.toString('base64').slice(Math.ceil((8 * before) / 6), Math.floor(bits / 6));
}
