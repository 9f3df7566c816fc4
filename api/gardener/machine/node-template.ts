/** The node template of a Machine, as MCM gives it to the Node. */
import { z } from 'zod';
import { acceptedOf, problemsOfAnnotations, problemsOfLabels, problemsOfTaints } from '../../metadata-rules.ts';
import {
  mergeMap,
  mergeTemplate,
  type NodePatch,
  type NodeTemplate,
  sameTemplates,
  type TemplatedNode,
} from '../../node-template.ts';
import { sameQuantity } from '../../quantity.ts';
import { annotations, labels, taints } from '../names.ts';
import type { NodeTemplate as NodeTemplateField } from '../schema/common.ts';
import type { Machine } from '../schema/machine.ts';
import type { MachineClass } from '../schema/machine-class.ts';

/** Keys that Millwright writes and removes itself: in a template they are ignored. */
const ownKeys: readonly string[] = [
  labels.machineName,
  labels.candidateForUpdate,
  labels.selectedForUpdate,
  labels.updateResult,
  annotations.lastAppliedNodeTemplate,
  annotations.lastAppliedVirtualCapacity,
  annotations.scaleDownDisabledByMcm,
];
const ownTaints: readonly string[] = [taints.preferNoSchedule.key, taints.preserved.key];

const StringMap = z
  .record(z.string(), z.string())
  .nullish()
  .transform((map) => Object.fromEntries(Object.entries(map ?? {}).filter(([key]) => !ownKeys.includes(key))));
const Taint = z
  .object({ key: z.string(), value: z.string().optional(), effect: z.string() })
  .transform(({ value, ...taint }) => ({ ...taint, ...(value && { value }) }));

/** What is used of a template, as a Machine and the annotation have it. */
const Template = z
  .object({
    metadata: z.object({ labels: StringMap, annotations: StringMap }).nullish(),
    spec: z.object({ taints: z.array(Taint).nullish() }).nullish(),
  })
  .nullish()
  .transform((template): NodeTemplate => {
    const { labels: ofNode = {}, annotations: own = {} } = template?.metadata ?? {};
    const others = template?.spec?.taints?.filter(({ key }) => !ownTaints.includes(key)) ?? [];
    return { labels: ofNode, annotations: own, taints: others };
  });

/**
 * What an API server refuses of a nodeTemplate, each with the field, the value and what helps.
 * @param path of the spec that has it
 */
export function problemsOfNodeTemplate(nodeTemplate: NodeTemplateField | undefined, path: string): string[] {
  const { labels: ofNode, annotations: own, taints } = read(nodeTemplate);
  return [
    ...problemsOfLabels(ofNode, `${path}.nodeTemplate.metadata.labels`),
    ...problemsOfAnnotations(own, `${path}.nodeTemplate.metadata.annotations`),
    ...problemsOfTaints(taints, `${path}.nodeTemplate.spec.taints`),
  ];
}

/** Quantities as texts. */
const Quantities = z.record(z.string(), z.union([z.string(), z.number()]).transform(String));

/** A note whose parts are kept as they are. */
const Note = z.looseObject({ spec: z.looseObject({}).optional() });

/** What a Machine and its class want its Node to have: see `ofTemplate` and `ofCapacity`. */
export function toNodePatch(machine: Machine, node: TemplatedNode, source?: MachineClass): NodePatch | undefined {
  const [template, capacity] = [ofTemplate(machine.spec?.nodeTemplate, node), source && ofCapacity(source, node)];
  if (template === undefined || capacity === undefined) return template ?? capacity;
  const annotations = { ...template.metadata?.annotations, ...capacity.metadata?.annotations };
  return { ...template, ...capacity, metadata: { ...template.metadata, annotations } };
}

/**
 * Merge patch that writes the virtual capacity of a class to the Node, with the annotation in which MCM and Millwright
 * find what was written last; undefined: it is so already.
 */
function ofCapacity({ nodeTemplate }: MachineClass, node: TemplatedNode): NodePatch | undefined {
  const note = node.metadata.annotations?.[annotations.lastAppliedVirtualCapacity];
  const wanted = Quantities.parse(nodeTemplate?.virtualCapacity ?? {});
  const applied = Quantities.safeParse(parse(note)).data ?? {};
  const capacity = mergeMap(node.status?.capacity, applied, wanted, sameQuantity);
  const isNoted = mergeMap(applied, applied, wanted, sameQuantity) === undefined;
  if (capacity === undefined && isNoted) return undefined;
  const isEmpty = Object.keys(wanted).length === 0;
  const noted = { [annotations.lastAppliedVirtualCapacity]: isEmpty ? null : JSON.stringify(wanted) };
  return { metadata: { annotations: noted }, ...(capacity && { status: { capacity } }) };
}

/** The same of the taints of the template alone. The note has them and, of the rest, what it had before. */
export function toTaintsPatch({ spec }: Machine, node: TemplatedNode): NodePatch | undefined {
  const noted = Note.safeParse(parse(node.metadata.annotations?.[annotations.lastAppliedNodeTemplate])).data;
  const { taints } = spec?.nodeTemplate?.spec ?? {};
  return ofTemplate({ ...noted, spec: { ...noted?.spec, taints } }, node);
}

/**
 * Merge patch that gives a Node what the template of its Machine says, but for what an API server would refuse, with
 * the annotation in which MCM and Millwright find what was applied last; undefined: it is so already. An annotation
 * that cannot be read says nothing.
 */
function ofTemplate(template: unknown, node: TemplatedNode): NodePatch | undefined {
  const wanted = Template.parse(template);
  const applied = read(parse(node.metadata.annotations?.[annotations.lastAppliedNodeTemplate]));
  const isKept = node.metadata.annotations?.[annotations.scaleDownDisabledByMcm] !== undefined;
  const written = (each: NodeTemplate) => (isKept ? withoutScaleDown(acceptedOf(each)) : acceptedOf(each));
  const patch = mergeTemplate(node, written(applied), written(wanted));
  if (patch === undefined && sameTemplates(applied, wanted)) return undefined;
  const note = { [annotations.lastAppliedNodeTemplate]: JSON.stringify(template ?? {}) };
  return { ...patch, metadata: { ...patch?.metadata, annotations: { ...patch?.metadata?.annotations, ...note } } };
}

/** A rollout or a preservation keeps the autoscaler from removing the Node, whatever the template says of that. */
function withoutScaleDown(template: NodeTemplate): NodeTemplate {
  const { [annotations.scaleDownDisabled]: _, ...others } = template.annotations;
  return { ...template, annotations: others };
}

/** One that cannot be read says nothing. */
function read(template: unknown): NodeTemplate {
  return Template.safeParse(template).data ?? Template.parse({});
}

function parse(text = '{}'): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
