/** `millwright rollout`: reads and changes the objects, and signals workflows to retry. */
import { setTimeout as sleep } from 'node:timers/promises';
import { names } from '../../../api/names.ts';
import type { KubeObject } from '../../../api/objects.ts';
import { isActive, isAtWork } from '../../../api/owner/machines.ts';
import { toTasks } from '../../../api/owner/needs.ts';
import type { OwnerDeployment, OwnerSet, OwnerTemplate } from '../../../api/owner/objects.ts';
import { controllerOf, groupByController } from '../../../api/owner/ownership.ts';
import { revisionOf } from '../../../api/owner/revision.ts';
import { templatesEqual, withoutHash } from '../../../api/owner/template.ts';
import { type JsonPatchOperation, jsonPatch, mergePatch } from '../../../kube/patch.ts';
import { listRolloutRuns, type RolloutRun } from '../../../temporal/rollout-runs.ts';
import { type Installation, retryNow, signalEach } from '../../../temporal/workflows.ts';
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import { dialect } from '../../dialect.ts';
import { withInstallation } from '../../installation.ts';
import { rendered } from '../../output.ts';
import { readOwned, toDeploymentState } from '../../owner-state.ts';
import { connectCluster } from '../../servers.ts';
import { complain, say } from '../../terminal.ts';
import type { RolloutAction } from './actions.ts';
import { toHistory } from './history.ts';
import { assumptions, planLive, planManifest, planText } from './plan.ts';
import { runsText } from './runs.ts';
import { status } from './status.ts';
import {
  commandLineOf,
  nameOf,
  type RolloutOptions,
  type RolloutTarget,
  readDeployment,
  refOf,
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
  retry: { isChange: false, run: retry },
  pause: { isChange: true, run: (target, deployment) => setPaused(target, deployment, true) },
  resume: { isChange: true, run: (target, deployment) => setPaused(target, deployment, false) },
  undo: { isChange: true, run: undo },
  restart: { isChange: true, run: restart },
};

/** Runs an action and prints its result. Throws an Error that names the problem and the fix. */
export async function rollout(
  action: RolloutAction,
  name: string,
  options: RolloutOptions,
  rawFlags: RawFlags,
): Promise<void> {
  const control = await connectCluster('control', options, 'rollout');
  try {
    const target = { control, key: { namespace: options.namespace, name }, options, rawFlags };
    if (action === 'runs') return say(await runs(target));
    if (action === 'plan') return say(await plan(target));
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

/** Of deployments that are deleted, too: they have left runs. */
async function runs({ key, options, rawFlags }: RolloutTarget): Promise<string> {
  const found = await withInstallation(options, (to) => listRolloutRuns(to, key));
  const replay = ({ workflowId, runId }: RolloutRun) =>
    commandLine(['replay', workflowId, runId], key.namespace, rawFlags);
  return rendered(found, options, () => runsText(found, replay));
}

async function plan(target: RolloutTarget): Promise<string> {
  const { control, options } = target;
  const { filename, namespace } = options;
  const planned =
    filename === undefined
      ? [await planLive(control, await readDeployment(target))]
      : await planManifest(control, filename, namespace);
  return rendered({ assumptions, deployments: planned }, options, () => planned.map(planText).join('\n\n'));
}

/** By revision, the oldest first. */
function ownSets({ metadata }: OwnerDeployment, sets: readonly OwnerSet[]): OwnerSet[] {
  return sets
    .filter((set) => controllerOf(set) === metadata.uid)
    .toSorted((a, b) => revisionOf(dialect, a) - revisionOf(dialect, b));
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

/** How long the controllers may take to see a change and to start the workflow that it needs, ms. */
const startMs = 10_000;
/** Pause between two looks at the objects meanwhile, ms. */
const lookMs = 500;

/**
 * Waits for the controllers if a workflow is needed and neither that of the deployment nor one of its machines is open:
 * the deployment may have changed just now.
 */
async function retry(target: RolloutTarget, deployment: OwnerDeployment): Promise<string> {
  return withInstallation(target.options, async (to) => {
    const name = nameOf(target);
    let sent = await sendRetry(to, target, deployment);
    const deadline = Date.now() + startMs;
    if (sent.missing !== undefined) complain(`${name}: waiting for the controllers to start its workflow`);
    while (sent.missing !== undefined) {
      if (Date.now() >= deadline) {
        const fix = 'start the controllers, or correct --installation';
        throw new Error(`installation '${to.name}' has no open workflow for ${name}${sent.missing}: ${fix}`);
      }
      await sleep(lookMs);
      sent = await sendRetry(to, target, await readDeployment(target));
    }
    return `${name}: ${sent.to === '' ? 'nothing to retry' : `signalled ${sent.to} to retry now`}`;
  });
}

interface SentRetry {
  /** Whose workflows got the signal; empty: none was open. */
  readonly to: string;
  /** What needs a workflow though none is open, to follow the name of the deployment in a sentence. */
  readonly missing: string | undefined;
}

/** Signals the workflows of the deployment and of each machine that is not available or is being deleted. */
async function sendRetry(to: Installation, target: RolloutTarget, deployment: OwnerDeployment): Promise<SentRetry> {
  const owned = await readOwned(target.control, target.key.namespace);
  const bySet = groupByController(owned.machines);
  const unavailable = ownSets(deployment, owned.sets)
    .flatMap((set) => bySet.get(set.metadata.uid) ?? [])
    .filter((machine) => !isActive(dialect, machine) || !isAtWork(dialect, machine));
  const isOpen = await retryNow(to, 'MachineDeployment', refOf(target, deployment));
  const nameOfMachine = ({ metadata }: KubeObject) => metadata.name;
  const { length: signalled } = await signalEach(unavailable, nameOfMachine, (machine) =>
    retryNow(to, 'Machine', refOf(target, machine)),
  );
  const { needs } = toDeploymentState(deployment, owned);
  const isMissing = signalled === 0 && !isOpen && (needs.length > 0 || unavailable.length > 0);
  const them = unavailable.length > 0 ? ` or for its ${count(unavailable.length)} that are not available` : '';
  const todo = needs.length > 0 ? `; to do: ${toTasks(needs)}` : '';
  return {
    to: [...(isOpen ? ['the rollout'] : []), ...(signalled > 0 ? [count(signalled)] : [])].join(' and '),
    missing: isMissing ? `${them}${todo}` : undefined,
  };
}

function count(number: number): string {
  return number === 1 ? '1 machine' : `${number} machines`;
}
