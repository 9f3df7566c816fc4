/** For tests of the orphan sweep: VMs that nobody has asked for, and the command. */
import { createVm } from '../../activities/providers/simulated/client.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import { workflowId } from '../../api/workflow-id.ts';
import type { SweepReport } from '../../workflows/orphansweep/messages.ts';
import { fromSetup, type Installation, plainSecret } from './installation.ts';
import { type Process, startProcess } from './millwright.ts';
import { until } from './until.ts';

/** Flags of an installation whose sweeps judge quickly. */
export const quickSweeps = ['--orphan-confirm-after', '1s', '--orphan-minimum-age', '1s'];

interface VmOptions {
  readonly uid?: string;
  readonly tags?: Record<string, string>;
  /** Tags of its disk, NIC and address, without the UID. Default: with a UID those of the VM, else none. */
  readonly partTags?: Record<string, string>;
  /** Whether it registers a Node: then a sweep holds it. */
  readonly joins?: boolean;
}

/**
 * Makes a VM behind Millwright's back, with the tags of the installation unless others are given. What comes with it
 * is tagged only if it has a `uid`.
 * @returns its provider ID
 */
export async function makeVm(
  { cloud, namespace }: Installation,
  name: string,
  {
    uid,
    tags = { cluster: namespace },
    partTags = uid === undefined ? undefined : tags,
    joins = false,
  }: VmOptions = {},
): Promise<string> {
  const ofMachine = uid === undefined ? {} : { [names.machineUid]: uid };
  const body = {
    ...{ token: `of-${name}`, name, region: 'here', machineType: 'small' as const, userData: 'none' },
    ...{ tags: { ...tags, ...ofMachine }, partTags: partTags && { ...partTags, ...ofMachine } },
    node: joins ? { labels: {}, taints: [] } : null,
  };
  const vm = await createVm({ endpoint: cloud.url, token: plainSecret.token }, body, AbortSignal.timeout(10_000));
  return `simulated:///here/${vm.id}`;
}

/**
 * Deletes a Machine through Millwright, and waits until Temporal lists that. Whatever has its UID then is a certain
 * orphan.
 */
export async function deleteMachine(millwright: Installation, ref: ObjectRef): Promise<void> {
  const { namespace, temporal } = millwright;
  await millwright.remove(ref);
  const query = `WorkflowId = '${workflowId(namespace, 'Machine', ref)}' AND MillwrightPhase = 'Terminating'`;
  await until('its workflow is listed as that of a deleted Machine', async (see) => {
    return see(await temporal.workflow.count(`${query} AND ExecutionStatus = 'Completed'`)).count === 1;
  });
}

/** Waits until a sweep with `quickSweeps` would judge every VM. */
export async function untilOld({ cloud }: Installation): Promise<void> {
  await until('all VMs are older than the minimum age', async (see) =>
    see(await cloud.vms()).every(({ createdAt }) => Date.now() - Date.parse(createdAt) > 1_500),
  );
}

/** Starts `millwright sweep`. */
export function startSweep({ namespace }: Installation, ...more: string[]): Process {
  const address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
  return startProcess(['sweep', '-n', namespace, '--temporal-address', address, ...more]);
}

/** Runs `millwright sweep` to its end. */
export async function sweep(
  millwright: Installation,
  ...flags: string[]
): Promise<{ code: number | null; output: string; report: SweepReport }> {
  const { report, ...command } = await runSweep(millwright, flags);
  if (report === undefined) throw new Error(`there is no report in\n${command.output}`);
  return { ...command, report };
}

/** `millwright sweep`, which waits at the brake: its exit code and what it has said. */
export async function heldSweep(
  millwright: Installation,
  ...more: string[]
): Promise<{ code: number | null; output: string }> {
  const command = startSweep(millwright, ...more);
  const { code } = await command.exited;
  return { code, output: command.logs() };
}

/** Runs `millwright sweep approve` to its end. */
export function approve(millwright: Installation, ...vms: string[]) {
  // A worker has 5 s to say whether a sweep waits: one that is late is asked again.
  return until('the workers answer', async (see) => {
    const command = await runSweep(millwright, ['approve', ...vms]);
    return see(command.output).includes('as far as its workers answer') ? undefined : command;
  });
}

async function runSweep(millwright: Installation, more: readonly string[]) {
  const command = startSweep(millwright, '-o', 'json', ...more);
  const { code } = await command.exited;
  const output = command.logs();
  const [json] = /^\{[^]*?^\}/m.exec(output) ?? [];
  const report: SweepReport | undefined = json === undefined ? undefined : JSON.parse(json);
  return { code, output, report };
}
