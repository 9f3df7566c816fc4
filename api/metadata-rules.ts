/**
 * What an API server refuses of labels, annotations, finalizers and taints, by the rules of Kubernetes: so that people
 * hear of it before an object is made from them. Pure. Each answer names the field, the value and what helps.
 */
import { maxLabelLength } from './names.ts';
import type { Taint } from './node-template.ts';

type Entries = Readonly<Record<string, string>>;

/** Most bytes of all annotations of an object, keys and values together. */
export const maxAnnotationBytes = 256 * 1024;

const maxPrefixLength = 253;
const qualifiedName = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const dnsLabel = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const dnsName = new RegExp(`^${dnsLabel}([.]${dnsLabel})*$`);

const effects: readonly string[] = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

const nameRule = "at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends";
const keyRule = `write it as ${nameRule}, if need be after a DNS name and '/'`;

/** What is wrong with labels. @param path of the map */
export function problemsOfLabels(labels: Entries, path: string): string[] {
  return Object.entries(labels).flatMap(([key, value]) => {
    if (!isKey(key)) return [`${path} has the key "${short(key)}": ${keyRule}`];
    return isLabelValue(value) ? [] : [`${path} has ${key}="${short(value)}": write the value as ${nameRule}`];
  });
}

/** The same of annotations. */
export function problemsOfAnnotations(annotations: Entries, path: string): string[] {
  const keys = Object.keys(annotations).filter((key) => !isAnnotationKey(key));
  const bytes = annotationBytes(annotations);
  return [
    ...keys.map((key) => `${path} has the key "${short(key)}": ${keyRule}`),
    ...(bytes > maxAnnotationBytes ? [`${path} has ${bytes} bytes: ${maxAnnotationBytes} are the most`] : []),
  ];
}

/** The same of finalizers. */
export function problemsOfFinalizers(finalizers: readonly string[], path: string): string[] {
  return finalizers.filter((each) => !isKey(each)).map((each) => `${path} has "${short(each)}": ${keyRule}`);
}

/** The same of taints. */
export function problemsOfTaints(taints: readonly Taint[], path: string): string[] {
  return taints.flatMap((taint, i) => {
    const problem = problemOfTaint(taint, taints.slice(0, i));
    return problem === undefined ? [] : [`${path} has ${textOf(taint)}: ${problem}`];
  });
}

/**
 * The labels and annotations that an API server accepts, and the taints; of taints with one key and effect the first.
 */
export function acceptedOf<T extends { labels: Entries; annotations: Entries; taints: readonly Taint[] }>(given: T) {
  const { labels, annotations, taints } = given;
  return {
    labels: entriesOf(labels, ([key, value]) => isKey(key) && isLabelValue(value)),
    annotations: entriesOf(annotations, ([key]) => isAnnotationKey(key)),
    taints: taints.filter((taint, i) => problemOfTaint(taint, taints.slice(0, i)) === undefined),
  };
}

/** Bytes of annotations as the API server counts them. */
export function annotationBytes(annotations: Entries): number {
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  return Object.entries(annotations).reduce((sum, [key, value]) => sum + bytes(key) + bytes(value), 0);
}

function problemOfTaint({ key, value = '', effect }: Taint, before: readonly Taint[]): string | undefined {
  if (!isKey(key)) return `its key: ${keyRule}`;
  if (!isLabelValue(value)) return `its value: write it as ${nameRule}`;
  if (!effects.includes(effect)) return `its effect: set it to one of ${effects.join(', ')}`;
  const isRepeated = before.some((each) => each.key === key && each.effect === effect);
  return isRepeated ? 'it has another taint of this key and effect: leave one' : undefined;
}

/** As kubectl writes a taint. */
function textOf({ key, value, effect }: Taint): string {
  return `${short(key)}${value ? `=${short(value)}` : ''}:${short(effect)}`;
}

/** Of labels, taints and finalizers. */
function isKey(key: string): boolean {
  const parts = key.split('/');
  const [prefix, rest] = parts.length === 2 ? parts : [undefined, key];
  const isPrefixed = prefix === undefined || (prefix.length <= maxPrefixLength && dnsName.test(prefix));
  return isPrefixed && rest !== undefined && rest.length <= maxLabelLength && qualifiedName.test(rest);
}

function isAnnotationKey(key: string): boolean {
  return isKey(key.toLowerCase());
}

function isLabelValue(value: string): boolean {
  return value === '' || (value.length <= maxLabelLength && qualifiedName.test(value));
}

function entriesOf(map: Entries, isKept: (entry: [string, string]) => boolean): Entries {
  return Object.fromEntries(Object.entries(map).filter(isKept));
}

/** Most characters of a value that a text has. */
const maxShown = 80;

function short(text: string): string {
  return text.length <= maxShown ? text : `${text.slice(0, maxShown - 1)}…`;
}
