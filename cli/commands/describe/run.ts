/** `millwright describe`: what the workflow of an object answers, and what the object itself says. */
import type { WorkflowKind } from '../../../api/workflow-id.ts';
import { findMissingProcesses } from '../../../temporal/clusters.ts';
import { describeWorkflow, openOnly } from '../../../temporal/describe.ts';
import type { MachineDescription } from '../../../workflows/machine/messages.ts';
import type { OwnerDescription } from '../../../workflows/rollout/messages.ts';
import type { RawFlags } from '../../command.ts';
import { pastText } from '../../command-line.ts';
import type { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import { openInstallation } from '../../installation.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { connectCluster } from '../../servers.ts';
import { type Answer, type Description, describeObject } from './object.ts';
import { toText } from './rows.ts';

type DescribeOptions = Options<
  'namespace' | 'installation' | 'output' | (typeof clusterFlags)[number] | (typeof temporalFlags)[number]
>;

/** What is known of the objects that exist, '' without any; and a sentence that names the others, if there are some. */
export interface Descriptions {
  readonly text: string;
  readonly notFound?: string;
}

/** The output of `millwright describe`: of several names a list. Throws an Error when the cluster does not answer. */
export async function describe(
  kind: WorkflowKind,
  names: readonly string[],
  options: DescribeOptions,
  rawFlags: RawFlags,
): Promise<Descriptions> {
  const { namespace, installation = namespace } = options;
  const control = await connectCluster('control', options, 'describe');
  const opening = openInstallation(options);
  opening.catch(() => undefined); // said for each name
  try {
    const ask = async (id: string) => askWorkflow(id, opening);
    const causeOf = async (id: string, key: { namespace: string; name: string }) => findCause(id, key, opening);
    const source = { control, installation, ask, causeOf, rawFlags };
    const described: Description[] = [];
    const missing: string[] = [];
    for (const name of names) {
      const found = await describeObject(kind, { namespace, name }, source);
      if (found === undefined) missing.push(name);
      else described.push(found);
    }
    const facts = described.map((each) => each.facts);
    const text = () => described.map(({ rows }) => toText(rows)).join('\n\n');
    const past = pastText(kind, missing, namespace, rawFlags);
    const doNotExist = `${missing.length === 1 ? 'does' : 'do'} not exist in the control cluster`;
    return {
      text: described.length === 0 ? '' : rendered(names.length === 1 ? facts[0] : facts, options, text),
      ...(missing.length > 0 && {
        notFound: `${kind} ${missing.map((name) => `${namespace}/${name}`).join(', ')} ${doNotExist}: correct the name or --namespace${past}`,
      }),
    };
  } finally {
    await control.close();
    void opening.then(({ close }) => close()).catch(() => undefined); // a server that does not answer delays nothing
  }
}

type Opening = ReturnType<typeof openInstallation>;

async function askWorkflow(id: string, opening: Opening): Promise<Answer> {
  try {
    const {
      installation: { client, name: installation },
      server: { namespace },
    } = await opening;
    const answer = await describeWorkflow<MachineDescription | OwnerDescription>(openOnly(client), id);
    if (answer.state !== 'none') return answer;
    const missing = await findMissingProcesses(client.connection, { namespace, installation });
    return missing.includes('controllers') ? { state: 'none', lacksControllers: true } : answer;
  } catch (error) {
    return { state: 'unreachable', reason: error instanceof Error ? error.message : String(error) };
  }
}

/** What is read for the cause of a deletion: of a machine that has had more runs, the newest. */
const limits = { maxRuns: 20, timeoutMs: 5_000 };

/** As `timeline` says it; undefined: it is not known. */
async function findCause(
  workflowId: string,
  key: { readonly namespace: string; readonly name: string },
  opening: Opening,
): Promise<string | undefined> {
  try {
    const { installation } = await opening;
    const { readTimeline } = await import('../../../temporal/read-timeline.ts');
    const found = await readTimeline(installation, key, limits);
    if (found?.workflowId !== workflowId) return undefined;
    return found.steps.find(({ cause }) => cause !== undefined)?.cause;
  } catch {
    return undefined;
  }
}
