/** The node template of a Machine, as MCM gives it to the Node. */
import { z } from 'zod';
import { mergeTemplate, type NodePatch, type NodeTemplate, type TemplatedNode } from '../../node-template.ts';
import { annotations, labels } from '../names.ts';
import type { Machine } from '../schema/machine.ts';

/** Keys that Millwright writes itself: in a template they are ignored. */
const ownKeys: readonly string[] = [
  labels.machineName,
  annotations.lastAppliedNodeTemplate,
  annotations.lastAppliedVirtualCapacity,
];

const StringMap = z
  .record(z.string(), z.string())
  .nullish()
  .transform((map) => Object.fromEntries(Object.entries(map ?? {}).filter(([key]) => !ownKeys.includes(key))));
const Taint = z.object({ key: z.string(), value: z.string().optional(), effect: z.string() });

/** What is used of a template, as a Machine and the annotation have it. */
const Template = z
  .object({
    metadata: z.object({ labels: StringMap, annotations: StringMap }).nullish(),
    spec: z.object({ taints: z.array(Taint).nullish() }).nullish(),
  })
  .nullish()
  .transform((template): NodeTemplate => {
    const { labels: ofNode = {}, annotations: own = {} } = template?.metadata ?? {};
    return { labels: ofNode, annotations: own, taints: template?.spec?.taints ?? [] };
  });

/**
 * Merge patch that gives a Node what the template of its Machine says, with the annotation in which MCM and Millwright find
 * what was applied last; undefined: it is so already. An annotation that cannot be read says nothing.
 */
export function toNodePatch({ spec }: Machine, node: TemplatedNode): NodePatch | undefined {
  const wanted = Template.parse(spec?.nodeTemplate);
  const noted = parse(node.metadata.annotations?.[annotations.lastAppliedNodeTemplate]);
  const applied = Template.safeParse(noted).data ?? Template.parse({});
  const patch = mergeTemplate(node, applied, wanted);
  const isNoted = mergeTemplate({ metadata: applied, spec: applied }, applied, wanted) === undefined;
  if (patch === undefined && isNoted) return undefined;
  const note = { [annotations.lastAppliedNodeTemplate]: JSON.stringify(spec?.nodeTemplate ?? {}) };
  return { ...patch, metadata: { ...patch?.metadata, annotations: { ...patch?.metadata?.annotations, ...note } } };
}

function parse(text = '{}'): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
