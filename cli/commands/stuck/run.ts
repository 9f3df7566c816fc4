/** `millwright stuck`: what is blocked, by cause. One list of Temporal, and some questions for each cause. */

import type { Client } from '@temporalio/client';
import { blockers } from '../../../api/names.ts';
import { type BlockedWorkflow, listBlocked } from '../../../temporal/blocked.ts';
import { reasonOf } from '../../../temporal/connection.ts';
import { describeWorkflow, openOnly } from '../../../temporal/describe.ts';
import { askProgress, sweepType } from '../../../temporal/schedules.ts';
import { findTaskFailure } from '../../../temporal/task-failure.ts';
import type { Held } from '../../../workflows/orphansweep/messages.ts';
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import type { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import { missingProcessesText } from '../../missing-processes.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { complain } from '../../terminal.ts';
import { approvalText } from '../sweep/report.ts';
import {
  type Cause,
  causesText,
  type Example,
  groupByCause,
  isRetriedTogether,
  longestFirst,
  maxNames,
  type TaskFailures,
  taskRemedy,
  toExample,
  toSweepExample,
} from './causes.ts';

type StuckOptions = Options<
  'namespace' | 'installation' | 'output' | (typeof clusterFlags)[number] | (typeof temporalFlags)[number]
>;

/**
 * The output of the command. Says on standard error which processes are missing. Throws an Error where the namespace
 * is, and where processes are and nothing is listed: that is no all-clear.
 */
export async function stuck(options: StuckOptions, rawFlags: RawFlags): Promise<string> {
  return withInstallation(options, async (installation) => {
    const openOnes = openOnly(installation.client);
    const [missing, blocked] = await Promise.all([
      missingProcessesText(installation, options, 'stuck'),
      listBlocked(installation),
    ]);
    const failures = await readTaskFailures(openOnes, blocked);
    const groups = groupByCause(blocked, failures);
    if (missing !== undefined) {
      const note = `${missing}. What nobody works on is not listed`;
      if (groups.length === 0) throw new Error(`${note}, so whether something is stuck is not known`);
      complain(`${note}.`);
    }
    const approvalOf = (held: Held) => approvalText(held, options.namespace, rawFlags);
    const causes: Cause[] = await Promise.all(
      groups.map(async (group) => {
        const isOwn = group.blockedOn === 'OwnerSpec';
        const asked = group.blocked.slice(0, isOwn ? maxNames : mostAsked);
        const own = await Promise.all(asked.map((each) => ask(openOnes, each, failures, approvalOf).catch(toSilence)));
        const retry = commandLine(['retry', '--blocked-on', group.blockedOn], options.namespace, rawFlags);
        return {
          ...(isOwn ? { ...group, longest: own[0] ?? {}, own } : longestFirst(group, own)),
          meaning: blockers[group.blockedOn],
          ...(isRetriedTogether(group) && { retry }),
        };
      }),
    );
    return rendered(causes, options, () => causesText(causes, options.namespace));
  });
}

/** Most workflows of a cause that are asked since when they wait: those whose runs are the oldest. */
const mostAsked = 10;

/** Most workflows whose failed tasks are read: after a mistake in the code each workflow may have some. */
const mostRead = 100;

/** Of those that wait longest, and without those that cannot be read. */
async function readTaskFailures(client: Client, blocked: readonly BlockedWorkflow[]): Promise<TaskFailures> {
  const failing = blocked.filter(({ blockedOn }) => blockedOn === 'WorkflowTask').slice(0, mostRead);
  const read = await Promise.all(
    failing.map(async ({ workflowId }) => {
      const failure = await findTaskFailure(client, { workflowId }).catch(() => undefined);
      return failure === undefined ? [] : [[workflowId, failure] as const];
    }),
  );
  return new Map(read.flat());
}

/** What the workflow says itself. @param approvalOf what to do about the orphans of a sweep */
async function ask(
  client: Client,
  workflow: BlockedWorkflow,
  failures: TaskFailures,
  approvalOf: (held: Held) => string,
): Promise<Example> {
  const { workflowId, type, blockedOn } = workflow;
  if (blockedOn === 'WorkflowTask') {
    const failure = failures.get(workflowId) ?? (await findTaskFailure(client, { workflowId }));
    return { ...failure, unblock: taskRemedy(workflow, failure?.problem) };
  }
  if (type === sweepType) {
    const progress = await askProgress(client, workflowId);
    return progress === undefined ? toSilence('no worker answered in time') : toSweepExample(progress, approvalOf);
  }
  const answer = await describeWorkflow(client, workflowId);
  if (answer.state === 'silent') return toSilence(answer.reason);
  if (answer.state === 'none') return {};
  return toExample(answer.description);
}

/** One workflow that cannot be asked hides none of the others. */
function toSilence(reason: unknown): Example {
  return { problem: `it does not answer: ${reasonOf(reason)}` };
}
