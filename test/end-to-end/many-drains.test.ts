/** Drains last for hours: as many as there may be hold nothing else up. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { DrainRequest } from '../../activities/machine/drain/index.ts';
import { machines } from '../../api/gardener/resources.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { nodes, pods } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

/** More than a worker has slots for other activities. */
const many = 550;

describe('drains that wait', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation({
      alone: 'the metrics of its process are read',
      cloud: { statusUpdateMs: 2 ** 31 - 1, maxGraceMs: 200 },
    });
  });
  afterAll(async () => {
    await release();
    await millwright.stop();
  });

  /** Runs a pod on the node that does not go before it is released. */
  async function runHeld(nodeName: string): Promise<void> {
    const { target, namespace } = millwright;
    const spec = { nodeName, containers: [{ name: 'app', image: 'app' }] };
    await target.create(pods, { metadata: { namespace, name: 'held', finalizers: ['test/held'] }, spec });
  }

  async function release(): Promise<void> {
    const { target, namespace } = millwright;
    const released = mergePatch({ metadata: { finalizers: null } });
    if (await target.find(pods, { namespace, name: 'held' }))
      await target.patch(pods, { namespace, name: 'held' }, released);
  }

  /** The queue and the request of the drain that a machine's workflow waits for. */
  async function drainOf(id: string): Promise<{ taskQueue: string; request: DrainRequest }> {
    return until('its drain is scheduled', async (see) => {
      const { events } = see(await millwright.temporal.workflow.getHandle(id).fetchHistory());
      const scheduled = events
        ?.map((event) => event.activityTaskScheduledEventAttributes)
        .find((attributes) => attributes?.activityType?.name === 'drainNode');
      const [input] = scheduled?.input?.payloads ?? [];
      const taskQueue = scheduled?.taskQueue?.name;
      if (!taskQueue || !input?.data) return undefined;
      return { taskQueue, request: JSON.parse(Buffer.from(input.data).toString()) };
    });
  }

  /** How many drains of this process have listed the pods of their nodes, and so are waiting for them. */
  async function drainsAtWork(): Promise<number> {
    const metrics = await (await fetch(`${millwright.processes[0]?.url}/metrics`)).text();
    return Number(/_requests_total\{.*verb="watch",resource="pods",code="200"\} (\d+)/.exec(metrics)?.[1] ?? 0);
  }

  const phaseNow = async (name: string) =>
    phaseOf(await millwright.control.get(machines, { namespace: millwright.namespace, name }));

  it('[mcm 114] delay by the hundreds neither new machines nor the health of others', async () => {
    const { control, target, namespace, temporal } = millwright;
    const drained = await millwright.createMachine(`drained-${namespace}`);
    await millwright.createDeployment('pool', 1);
    const running = await millwright.untilMachines(2, 'Running');
    const [other] = running.filter(({ metadata }) => metadata.name !== drained.name);
    await runHeld(drained.name);
    await control.delete(machines, drained);
    const { taskQueue, request } = await drainOf(workflowId(namespace, 'Machine', drained));
    const drains = await Promise.all(
      Array.from({ length: many }, (_, index) =>
        temporal.activity.start('drainNode', {
          ...{ id: `${namespace}-drain-${index}`, taskQueue, args: [request] },
          ...{ startToCloseTimeout: '10 minutes', heartbeatTimeout: '30 seconds' },
        }),
      ),
    );
    await until('as many drains wait as there are slots', async (see) => see(await drainsAtWork()) >= 500, {
      describe: async () => `${await drainsAtWork()} drains wait\n${await millwright.story()}`,
    });

    await millwright.scale('pool', 3);
    const patience = { describe: () => millwright.story() };
    await until(
      'two more machines run',
      async () => {
        const phases = (await millwright.machines()).map(phaseOf);
        return phases.filter((phase) => phase === 'Running').length === 3;
      },
      patience,
    );
    const name = other?.metadata.name ?? '';
    const condition = { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' };
    await target.patch(nodes, { name }, strategicMergePatch({ status: { conditions: [condition] } }), {
      subresource: 'status',
    });
    await until(`${name} is Unknown`, async (see) => see(await phaseNow(name)) === 'Unknown', patience);
    expect(await phaseNow(drained.name)).toBe('Terminating');

    await release();
    const outcomes = await Promise.all(drains.map((drain) => drain.result()));
    expect(outcomes).toEqual(drains.map(() => ({ kind: 'drained' })));
  }, 480_000);
});
