/**
 * How Gardener's cluster autoscaler and machine-controller-manager (MCM) agree on the machines that a scale-down takes:
 * the autoscaler lowers the replicas and lists the machines, in one update of the MachineDeployment.
 */
import type { MarkPlan, ScaleDownDialect } from '../dialect.ts';
import type { KubeObject } from '../objects.ts';
import { stageOf } from './machine/snapshot.ts';
import { annotations, priorities } from './names.ts';

/** A machine as it is listed: `<name>~<RFC 3339>`; older autoscalers leave the time out. */
interface Entry {
  readonly name: string;
  readonly time: string | undefined;
}

/** The priority of a machine: lower ones are deleted first. What is no number is the default. */
export function priorityOf({ metadata }: KubeObject): number {
  const text = metadata.annotations?.[annotations.priority];
  return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : Number(priorities.default);
}

/** Infinity for a machine without a mark: it is deleted after all that have one. */
export function markedMsOf(machine: KubeObject): number {
  return timeOf(machine, annotations.markedForDeletionTime) ?? Number.POSITIVE_INFINITY;
}

export const scaleDown: ScaleDownDialect = {
  listedBy: (deployment) => entriesOf(deployment).map(({ name }) => name),
  isUnneeded(machine, owner) {
    const changedMs = timeOf(owner, annotations.lastReplicaChangeByScalerTime);
    return (
      changedMs !== undefined && priorityOf(machine) === Number(priorities.marked) && markedMsOf(machine) <= changedMs
    );
  },
  planMarks,
};

/**
 * An entry without a time has that of the last change of the replicas, or else now, which is written as such. An entry
 * that is malformed, or whose machine is gone, Failed, being deleted or of another deployment, is removed.
 */
function planMarks(deployment: KubeObject, machines: readonly KubeObject[], now: Date): MarkPlan | undefined {
  const { triggerDeletion, lastReplicaChangeByScalerTime } = annotations;
  const list = deployment.metadata.annotations?.[triggerDeletion];
  if (list === undefined) return undefined;
  const entries = entriesOf(deployment);
  const changedMs = timeOf(deployment, lastReplicaChangeByScalerTime);
  const changed =
    changedMs === undefined ? toTime(now) : deployment.metadata.annotations?.[lastReplicaChangeByScalerTime];
  const marks = entries.flatMap(({ name, time = changed ?? '' }) => {
    const machine = machines.find(({ metadata }) => metadata.name === name);
    return machine !== undefined && canBeMarked(machine) ? [{ machine, time }] : [];
  });
  const kept = marks.map(({ machine, time }) => `${machine.metadata.name}~${time}`).join(',');
  const isTimeMissing = changedMs === undefined && entries.some(({ time }) => time === undefined) && kept !== '';
  const due = marks.filter(({ machine, time }) => !isMarkedAt(machine, time));
  if (kept === list && !isTimeMissing && due.length === 0) return undefined;
  return {
    ...((kept !== list || isTimeMissing) && {
      deployment: {
        [triggerDeletion]: kept || null,
        ...(isTimeMissing && { [lastReplicaChangeByScalerTime]: toTime(now) }),
      },
    }),
    machines: due.map(({ machine: { metadata }, time }) => ({
      ...{ name: metadata.name, uid: metadata.uid },
      annotations: { [annotations.priority]: priorities.marked, [annotations.markedForDeletionTime]: time },
    })),
  };
}

const objectName = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

/** Each machine once: the last entry counts. Malformed entries are left out. */
function entriesOf({ metadata }: KubeObject): Entry[] {
  const texts = (metadata.annotations?.[annotations.triggerDeletion] ?? '').split(',');
  const entries = texts.flatMap((text): [string, Entry][] => {
    const [name = '', time, ...more] = text.trim().split('~');
    const isWellFormed = objectName.test(name) && more.length === 0 && (time === undefined || toMs(time) !== undefined);
    return isWellFormed ? [[name, { name, time }]] : [];
  });
  return [...new Map(entries).values()];
}

function canBeMarked(machine: KubeObject): boolean {
  const stage = stageOf(machine);
  return machine.metadata.deletionTimestamp === undefined && stage !== 'failed' && stage !== 'deleting';
}

function isMarkedAt(machine: KubeObject, time: string): boolean {
  return priorityOf(machine) === Number(priorities.marked) && markedMsOf(machine) === toMs(time);
}

function timeOf({ metadata }: KubeObject, key: string): number | undefined {
  return toMs(metadata.annotations?.[key] ?? '');
}

/** ms since the epoch; undefined: it is not RFC 3339. */
function toMs(text: string): number | undefined {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/** RFC 3339 in whole seconds, as MCM writes it. */
function toTime(now: Date): string {
  return `${now.toISOString().slice(0, 19)}Z`;
}
