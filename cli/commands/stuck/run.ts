/** `millwright stuck`: what is blocked, by cause. One list of Temporal, and one question for each cause. */

import type { Client } from '@temporalio/client';
import { blockers } from '../../../api/names.ts';
import { type BlockedWorkflow, listBlocked } from '../../../temporal/blocked.ts';
import { lacksKey } from '../../../temporal/codec.ts';
import { reasonOf } from '../../../temporal/connection.ts';
import { describeWorkflow, openOnly } from '../../../temporal/describe.ts';
import { askProgress, sweepType } from '../../../temporal/schedules.ts';
import { findTaskFailure, isDisagreement } from '../../../temporal/task-failure.ts';
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import type { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import { missingProcessesText } from '../../missing-processes.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { complain } from '../../terminal.ts';
import {
  type Cause,
  causesText,
  type Example,
  groupByCause,
  isRetriedTogether,
  maxNames,
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
    const missing = await missingProcessesText(installation, options, 'stuck');
    const groups = groupByCause(await listBlocked(installation));
    if (missing !== undefined) {
      const note = `${missing}. What nobody works on is not listed`;
      if (groups.length === 0) throw new Error(`${note}, so whether something is stuck is not known`);
      complain(`${note}.`);
    }
    const approval = commandLine(['sweep', 'approve', '<id>...'], options.namespace, rawFlags);
    const causes: Cause[] = await Promise.all(
      groups.map(async (group) => {
        const isOwn = group.blockedOn === 'OwnerSpec';
        const asked = isOwn ? group.blocked.slice(0, maxNames) : [group.blocked[0]];
        const own = await Promise.all(asked.map((each) => ask(openOnes, each, approval).catch(toSilence)));
        const [longest = {}] = own;
        const retry = commandLine(['retry', '--blocked-on', group.blockedOn], options.namespace, rawFlags);
        return {
          ...group,
          meaning: blockers[group.blockedOn],
          longest,
          ...(isOwn && { own }),
          ...(isRetriedTogether(group) && { retry }),
        };
      }),
    );
    return rendered(causes, options, () => causesText(causes, options.namespace));
  });
}

const anotherVersion =
  'Install a version of Millwright that corrects it, or the one before. A workflow may also be terminated: the controllers start it again within a minute, and it finds out how far it was.';

const theKey =
  'Give the workers the key: add its file to the folder of their --temporal-codec-keys. They go on by themselves.';

const nothing =
  'Nothing has to be done: its history and its code disagree, so the controllers end this run within some minutes, and a new run finds out how far it was. After a failure of that one the pauses grow.';

/** What the workflow says itself. @param approval command line that approves the orphans of a sweep */
async function ask(
  client: Client,
  { workflowId, type, blockedOn, isBroken }: BlockedWorkflow,
  approval: string,
): Promise<Example> {
  if (blockedOn === 'WorkflowTask') {
    const failure = await findTaskFailure(client, { workflowId });
    const isEnded = isBroken || (failure !== undefined && isDisagreement(failure.problem));
    if (isEnded) return { ...failure, unblock: nothing };
    return { ...failure, unblock: failure?.problem.includes(lacksKey) ? theKey : anotherVersion };
  }
  if (type === sweepType) {
    const progress = await askProgress(client, workflowId);
    return progress === undefined ? toSilence('no worker answered in time') : toSweepExample(progress, approval);
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
