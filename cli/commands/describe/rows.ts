/** The rows that `millwright describe` prints. */
import { rolloutLate, toTasks } from '../../../api/attention.ts';
import { labels } from '../../../api/gardener/names.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import { blockers } from '../../../api/names.ts';
import { operationText } from '../../../api/owner/blockers.ts';
import type { MachineDescription, OwnerDescription, Retry } from '../../../temporal/describe.ts';
import { columns } from '../../columns.ts';
import type { RawFlags } from '../../command.ts';
import { blockerLines, countsOf, type OwnerState } from '../../owner-state.ts';
import { type RolloutAction, rolloutCommandLine } from '../rollout/actions.ts';

export type Rows = readonly (readonly [name: string, value: string | undefined])[];

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
    failedRun && `at ${failedRun.at} (${failedRun.reason}: ${failedRun.message}); a new run took over`;
  if ('replicas' in description) {
    const { needs, progressAt, deadline, blockedOn } = description;
    return [
      ['Doing', `${doing}, since ${since}`],
      ['To do', toTasks(needs)],
      ['Progress', progressAt && `last at ${progressAt}; late after ${deadline}`],
      ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
      ['Last error', error],
      ['Last failed run', lastFailedRun],
    ];
  }
  const { phase, waitingFor, until, blockedOn, unblock, providerID, nodeName } = description;
  return [
    ['Phase', phase || '(new)'],
    ['Doing', `${doing}, since ${since}`],
    ['Waiting for', waitingFor && `${waitingFor}${until === undefined ? '' : `, until ${until}`}`],
    ['Blocked on', blockedOn && `${blockedOn}: ${blockers[blockedOn]}`],
    ['Last error', error],
    ['To unblock', unblock],
    ['Provider ID', providerID],
    ['Node', nodeName],
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
export function machineRows({ metadata, spec, status }: Machine): Rows {
  const { lastOperation: last, currentStatus } = status ?? {};
  return [
    ['Phase', `${currentStatus?.phase || '(new)'}${sinceText(currentStatus?.lastUpdateTime)}`],
    ['Deleted', metadata.deletionTimestamp],
    ['Last operation', last && `${last.type} ${last.state}${sinceText(last.lastUpdateTime)}: ${last.description}`],
    ['Provider ID', spec?.providerID],
    ['Node', metadata.labels?.[labels.node]],
  ];
}

/** An owner whose workflow does not answer. */
export function ownerRows({ metadata }: MachineDeployment | MachineSet, { view, needs }: OwnerState): Rows {
  return [
    ['Deleted', metadata.deletionTimestamp],
    ['Invalid', view.problem],
    ['To do', toTasks(needs)],
  ];
}

/** Machines of an owner now, what it waits for and what would help. */
export function stateRows(owner: MachineDeployment | MachineSet, state: OwnerState, rawFlags: RawFlags): Rows {
  const { view, needs, waitsFor, blockedBy } = state;
  const { namespace = '', name } = owner.metadata;
  const { total, older, active, available } = countsOf(state);
  const counts = `${view.replicas} desired, ${total} existing, ${active} active, ${available} available`;
  const isWaiting = needs.length > 0 || blockedBy !== undefined || (view.paused && older > 0);
  const lineOf = (action: RolloutAction) => rolloutCommandLine(action, { namespace, name }, rawFlags);
  const resume = view.paused && older > 0 ? lineOf('resume') : undefined;
  const retry = view.progress === rolloutLate ? `once the cause is fixed: ${lineOf('retry')}` : undefined;
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
export function ownedSetRows({ metadata, spec, status }: MachineSet): Rows {
  const { replicas = 0, availableReplicas = 0 } = status ?? {};
  return [
    ['Deleted', metadata.deletionTimestamp],
    ['Machines', `${spec?.replicas ?? 0} desired, ${replicas} existing, ${availableReplicas} available`],
  ];
}

/** Failed machines in the status of an owner. @param except names of machines that other rows have */
export function failedRows(
  { status }: MachineDeployment | MachineSet,
  except: ReadonlySet<string | undefined> = new Set(),
): Rows {
  const failed = (status?.failedMachines ?? []).filter(({ name }) => !except.has(name));
  return failed.map(({ name, lastOperation = {} }) => ['Failed', `${name}: ${operationText(lastOperation)}`]);
}

function errorText({ code, message, at, ...rest }: LastError): string {
  const often = 'times' in rest && rest.times > 1 ? ` (${rest.times} times since ${rest.since})` : '';
  return `${code} at ${at}${often}: ${message}`;
}

function sinceText(time: string | undefined): string {
  return time === undefined ? '' : `, since ${time}`;
}
