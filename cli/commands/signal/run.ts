/** `millwright retry` and `millwright drain`: signals to the workflows of machines. */
import type { Client, SignalDefinition } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Blocker } from '../../../api/names.ts';
import type { KubeObject } from '../../../api/objects.ts';
import { workflowIdPrefix } from '../../../api/workflow-id.ts';
import { type BlockedWorkflow, listBlocked } from '../../../temporal/blocked.ts';
import { type Installation, signalEach } from '../../../temporal/workflows.ts';
import { forceDeletionSignal, skipDrainSignal } from '../../../workflows/machine/messages.ts';
import { retryNowSignal } from '../../../workflows/messages.ts';
import type { RawFlags } from '../../command.ts';
import { pastText } from '../../command-line.ts';
import { dialect } from '../../dialect.ts';
import type { clusterFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import { missingProcessesText } from '../../missing-processes.ts';
import type { Options } from '../../options.ts';
import { complain, say } from '../../terminal.ts';

type SignalOptions = Options<'namespace' | 'installation' | (typeof temporalFlags)[number]>;
type ClusterOptions = Options<(typeof clusterFlags)[number]>;

/**
 * Signals the named machines, and everything with the blocker. Throws an Error that lists machines that are not open,
 * or what could not be signalled, and where the namespace of what is blocked does not exist.
 */
export async function retry(
  names: readonly string[],
  options: SignalOptions & ClusterOptions & { readonly blockedOn?: Blocker | undefined },
  rawFlags: RawFlags,
): Promise<void> {
  const { blockedOn } = options;
  await withInstallation(options, async (installation) => {
    if (blockedOn !== undefined) {
      const missing = await missingProcessesText(installation, options, 'retry');
      if (missing !== undefined) complain(missing);
      const blocked = (await listBlocked(installation)).filter((each) => each.blockedOn === blockedOn);
      const idOf = ({ workflowId }: BlockedWorkflow) => workflowId;
      const { length: count } = await signalEach(blocked, idOf, ({ workflowId }) =>
        signalOpen(installation.client, workflowId, retryNowSignal),
      );
      say(`signalled ${count} ${count === 1 ? 'workflow' : 'workflows'} blocked on ${blockedOn}`);
    }
    await signalMachines(
      installation,
      { names, options, rawFlags, command: 'retry' },
      retryNowSignal,
      'it tries again now',
    );
  });
}

/**
 * Signals a machine that is being deleted, as far as its cluster answers. Throws an Error when it is not, or its
 * workflow is not open.
 */
export async function drain(
  name: string,
  how: 'force' | 'skip',
  options: SignalOptions & ClusterOptions,
  rawFlags: RawFlags,
): Promise<void> {
  const machine = (await readMachines([name], options, 'drain'))?.get(name);
  const isDeleting = machine && machine.metadata.deletionTimestamp !== undefined;
  if (isDeleting === false) {
    throw new Error(
      `machine ${options.namespace}/${name} is not being deleted, so nothing was done: delete it first, or correct the name or --namespace`,
    );
  }
  const ifSo = isDeleting === undefined ? ', if it is being deleted' : '';
  const [signal, effect] = {
    force: [forceDeletionSignal, `its pods are deleted without a grace period${ifSo}`] as const,
    skip: [skipDrainSignal, `its VM is deleted with the pods on it${ifSo}`] as const,
  }[how];
  await withInstallation(options, (installation) =>
    signalMachines(installation, { names: [name], options, rawFlags, command: 'drain' }, signal, effect),
  );
}

/** Machines by name, undefined for one that does not exist; undefined where their cluster does not answer. */
async function readMachines(
  names: readonly string[],
  options: SignalOptions & ClusterOptions,
  command: string,
): Promise<ReadonlyMap<string, KubeObject | undefined> | undefined> {
  try {
    const { connectCluster } = await import('../../servers.ts');
    const control = await connectCluster('control', options, command);
    try {
      const { namespace } = options;
      const find = (name: string) => control.find(dialect.kinds.machine, { namespace, name }, { failFast: true });
      return new Map(await Promise.all(names.map(async (name) => [name, await find(name)] as const)));
    } finally {
      await control.close();
    }
  } catch {
    return undefined;
  }
}

type Signal = SignalDefinition<[by?: string]>;

/** Machines as a command line names them. */
interface NamedMachines {
  readonly names: readonly string[];
  readonly options: SignalOptions & ClusterOptions;
  readonly rawFlags: RawFlags;
  readonly command: string;
}

async function signalMachines(
  installation: Installation,
  { names, options, rawFlags, command }: NamedMachines,
  signal: Signal,
  effect: string,
): Promise<void> {
  const { namespace } = options;
  const nameOf = (name: string) => name;
  const signalled = await signalEach(names, nameOf, async (name) => {
    const id = await findOpen(installation, namespace, name);
    const isOpen = id !== undefined && (await signalOpen(installation.client, id, signal));
    if (isOpen) say(`machine ${namespace}/${name}: ${effect}`);
    return isOpen;
  });
  const missing = names.filter((name) => !signalled.includes(name));
  if (missing.length === 0) return;
  const read = await readMachines(missing, options, command);
  const absent = missing.filter((name) => read !== undefined && read.get(name) === undefined);
  const others = missing.filter((name) => !absent.includes(name));
  const past = (of: readonly string[]) => pastText('Machine', of, namespace, rawFlags);
  const problems: string[] = [];
  if (absent.length > 0) {
    const what = `machine ${absent.map((name) => `${namespace}/${name}`).join(', ')}`;
    const doNotExist = `${absent.length === 1 ? 'does' : 'do'} not exist in the control cluster`;
    problems.push(`${what} ${doNotExist}: correct the name or --namespace${past(absent)}`);
  }
  if (others.length > 0) {
    const what = others.length === 1 ? 'no open workflow for machine' : 'no open workflows for machines';
    const fix = 'they wait for nothing, or correct the name, --namespace or --installation';
    problems.push(`installation '${installation.name}' has ${what} ${others.join(', ')}: ${fix}${past(others)}`);
  }
  throw new Error(problems.join('\n'));
}

/** Id of the open workflow of a machine. */
async function findOpen({ client, name: installation }: Installation, namespace: string, name: string) {
  const prefix = workflowIdPrefix(installation, 'Machine', { namespace, name });
  const query = `WorkflowId STARTS_WITH '${prefix}' AND ExecutionStatus = 'Running'`;
  for await (const { workflowId } of client.workflow.list({ query })) return workflowId;
  return undefined;
}

/** Whether the workflow was open. */
async function signalOpen(client: Client, id: string, signal: Signal): Promise<boolean> {
  try {
    await client.workflow.getHandle(id).signal(signal, client.options.identity);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
