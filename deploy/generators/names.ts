/** docs/reference/names.md: labels, annotations, taints and finalizers, from the tables of names and their comments. */
import * as gardener from '../../api/gardener/names.ts';
import { names } from '../../api/names.ts';
import { docCommentsIn, splitComment } from './comments.ts';

/** Content of docs/reference/names.md. */
export function namesDoc(): string {
  const { annotations, labels, taints, finalizers } = gardener;
  const keys = Object.fromEntries(
    Object.entries(taints).map(([name, taint]) => [name, `${taint.key}:${taint.effect}`]),
  );
  return `<!-- Made from api/names.ts and api/gardener/names.ts by \`npm run generate\`. Do not edit. -->
# Labels, annotations, taints and finalizers

Names that begin with \`millwright.dev/\` are Millwright's own. All others are those of machine-controller-manager, with the same meaning.

## Of Millwright

Annotations, where nothing else is said.

${table(names, 'api/names.ts', 'export const names')}

## Annotations

${table(annotations, 'api/gardener/names.ts', 'export const annotations')}

## Labels

${table(labels, 'api/gardener/names.ts', 'export const labels')}

## Taints

${table(keys, 'api/gardener/names.ts', 'export const taints')}

## Finalizers

${table(finalizers, 'api/gardener/names.ts', 'export const finalizers')}
`;
}

function table(values: Readonly<Record<string, string>>, file: string, from: string): string {
  const comments = docCommentsIn(file, from);
  const rows = Object.entries(values).map(([name, value]) => {
    const { meaning, by } = splitComment(comments, name, 'Written by');
    return `| \`${value}\` | ${meaning.replaceAll('|', '\\|')} | ${by} |`;
  });
  return ['| name | on which object, and what it means | written by |', '|---|---|---|', ...rows].join('\n');
}
