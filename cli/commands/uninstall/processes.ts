/** Whether processes of an installation still run: they would write everything again. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from '../../../kube/client.ts';
import { leases } from '../../../kube/core.ts';
import { isMillwright } from '../../../kube/lease.ts';
import { controllersQueue } from '../../../temporal/clusters.ts';
import { listPollers, measureClock, silentMs } from '../../../temporal/task-queues.ts';
import type { Installation } from '../../../temporal/workflows.ts';
import { dialect } from '../../dialect.ts';
import { complain } from '../../terminal.ts';

/** A sign of life of a process. */
export interface Sign {
  readonly by: string;
  /** Differs with every new sign. */
  readonly at: string;
  /** How long no new one may come until the process has ended, ms. */
  readonly lifetimeMs: number;
}

export interface Processes {
  readonly control: KubeClient;
  readonly namespace: string;
  /** Left out: Temporal is not asked. */
  readonly installation?: Installation | undefined;
  /** Whether machine-controller-manager may run. */
  readonly mayMcmRun: boolean;
}

/** The last signs of processes that have not been silent for long. Reads only. */
export async function readSigns({ control, namespace, installation, mayMcmRun }: Processes): Promise<Sign[]> {
  const found = await Promise.all(dialect.policy.leases.map((name) => control.find(leases, { namespace, name })));
  const ofLeases = found.flatMap((lease) => {
    const { holderIdentity: holder = '', leaseDurationSeconds = 0, renewTime = '' } = lease?.spec ?? {};
    if (lease === undefined || holder === '' || (mayMcmRun && !isMillwright(holder))) return [];
    return {
      by: `${holder} with the Lease ${lease.metadata.name}`,
      at: renewTime,
      lifetimeMs: leaseDurationSeconds * 1_000,
    };
  });
  return [...ofLeases, ...(installation === undefined ? [] : await readPolls(installation))];
}

async function readPolls({ client, name }: Installation): Promise<Sign[]> {
  const { connection, options } = client;
  const queues = [
    ['controllers', controllersQueue(name)],
    ['worker', name],
  ] as const;
  const aheadMs = (await measureClock(connection, options.namespace, `${name}.uninstall`)) ?? 0;
  const polls = queues.map(async ([kind, queue]) => {
    const pollers = await listPollers(connection, options.namespace, queue, 'workflow');
    return pollers.map(({ identity, seenMs }) => ({
      by: `${kind} ${identity}`,
      at: `${seenMs}`,
      lifetimeMs: seenMs + silentMs - Date.now() - aheadMs,
    }));
  });
  return (await Promise.all(polls)).flat().filter(({ lifetimeMs }) => lifetimeMs > 0);
}

/** Pause between two readings, ms. */
const readEveryMs = 1_000;

/** Waits until no process can be running. Throws an Error where one gives a new sign of life. */
export async function awaitEnd(processes: Processes): Promise<void> {
  const first = await readSigns(processes);
  if (first.length === 0) return;
  const endMs = performance.now() + Math.max(...first.map(({ lifetimeMs }) => lifetimeMs));
  const seconds = Math.ceil((endMs - performance.now()) / 1_000);
  complain(`${namesOf(first)} may still run: watching for up to ${seconds} s, until a sign that they do`);
  while (performance.now() < endMs) {
    await sleep(readEveryMs);
    const isNew = ({ by, at }: Sign) => !first.some((before) => before.by === by && before.at === at);
    const running = (await readSigns(processes)).filter(isNew);
    if (running.length === 0) continue;
    throw new Error(
      `nothing was changed, as processes run that would write everything again: ${namesOf(running)}. Stop them: end ` +
        '`millwright run`, `controllers` and `worker` where you have started them yourself. With the chart, set ' +
        'controllers.replicas and workers.replicas to 0 and workers.autoscaling.enabled to false, or scale the ' +
        'Deployments to 0, and stop what would scale them up again',
    );
  }
}

function namesOf(signs: readonly Sign[]): string {
  return [...new Set(signs.map(({ by }) => by))].join(', ');
}
