/** A random life of a Machine, then quiet: it ends in the one right state, with one VM or none. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/activity';
import { WorkflowNotFoundError } from '@temporalio/client';
import fc from 'fast-check';
import type { FailureCode } from '../../api/failures.ts';
import { isLong } from '../../test/support/long.ts';
import { refuse, setUpMachine, vm as vmOfAnswer } from '../../test/support/played-machine.ts';
import { until } from '../../test/support/until.ts';
import { refreshSignal, retryNowSignal } from '../messages.ts';
import { forceDeletionSignal, skipDrainSignal } from './messages.ts';

const { cluster, cloud, touch, start, workflow, described, observe, joinNode } = setUpMachine();

/** VMs of the Machine that exist, by provider ID. */
let vms: string[];
let vmsEver: number;
/** What the next calls run into, the first one first. */
let cloudFaults: (FailureCode | 'lost')[];
let apiFaults: number;

const signals = {
  retryNow: retryNowSignal,
  refresh: refreshSignal,
  forceDeletion: forceDeletionSignal,
  skipDrain: skipDrainSignal,
};

const act = {
  nodeJoins: async () => void (vms.length > 0 && (await joinNode())),
  nodeIsUnhealthy: () => changeNode({ conditions: { Ready: 'Unknown' } }),
  nodeIsHealthy: () => changeNode({ conditions: { Ready: 'True' } }),
  nodeIsDeleted: () => changeNode({ deleting: true }),
  nodeIsLost: async () => {
    cluster.node = { state: 'absent' };
    await observe();
  },
  cloudHasNoRoom: async () => void cloudFaults.push('ResourceExhausted'),
  cloudRefuses: async () => void cloudFaults.push('PermissionDenied'),
  cloudIsDown: async () => void cloudFaults.push('Unavailable'),
  answerIsLost: async () => void cloudFaults.push('lost'),
  apiFails: async () => void (apiFaults += 1),
  sourceChanges: () => {
    cluster.reading = { ...cluster.reading, version: String(Number(cluster.reading.version) + 1) };
    return observe(cluster.reading.version);
  },
  limitsChange: () => {
    const { limits } = cluster.machine;
    touch({ limits: { ...limits, drainSeconds: limits.drainSeconds + 1 } });
    return observe();
  },
  isDeleted: () => {
    touch({ deletingSince: cluster.machine.deletingSince ?? new Date().toISOString() });
    return observe();
  },
  someTimePasses: () => sleep(150),
  retryNow: () => signal('retryNow'),
  refresh: () => signal('refresh'),
  forceDeletion: () => signal('forceDeletion'),
  skipDrain: () => signal('skipDrain'),
} satisfies Record<string, () => Promise<unknown>>;
type Step = keyof typeof act;

async function signal(name: keyof typeof signals): Promise<void> {
  await workflow().signal(signals[name]);
}

async function changeNode(change: object): Promise<void> {
  const { node } = cluster;
  if (node.state !== 'present') return;
  cluster.node = { ...node, ...change, resourceVersion: String(Number(node.resourceVersion) + 1) };
  await observe();
}

function play(): void {
  vms = [];
  vmsEver = 0;
  cloudFaults = [];
  apiFaults = 0;
  cluster.before = () => {
    if (apiFaults === 0) return;
    apiFaults -= 1;
    refuse('Unavailable');
  };
  cloud.ensureVm = async () => {
    const fault = cloudFaults.shift();
    if (fault !== undefined && fault !== 'lost') refuse(fault);
    if (vms.length === 0) vms.push(`played:///vm-${(vmsEver += 1)}`);
    await sleep(50);
    if (fault === 'lost') throw ApplicationFailure.create({ type: 'Unavailable', message: 'lost', nonRetryable: true });
    return { ...vmOfAnswer, providerID: vms[0]! };
  };
  cloud.deleteVm = () => {
    const fault = cloudFaults.shift();
    if (fault !== undefined && fault !== 'lost') refuse(fault);
    vms = [];
    if (fault === 'lost') refuse('Unavailable');
    return { state: 'gone', nodeNames: [] };
  };
}

/** Throws an error unless it says that the workflow has ended meanwhile. */
function unlessEnded(error: unknown): void {
  if (!(error instanceof WorkflowNotFoundError)) throw error;
}

const hasEnded = async () => (await workflow().describe()).status.name !== 'RUNNING';

/** All faults end, the VM becomes a healthy Node, and whoever operates it has everything tried again. */
async function isSettled(): Promise<boolean> {
  cloudFaults = [];
  apiFaults = 0;
  if (await hasEnded()) return true;
  const { machine, node } = cluster;
  if (machine.deletingSince === undefined && vms.length > 0) {
    if (node.state !== 'present') await joinNode();
    else if (!node.deleting) await act.nodeIsHealthy();
  }
  await observe(cluster.reading.version);
  await signal('retryNow');
  return cluster.machine.deletingSince === undefined && (await described()).doing === 'running';
}

describe('a Machine to which anything happens', () => {
  const steps = fc.array(fc.constantFrom(...(Object.keys(act) as Step[])), { minLength: 3, maxLength: 14 });
  const seed = isLong() ? Date.now() : 1;
  const lives = fc.sample(steps, { numRuns: isLong() ? 150 : 10, seed });

  it.each(lives.map((life) => [life.join(', '), life] as const))(
    'ends in the right state with one VM or none: %s',
    async (_, life) => {
      play();
      await start();
      for (const step of life) {
        if (await hasEnded()) break;
        await act[step]().catch(unlessEnded);
      }
      await until('it is settled', isSettled, {
        describe: async () =>
          JSON.stringify({ seed, steps: cluster.steps, vms, described: await described() }, null, 2),
      });

      const { deletingSince, stage, providerID } = cluster.machine;
      if (deletingSince === undefined) {
        expect({ stage, vms }).toEqual({ stage: 'running', vms: [providerID] });
        expect(cluster.node).toMatchObject({ state: 'present', conditions: { Ready: 'True' }, deleting: false });
      } else {
        expect(await workflow().describe()).toMatchObject({ status: { name: 'COMPLETED' } });
        expect(vms).toEqual([]);
      }
      expect(vmsEver).toBeLessThanOrEqual(1);
    },
  );
});
