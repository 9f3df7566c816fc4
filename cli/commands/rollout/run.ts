/** `millwright rollout`. Loads nothing of Temporal before an action that asks it. */
import { names } from '../../../api/names.ts';
import type { OwnerDeployment, OwnerSet, OwnerTemplate } from '../../../api/owner/objects.ts';
import { revisionOf } from '../../../api/owner/revision.ts';
import { templatesEqual, withoutHash } from '../../../api/owner/template.ts';
import { type JsonPatchOperation, jsonPatch, mergePatch } from '../../../kube/patch.ts';
import type { RawFlags } from '../../command.ts';
import { dialect } from '../../dialect.ts';
import { connectCluster } from '../../servers.ts';
import { say } from '../../terminal.ts';
import type { RolloutAction } from './actions.ts';
import { toHistory } from './history.ts';
import { status } from './status.ts';
import {
  commandLineOf,
  nameOf,
  ownSets,
  type RolloutOptions,
  type RolloutTarget,
  readDeployment,
  refuseDeleted,
} from './target.ts';

const { kinds } = dialect;

interface Action {
  /** Whether it changes the deployment. Deployments that are being deleted are not changed. */
  readonly isChange: boolean;
  /** Returns the text to print. */
  run(target: RolloutTarget, deployment: OwnerDeployment): Promise<string>;
}

const actions: Record<Exclude<RolloutAction, 'runs' | 'plan'>, Action> = {
  status: { isChange: false, run: status },
  history: {
    isChange: false,
    run: async (target, deployment) => toHistory(deployment, await setsOf(target, deployment)),
  },
  retry: {
    isChange: false,
    run: async (target, deployment) => (await import('./retry.ts')).retry(target, deployment),
  },
  pause: { isChange: true, run: (target, deployment) => setPaused(target, deployment, true) },
  resume: { isChange: true, run: (target, deployment) => setPaused(target, deployment, false) },
  undo: { isChange: true, run: undo },
  restart: { isChange: true, run: restart },
};

/** Runs an action and prints its result. Throws an Error that names the problem and the fix. */
export async function rollout(
  action: Exclude<RolloutAction, 'runs'>,
  name: string,
  options: RolloutOptions,
  rawFlags: RawFlags,
): Promise<void> {
  const control = await connectCluster('control', options, 'rollout');
  try {
    const target = { control, key: { namespace: options.namespace, name }, options, rawFlags };
    if (action === 'plan') return say(await (await import('./plan.ts')).plan(target));
    const deployment = await readDeployment(target);
    const { isChange, run } = actions[action];
    if (isChange) refuseDeleted(target, deployment);
    say(await run(target, deployment));
  } finally {
    await control.close();
  }
}

async function setsOf({ control, key }: RolloutTarget, deployment: OwnerDeployment): Promise<OwnerSet[]> {
  const { items } = await control.list(kinds.set, { namespace: key.namespace });
  return ownSets(deployment, items);
}

async function setPaused(target: RolloutTarget, { spec }: OwnerDeployment, paused: boolean): Promise<string> {
  const name = nameOf(target);
  if ((spec?.paused === true) === paused) {
    const [state, other] = paused ? (['already paused', 'resume'] as const) : (['not paused', 'pause'] as const);
    throw new Error(`${name} is ${state}; to ${other} it: ${commandLineOf(other, target)}`);
  }
  await target.control.patch(kinds.deployment, target.key, mergePatch({ spec: { paused } }));
  return `${name}: ${paused ? 'paused' : 'resumed'}`;
}

/** As kubectl does: a change that would have no effect before the deployment is resumed is refused. */
function refusePaused(target: RolloutTarget, { spec }: OwnerDeployment): void {
  if (spec?.paused !== true) return;
  throw new Error(`${nameOf(target)} is paused: resume it first with ${commandLineOf('resume', target)}`);
}

async function undo(target: RolloutTarget, deployment: OwnerDeployment): Promise<string> {
  refusePaused(target, deployment);
  const name = nameOf(target);
  const current = deployment.spec?.template;
  const sets = await setsOf(target, deployment);
  const { toRevision } = target.options;
  const set =
    toRevision === 0
      ? sets.findLast(({ spec }) => !templatesEqual(dialect, spec?.template, current))
      : sets.find((each) => revisionOf(dialect, each) === toRevision);
  if (set?.spec?.template === undefined) {
    const missing = toRevision === 0 ? 'revision with another template' : `revision ${toRevision}`;
    const known = sets.map((each) => revisionOf(dialect, each)).join(', ') || 'none';
    throw new Error(`${name} has no ${missing}; revisions: ${known}; see ${commandLineOf('history', target)}`);
  }
  const template = withoutHash(dialect, set.spec.template);
  if (templatesEqual(dialect, template, current)) {
    return `${name}: nothing to do, revision ${revisionOf(dialect, set)} has the current template`;
  }
  await replaceTemplate(target, deployment, template);
  return `${name}: rolled back to the template of revision ${revisionOf(dialect, set)}`;
}

/**
 * Replaces the template as a whole, unless the spec has changed since it was read. Changes of the status are no
 * conflict.
 */
async function replaceTemplate(
  target: RolloutTarget,
  { metadata }: OwnerDeployment,
  template: OwnerTemplate,
): Promise<void> {
  const operations: JsonPatchOperation[] = [
    { op: 'test', path: '/metadata/uid', value: metadata.uid },
    { op: 'test', path: '/metadata/generation', value: metadata.generation },
    { op: 'replace', path: '/spec/template', value: template },
  ];
  try {
    await target.control.patch(kinds.deployment, target.key, jsonPatch(operations));
  } catch (cause) {
    const now = await readDeployment(target);
    if (now.metadata.generation === metadata.generation && now.metadata.uid === metadata.uid) throw cause;
    throw new Error(`somebody else has just changed the spec of ${nameOf(target)}: check it and try again`, { cause });
  }
}

async function restart(target: RolloutTarget, deployment: OwnerDeployment): Promise<string> {
  refusePaused(target, deployment);
  const annotations = { [names.restartedAt]: new Date().toISOString() };
  const patch = mergePatch({ spec: { template: { metadata: { annotations } } } });
  await target.control.patch(kinds.deployment, target.key, patch);
  return `${nameOf(target)}: restarted, all machines will be replaced`;
}
