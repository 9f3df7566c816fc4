/**
 * What a Machine wants its Node to have. A three-way merge of what it wants, what it wanted before and what the Node
 * has: what others have put on the Node stays.
 */

import { byKey } from './owner/canonical.ts';

export interface Taint {
  readonly key: string;
  readonly value?: string | undefined;
  readonly effect: string;
}

type Map = Readonly<Record<string, string>>;

export interface NodeTemplate {
  readonly labels: Map;
  readonly annotations: Map;
  readonly taints: readonly Taint[];
}

/** The parts of a Node that a template says something of. */
export interface TemplatedNode {
  readonly metadata: { readonly labels?: Map; readonly annotations?: Map };
  readonly spec?: { readonly taints?: readonly Taint[] };
  readonly status?: { readonly capacity?: Map };
}

/**
 * A merge patch of a Node. Its taints are a whole list, so it has to be sent with a resourceVersion; `status` is for
 * the subresource of that name.
 */
export interface NodePatch {
  readonly metadata?: { readonly labels?: Change; readonly annotations?: Change };
  readonly spec?: { readonly taints?: readonly Taint[]; readonly unschedulable?: true | null };
  readonly status?: { readonly capacity: Change };
}

/** A merge patch of labels or annotations. */
export type Change = Readonly<Record<string, string | null>>;

/**
 * How a Node gets what is wanted, and loses what was `applied` and is wanted no more. undefined: it is so already. A
 * taint is the same with another value if its key and effect are.
 */
export function mergeTemplate(node: TemplatedNode, applied: NodeTemplate, wanted: NodeTemplate): NodePatch | undefined {
  const labels = mergeMap(node.metadata.labels, applied.labels, wanted.labels);
  const annotations = mergeMap(node.metadata.annotations, applied.annotations, wanted.annotations);
  const taints = mergeTaints(node.spec?.taints, applied.taints, wanted.taints);
  if (labels === undefined && annotations === undefined && taints === undefined) return undefined;
  return {
    ...((labels || annotations) && { metadata: { ...(labels && { labels }), ...(annotations && { annotations }) } }),
    ...(taints && { spec: { taints } }),
  };
}

/** Whether two templates say the same, in whatever order their labels and annotations are. */
export function sameTemplates(a: NodeTemplate, b: NodeTemplate): boolean {
  const textOf = ({ labels, annotations, taints }: NodeTemplate) => {
    const [first, second] = [labels, annotations].map((map) => Object.entries(map).toSorted(byKey));
    return JSON.stringify([first, second, taints]);
  };
  return textOf(a) === textOf(b);
}

/** The same for one map. @param isSame of values that an API server stores in another form than they are written in */
export function mergeMap(
  live: Map = {},
  applied: Map,
  wanted: Map,
  isSame: (a: string, b: string) => boolean = Object.is,
): Change | undefined {
  const removed = Object.keys(applied).filter((key) => wanted[key] === undefined && live[key] !== undefined);
  const set = Object.entries(wanted).filter(([key, value]) => {
    const present = live[key];
    return present === undefined || !isSame(present, value);
  });
  if (removed.length === 0 && set.length === 0) return undefined;
  return { ...Object.fromEntries(removed.map((key) => [key, null])), ...Object.fromEntries(set) };
}

function mergeTaints(
  live: readonly Taint[] = [],
  applied: readonly Taint[],
  wanted: readonly Taint[],
): readonly Taint[] | undefined {
  const isIn = (taints: readonly Taint[], taint: Taint) => taints.some((each) => isSame(each, taint));
  const kept = live.filter((taint) => isIn(wanted, taint) || !isIn(applied, taint));
  const merged = [
    ...kept.map((taint) => {
      const own = wanted.find((each) => isSame(each, taint));
      return own === undefined || (own.value ?? '') === (taint.value ?? '') ? taint : own;
    }),
    ...wanted.filter((taint) => !isIn(live, taint)),
  ];
  const isUnchanged = merged.length === live.length && merged.every((taint, index) => taint === live[index]);
  return isUnchanged ? undefined : merged;
}

function isSame(a: Taint, b: Taint): boolean {
  return a.key === b.key && a.effect === b.effect;
}
