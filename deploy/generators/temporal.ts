/** docs/reference/temporal.md: what an operator sees of Millwright in Temporal, from the code that makes it. */
import { globSync, readFileSync } from 'node:fs';
import { drainTaskQueue, providerTaskQueue, searchAttributes } from '../../api/names.ts';
import { limitsWorkflowId, workflowId } from '../../api/workflow-id.ts';
import { interruptionScheduleId, sweepIdFor, sweepScheduleId } from '../../temporal/schedules.ts';
import { sourceCheckId, tagUpdateId } from '../../temporal/workflows.ts';
import type * as workflows from '../../workflows/index.ts';
import { docCommentsIn, splitComment } from './comments.ts';
import { root } from './root.ts';

const installation = '<installation>';
const namespace = '<namespace>';
const ref = { dialect: '', namespace, name: '<name>', uid: '<uid>' };

const ids: Readonly<Record<keyof typeof workflows, readonly string[]>> = {
  machine: [workflowId(installation, 'Machine', ref)],
  rollout: [workflowId(installation, 'MachineDeployment', ref)],
  machineSet: [workflowId(installation, 'MachineSet', ref)],
  machineLimits: [limitsWorkflowId(installation, namespace)],
  sourceCheck: [sourceCheckId(installation, ref, '<version>')],
  tagUpdate: [tagUpdateId(installation, ref)],
  orphanSweep: [
    `${sweepScheduleId(installation)}-<time>`,
    ...(['now', 'dry-run', 'sources'] as const).map((turn) => sweepIdFor(installation, turn)),
  ],
  interruptionCheck: [`${interruptionScheduleId(installation)}-<time>`],
};

/** Content of docs/reference/temporal.md. */
export function temporalDoc(): string {
  const types = workflowTypes();
  return `<!-- Made from workflows/, temporal/ and api/names.ts by \`npm run generate\`. Do not edit. -->
# Workflows, messages and search attributes

## Workflows

\`<name>\` is that of the Machine, MachineSet, MachineDeployment or MachineClass. The Schedules \`${sweepScheduleId(installation)}\` and
\`${interruptionScheduleId(installation)}\` start the workflows whose ids end with a time.

| type | id | what it does |
|---|---|---|
${types
  .map(({ type, meaning }) => `| \`${type}\` | ${ids[type].map((id) => `\`${id}\``).join(', ')} | ${meaning} |`)
  .join('\n')}

## Signals, updates and queries

\`temporal workflow signal --workflow-id <id> --name <name>\` sends a signal, and \`temporal workflow query --workflow-id <id> --type
<name>\` a query.

| name | kind | workflows | effect, or what a query answers | sent by |
|---|---|---|---|---|
${messageRows(types).join('\n')}

## Search attributes

All are of type Keyword.

| search attribute | value |
|---|---|
${searchAttributeRows().join('\n')}

## Task queues

| task queue | for |
|---|---|
| \`${installation}\` | workflows, and the activities that call Kubernetes |
| \`${drainTaskQueue(installation)}\` | drains |
| \`${providerTaskQueue(installation, '<provider>')}\` | the activities that call the cloud of a provider |
`;
}

type WorkflowType = { readonly type: keyof typeof ids; readonly folder: string; readonly meaning: string };

/** As workflows/index.ts exports them: Temporal knows them by these names. */
function workflowTypes(): WorkflowType[] {
  const exports = readFileSync(`${root}workflows/index.ts`, 'utf8').matchAll(
    /export \{ (.+) \} from '\.\/((\w+)\/.+)'/g,
  );
  return [...exports].flatMap(([, exported = '', file = '', folder = '']) => {
    const comments = docCommentsIn(`workflows/${file}`);
    return exported.split(', ').map((type) => {
      const meaning = /^Workflow type `\w+`\. (.+)$/.exec(comments.get(type) ?? '')?.[1];
      if (meaning === undefined) throw new Error(`${type}: expected a doc comment that begins with its workflow type`);
      return { type: type as keyof typeof ids, folder, meaning };
    });
  });
}

/** A message belongs to the workflows of the folders that set a handler for it. */
function messageRows(types: readonly WorkflowType[]): string[] {
  const handlers = globSync('workflows/*/**/*.ts', { cwd: root })
    .filter((file) => !file.endsWith('.test.ts'))
    .map((file) => ({ folder: file.split('/')[1] ?? '', source: readFileSync(`${root}${file}`, 'utf8') }));
  const defined = globSync('workflows/**/messages.ts', { cwd: root })
    .toSorted()
    .flatMap((file) => {
      const source = readFileSync(`${root}${file}`, 'utf8');
      const found = source.matchAll(/export const (\w+) = define(Signal|Update|Query)\b.*\('(\w+)'\)/g);
      const folder = /^workflows\/(\w+)\//.exec(file)?.[1];
      return [...found].map(([, variable = '', kind = '', name = '']) => ({ file, folder, variable, kind, name }));
    });
  return defined.map(({ file, folder: own, variable, kind, name }) => {
    const isHandled = new RegExp(`setHandler\\(\\s*${variable}\\b`);
    const isOwn = (folder: string) => defined.some((other) => other.folder === folder && other.variable === variable);
    const folders = handlers
      .filter(({ folder, source }) => isHandled.test(source) && (own === undefined ? !isOwn(folder) : own === folder))
      .map(({ folder }) => folder);
    const takers = types.filter(({ folder }) => folders.includes(folder)).map(({ type }) => `\`${type}\``);
    if (takers.length === 0) throw new Error(`${variable} of ${file}: expected a workflow with a handler for it`);
    const { meaning, by } = splitComment(docCommentsIn(file), variable, 'Sent by');
    return `| \`${name}\` | ${kind.toLowerCase()} | ${takers.join(', ')} | ${meaning} | ${by} |`;
  });
}

function searchAttributeRows(): string[] {
  const comments = docCommentsIn('api/names.ts', 'export const searchAttributes');
  return Object.entries(searchAttributes).map(([key, name]) => `| \`${name}\` | ${comments.get(key)} |`);
}
