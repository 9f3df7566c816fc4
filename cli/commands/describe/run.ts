/** `millwright describe`: what the workflow of an object answers, and what the object itself says. */
import type { WorkflowKind } from '../../../api/workflow-id.ts';
import { findMissingProcesses } from '../../../temporal/clusters.ts';
import { describeWorkflow, openOnly } from '../../../temporal/describe.ts';
import type { MachineDescription } from '../../../workflows/machine/messages.ts';
import type { OwnerDescription } from '../../../workflows/rollout/messages.ts';
import type { RawFlags } from '../../command.ts';
import type { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { connectCluster } from '../../servers.ts';
import { type Answer, describeObject } from './object.ts';
import { toText } from './rows.ts';

type DescribeOptions = Options<
  'namespace' | 'installation' | 'output' | (typeof clusterFlags)[number] | (typeof temporalFlags)[number]
>;

/**
 * The output of `millwright describe`. Throws an Error when the object does not exist or its cluster does not answer.
 */
export async function describe(
  kind: WorkflowKind,
  name: string,
  options: DescribeOptions,
  rawFlags: RawFlags,
): Promise<string> {
  const { namespace, installation = namespace } = options;
  const control = await connectCluster('control', options, 'describe');
  try {
    const ask = (id: string) => askWorkflow(id, options);
    const described = await describeObject(kind, { namespace, name }, { control, installation, ask, rawFlags });
    if (described !== undefined) return rendered(described.facts, options, () => toText(described.rows));
  } finally {
    await control.close();
  }
  throw new Error(
    `${kind} ${namespace}/${name} does not exist in the control cluster: correct the name or --namespace`,
  );
}

async function askWorkflow(id: string, options: DescribeOptions): Promise<Answer> {
  try {
    return await withInstallation(options, async ({ client, name: installation }, { namespace }) => {
      const answer = await describeWorkflow<MachineDescription | OwnerDescription>(openOnly(client), id);
      if (answer.state !== 'none') return answer;
      const missing = await findMissingProcesses(client.connection, { namespace, installation });
      return missing.includes('controllers') ? { state: 'none', lacksControllers: true } : answer;
    });
  } catch (error) {
    return { state: 'unreachable', reason: error instanceof Error ? error.message : String(error) };
  }
}
