/** The rows that `millwright describe` prints. */
import { failures, isFailureCode, remedyOf } from '../../../api/failures.ts';
import type { MachineSnapshot } from '../../../api/model/machine.ts';
import { blockers } from '../../../api/names.ts';
import type { KubeObject } from '../../../api/objects.ts';
import { toTasks } from '../../../api/owner/needs.ts';
import type { OwnerSet } from '../../../api/owner/objects.ts';
import type { Retry } from '../../../temporal/describe.ts';
import type { MachineDescription } from '../../../workflows/machine/messages.ts';
import type { OwnerDescription } from '../../../workflows/rollout/messages.ts';
import { columns } from '../../columns.ts';
import type { RawFlags } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import { dialect } from '../../dialect.ts';
import { atText, sinceText } from '../../duration-text.ts';
import { blockerLines, countsOf, type OwnerState } from '../../owner-state.ts';
import { type RolloutAction, rolloutCommandLine } from '../rollout/actions.ts';

export type Rows = readonly (readonly [name: string, value: string | undefined])[];

/** The counts of a set that all APIs of machines have in common with Kubernetes. */
interface SetCounts {
  readonly replicas?: number;
  readonly availableReplicas?: number;
}

type LastError = NonNullable<(MachineDescription | OwnerDescription)['lastError']>;

/** Rows as aligned text. Rows without a value are left out. */
export function toText(rows: Rows): string {
  return columns(rows.flatMap(([name, value]) => (value ? [[name, value]] : []))).join('\n');
}

/** The answer of a workflow. */
export function descriptionRows(description: MachineDescription | OwnerDescription): Rows {
  const { doing, since, lastError, failedRun } = description;
  const error = lastError && errorText(lastError);
  const lastFailedRun =
    failedRun && `${atText(failedRun.at)} (${failedRun.reason}: ${failedRun.message}); a new run took over`;
  if ('replicas' in description) {
    const { needs, outage, progressAt, deadline, blockedOn, unblock } = description;
    return [
      ['Doing', `${doing}, ${sinceText(since)}`],
      ['To do', toTasks(needs)],
      [
        'Not replacing',
        outage && `${outage}: that looks like an outage, and no unhealthy machine is replaced meanwhile`,
      ],
      [
        'Progress',
        progressAt && `last ${atText(progressAt)}${deadline === undefined ? '' : `; deadline ${atText(deadline)}`}`,
      ],
      ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
      ['Last error', error],
      ['To unblock', unblock],
      ['Last failed run', lastFailedRun],
    ];
  }
  const { phase, waitingFor, until, blockedOn, unblock, providerID, nodeName, preservedUntil } = description;
  return [
    ['Phase', phase || '(new)'],
    ['Doing', `${doing}, ${sinceText(since)}`],
    ['Waiting for', waitingFor && `${waitingFor}${until === undefined ? '' : `; at the latest ${atText(until)}`}`],
    ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
    ['Last error', error],
    ['To unblock', unblock],
    ['Provider ID', providerID],
    ['Node', nodeName],
    ['Preserved until', preservedUntil && atText(preservedUntil)],
    ['Last failed run', lastFailedRun],
  ];
}

/** Calls that failed and are retried. The workflow itself does not know of them. */
export function retryRows(retries: readonly Retry[]): Rows {
  return retries.map(({ activity, attempt, failure }) => [
    'Retrying',
    `${activity}, attempt ${attempt}, after ${failure}`,
  ]);
}

/** A Machine whose workflow does not answer. */
export function machineRows(machine: KubeObject, snapshot: MachineSnapshot, rawFlags: RawFlags): Rows {
  const { providerID, nodeName, preservedUntil } = snapshot;
  const { namespace = '', name } = machine.metadata;
  const { code } = dialect.owner.machines.operationOf(machine);
  const failure = code !== undefined && isFailureCode(code) ? failures[code] : undefined;
  const remedy = failure && remedyOf(failure.blockedOn, commandLine(['retry', name], namespace, rawFlags));
  return [
    ...(dialect.describe?.machineRows(machine, (time) => sinceText(time)) ?? []),
    ['Blocked on', failure && `${failure.blockedOn}: ${blockers[failure.blockedOn]}`],
    ['To unblock', remedy],
    ['Provider ID', providerID],
    ['Node', nodeName],
    ['Preserved until', preservedUntil && atText(preservedUntil)],
  ];
}

function deletedText({ metadata: { deletionTimestamp } }: Pick<KubeObject, 'metadata'>): string | undefined {
  return deletionTimestamp && atText(deletionTimestamp);
}

/** An owner whose workflow does not answer. */
export function ownerRows(owner: KubeObject, { view, needs, blockedBy }: OwnerState): Rows {
  return [
    ['Deleted', deletedText(owner)],
    ['Invalid', view.problem],
    ['To do', needs.length === 0 && blockedBy !== undefined ? undefined : toTasks(needs)],
  ];
}

/** Machines of an owner now, what it waits for and what would help. */
export function stateRows(owner: KubeObject, state: OwnerState, rawFlags: RawFlags): Rows {
  const { view, needs, waitsFor, blockedBy } = state;
  const { namespace = '', name } = owner.metadata;
  const { total, older, active, available, preserved } = countsOf(state);
  const kept = preserved > 0 ? `, ${preserved} preserved` : '';
  const counts = `${view.replicas} desired, ${total} existing, ${active} active, ${available} available${kept}`;
  const isWaiting = needs.length > 0 || blockedBy !== undefined || (view.paused && older > 0);
  const lineOf = (action: RolloutAction) => rolloutCommandLine(action, { namespace, name }, rawFlags);
  const resume = view.paused && older > 0 ? lineOf('resume') : undefined;
  const retry = view.progress === 'late' ? `once the cause is fixed: ${lineOf('retry')}` : undefined;
  const blocked = blockedBy === undefined ? [] : blockerLines(blockedBy);
  const named = new Set(blockedBy?.machines.map((machine) => machine.name));
  return [
    ['Machines', older > 0 ? `${counts}, ${older} old` : counts],
    ['Waiting for', isWaiting ? waitsFor : undefined],
    ...blocked.map((line) => ['Blocked by', line] as const),
    ['To unblock', resume ?? retry],
    ...failedRows(owner, named),
  ];
}

/** A set of a deployment; the workflow of the deployment does not answer. */
export function ownedSetRows(set: OwnerSet & { readonly status?: SetCounts }): Rows {
  const { spec, status } = set;
  const { replicas = 0, availableReplicas = 0 } = status ?? {};
  return [
    ['Deleted', deletedText(set)],
    ['Machines', `${spec?.replicas ?? 0} desired, ${replicas} existing, ${availableReplicas} available`],
  ];
}

/** Failed machines in the status of an owner. @param except names of machines that other rows have */
export function failedRows(owner: KubeObject, except: ReadonlySet<string> = new Set()): Rows {
  const failed = (dialect.describe?.failedMachinesOf(owner) ?? []).filter(({ name }) => !except.has(name));
  return failed.map(({ name, reason }) => ['Failed', `${name}: ${reason}`]);
}

function errorText({ code, message, at, ...rest }: LastError): string {
  const often = 'times' in rest && rest.times > 1 ? `, ${rest.times} times, first ${atText(rest.since)}` : '';
  const request = 'requestId' in rest && rest.requestId !== undefined ? ` (request ID ${rest.requestId})` : '';
  return `${code} ${atText(at)}${often}: ${message}${request}`;
}
