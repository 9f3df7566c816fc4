/** The policy of the chart for fields that only Millwright writes, from the tables of names and their comments. */
import { stringify } from 'yaml';
import * as gardener from '../../api/gardener/names.ts';
import { names, signingKeySecret } from '../../api/names.ts';
import { docCommentsIn, splitComment } from './comments.ts';

/** Kinds whose fields are protected. Who may write Nodes decides on these names there. */
const kinds = ['Machine', 'MachineSet', 'MachineDeployment', 'MachineClass', 'Secret'] as const;
type Kind = (typeof kinds)[number];

/** Writer of each name, by kind. */
type Writers = Record<Kind, Record<string, string>>;

/** Content by path from the root. */
export function policyFiles(): Record<string, string> {
  const spec = { variables: variables(), validations: [validation] };
  const text = stringify(spec, { lineWidth: 0 });
  return {
    'deploy/chart/policies/fields.yaml': `# Made from api/names.ts and api/gardener/names.ts by \`npm run generate\`. Do not edit.\n${text}`,
  };
}

/** What others write, too: these fields are everybody's. */
const ofOthers = /\b(users|agent|kubectl|autoscaler|machine-controller-manager only|millwright rollout)\b/;

/** The names of a table that only Millwright writes, by the kinds that its comment begins with. */
function writersOf(table: Readonly<Record<string, string>>, file: string, from: string, isMeant = /./): Writers {
  const writers: Writers = { Machine: {}, MachineSet: {}, MachineDeployment: {}, MachineClass: {}, Secret: {} };
  const comments = docCommentsIn(file, from);
  for (const [name, value] of Object.entries(table)) {
    const { meaning, by } = splitComment(comments, name, 'Written by');
    if (ofOthers.test(by) || !isMeant.test(meaning)) continue;
    const [on = ''] = /^[A-Z]\w+(, [A-Z]\w+)*/.exec(meaning) ?? [];
    for (const kind of kinds) if (on.split(', ').includes(kind)) writers[kind][value] = by.replaceAll('`', '');
  }
  return writers;
}

/** Both tables in one. */
function merged(one: Writers, other: Writers): Writers {
  return Object.fromEntries(kinds.map((kind) => [kind, { ...one[kind], ...other[kind] }])) as Writers;
}

/** A value in CEL: JSON of texts and objects is CEL. */
const ofKind = (writers: Writers) => `${JSON.stringify(writers)}[request.kind.kind]`;

/** The keys whose value differs, each as a text with its writer. */
const changedKeys = (own: string, path: string, field: string) =>
  `${own}.filter(k, (k in variables.now${path} ? [variables.now${path}[k]] : []) != ` +
  `(k in variables.was${path} ? [variables.was${path}[k]] : []))` +
  `.map(k, '${field}[' + k + '], written by ' + ${own}[k])`;

function variables() {
  const ofMillwright = writersOf(names, 'api/names.ts', 'export const names', /^(?!.*: (label|taint)\b)/);
  const labelsOfMillwright = writersOf(names, 'api/names.ts', 'export const names', /: label\b/);
  const file = 'api/gardener/names.ts';
  const annotations = merged(ofMillwright, writersOf(gardener.annotations, file, 'export const annotations'));
  const labels = merged(labelsOfMillwright, writersOf(gardener.labels, file, 'export const labels'));
  const finalizers = writersOf(gardener.finalizers, file, 'export const finalizers');
  // Machines get these from a template. The owner's workflow writes the hash of the template to that of a set.
  const { [gardener.labels.templateHash]: _, ...inTemplate } = labels.Machine;
  const isOwner = "request.kind.kind in ['MachineSet', 'MachineDeployment']";
  const at = (object: string, path: string, otherwise: string) =>
    `${object}${path
      .split('.')
      .map((part) => `.?${part}`)
      .join('')}.orValue(${otherwise})`;
  const both = (name: string, path: string, otherwise = '{}') => [
    { name: `now${name}`, expression: at('variables.now', path, otherwise) },
    { name: `was${name}`, expression: at('variables.was', path, otherwise) },
  ];
  const changed = [
    changedKeys('variables.annotations', 'Annotations', 'metadata.annotations'),
    changedKeys('variables.labels', 'Labels', 'metadata.labels'),
    "variables.finalizers.filter(k, (k in variables.nowFinalizers) != (k in variables.wasFinalizers)).map(k, 'metadata.finalizers[' + k + '], written by ' + variables.finalizers[k])",
    changedKeys('variables.templateAnnotations', 'TemplateAnnotations', 'spec.template.metadata.annotations'),
    changedKeys('variables.templateLabels', 'TemplateLabels', 'spec.template.metadata.labels'),
    "(variables.nowProviderID != variables.wasProviderID ? ['spec.providerID, written by the machine workflow'] : [])",
    "(variables.nowTemplateProviderID != variables.wasTemplateProviderID ? ['spec.template.spec.providerID, which is for no template'] : [])",
    "(has(request.subResource) && request.subResource == 'status' ? ['status, written by the workflows and the controllers'] : [])",
    `(request.kind.kind == 'Secret' && ${at('variables.now', 'metadata.name', "''")} == '${signingKeySecret}' && ` +
      `${at('variables.now', 'data', '{}')} != ${at('variables.was', 'data', '{}')} ? ['data, the key of the signatures, written by the workers'] : [])`,
  ];
  return [
    { name: 'now', expression: 'dyn(object)' },
    { name: 'was', expression: 'oldObject == null ? dyn({}) : dyn(oldObject)' },
    { name: 'annotations', expression: ofKind(annotations) },
    { name: 'labels', expression: ofKind(labels) },
    { name: 'finalizers', expression: ofKind(finalizers) },
    { name: 'templateAnnotations', expression: `${isOwner} ? ${JSON.stringify(annotations.Machine)} : {}` },
    { name: 'templateLabels', expression: `${isOwner} ? ${JSON.stringify(inTemplate)} : {}` },
    ...both('Annotations', 'metadata.annotations'),
    ...both('Labels', 'metadata.labels'),
    ...both('Finalizers', 'metadata.finalizers', '[]'),
    ...both('TemplateAnnotations', 'spec.template.metadata.annotations'),
    ...both('TemplateLabels', 'spec.template.metadata.labels'),
    ...both('ProviderID', 'spec.providerID', "''"),
    ...both('TemplateProviderID', 'spec.template.spec.providerID', "''"),
    { name: 'changed', expression: changed.join(' + ') },
  ];
}

const validation = {
  expression: 'variables.changed.size() == 0',
  messageExpression:
    "'only Millwright writes these fields of a ' + request.kind.kind + ': ' + variables.changed.join('; ') + " +
    "'. Leave them as they are. The user ' + request.userInfo.username + ' may write them if the value admissionPolicy.users of the chart has this name'",
  reason: 'Forbidden',
};
