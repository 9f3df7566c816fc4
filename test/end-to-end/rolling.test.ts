/**
 * Tests of rollouts, in two sizes: while requests meet conflicts and every watch is behind, with the bounds checked at
 * each single change.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { names } from '../../api/names.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { type Fault, type SeenRequest, statusBody } from '../faults/proxy.ts';
import { phaseOf } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { isLong } from '../support/long.ts';
import { isActive, isAvailable } from '../support/machine-facts.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

/**
 * What the API server said after a single change: all machines, those that are not being deleted, and the available
 * ones.
 */
interface Sample {
  readonly total: number;
  readonly active: number;
  readonly available: number;
}

const strategy = (maxSurge: number | string, maxUnavailable: number | string) => ({
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } },
});

interface RollingSizes {
  /** Machines of the deployment that rolls over. maxSurge is a tenth of them, maxUnavailable a twentieth. */
  readonly replicas: number;
  /** The longest that a rollout may take, ms. */
  readonly timeoutMs: number;
}

/** Defines the tests. They have an installation. */
function describeRolling({ replicas, timeoutMs }: RollingSizes): void {
  describe('a MachineDeployment whose template changes', () => {
    let millwright: WatchedInstallation;
    let watch: Reflector<Machine>;
    const samples = new Map<string, Sample[]>();
    let conflicts = 0;

    beforeAll(async () => {
      millwright = await startWatchedInstallation();
      millwright.recordAs('rolling');
      for (const name of ['medium', 'large', 'huge']) await millwright.createClass(name);
      watch = startReflector({
        client: millwright.control,
        resource: machines,
        namespace: millwright.namespace,
        onEvent: sample,
        logger: recordingLogger(),
      });
    });
    afterAll(async () => {
      await watch?.stop();
      await millwright?.stop();
    });

    /** Of all deployments that are watched by then. */
    function sample(): void {
      const present = watch.store.list();
      for (const [name, taken] of samples) {
        const own = present.filter(({ metadata }) => metadata.labels?.[labels.name] === name);
        const active = own.filter(isActive);
        taken.push({ total: own.length, active: active.length, available: active.filter(isAvailable).length });
      }
    }

    /** Every watch is a third of a second behind, and one in seven changes and deletions meets a conflict. */
    function disturb(request: SeenRequest): Fault | undefined {
      if (request.isWatch) return { kind: 'lag', ms: 333 };
      if (!['PATCH', 'PUT', 'DELETE'].includes(request.method) || !request.url.pathname.includes('/machine'))
        return undefined;
      conflicts += 1;
      if (conflicts % 7 > 0) return undefined;
      return { kind: 'answer', status: 409, body: statusBody(409, 'Conflict', 'somebody was faster') };
    }

    const classesOf = (found: readonly Machine[]) => new Set(found.map(({ spec }) => spec?.class?.name));

    async function useClass(deployment: string, name: string): Promise<void> {
      const key = { namespace: millwright.namespace, name: deployment };
      await millwright.control.patch(
        machineDeployments,
        key,
        mergePatch({ spec: { template: { spec: { class: { name } } } } }),
      );
    }

    async function untilNoneIsOpen(): Promise<void> {
      const query = `MillwrightInstallation = '${millwright.namespace}' AND WorkflowType = 'rollout' AND ExecutionStatus = 'Running'`;
      await until(
        'the rollout is closed',
        async (see) => see(await millwright.temporal.workflow.count(query)).count === 0,
        {
          timeoutMs: 180_000,
        },
      );
    }

    /** From now on. */
    function startSampling(name: string): Sample[] {
      const taken: Sample[] = [];
      samples.set(name, taken);
      return taken;
    }

    it(
      `[mcm 71 partly] [mcm 72] [mcm 83 partly] [mcm 84] [invariant 5] rolls ${replicas} machines over within its bounds at every change, whatever the conflicts and however late the watches`,
      async () => {
        const [most, least] = [replicas + replicas / 10, replicas - replicas / 20];
        await millwright.createDeployment('pool', replicas, strategy('10%', '5%'));
        await millwright.untilComplete('pool', undefined, timeoutMs);
        millwright.proxy.setRule(disturb);
        millwright.proxy.resetConnections(); // watches that are open are not late
        const taken = startSampling('pool');

        await useClass('pool', 'medium');
        const { metadata, status } = await millwright.untilComplete('pool', undefined, timeoutMs);
        millwright.proxy.setRule();
        millwright.proxy.resetConnections();
        samples.delete('pool');

        const found = await millwright.machinesOf('pool');
        expect([found.length, classesOf(found)]).toEqual([replicas, new Set(['medium'])]);
        expect(new Set(found.map(phaseOf))).toEqual(new Set(['Running']));
        expect(metadata.annotations?.[annotations.revision]).toBe('2');
        expect(status?.unavailableReplicas ?? 0).toBe(0);
        expect(status?.conditions?.toSorted((a, b) => (a.type < b.type ? -1 : 1))).toMatchObject([
          { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable' },
          {
            type: 'Progressing',
            status: 'True',
            message: expect.stringMatching(/^MachineSet "pool-.*" has successfully/),
          },
        ]);
        expect(status?.conditions).toHaveLength(2);

        expect([taken.length > 7 * replicas, conflicts > 7 * replicas]).toEqual([true, true]);
        expect(taken.filter(({ active, available }) => active > most || available < least)).toEqual([]);
        // Both bounds are made use of.
        expect([
          Math.max(...taken.map(({ active }) => active)),
          Math.min(...taken.map(({ available }) => available)),
        ]).toEqual([most, least]);
        await untilNoneIsOpen();
      },
      3 * timeoutMs,
    );

    it(
      '[mcm 72] [invariant 5] turns to another template in the middle of a rollout, within the bounds of one that waits for deletions',
      async () => {
        const few = 10;
        await millwright.createDeployment('turned', few, strategy(2, 0));
        const waiting = { metadata: { annotations: { [names.replacementPolicy]: 'TerminationComplete' } } };
        const { namespace } = millwright;
        await millwright.control.patch(machineDeployments, { namespace, name: 'turned' }, mergePatch(waiting));
        await millwright.untilComplete('turned', undefined, timeoutMs);
        const taken = startSampling('turned');
        await useClass('turned', 'large');
        await until(
          'some machines are of the second template',
          async () => {
            const updated = (await millwright.machinesOf('turned')).filter(({ spec }) => spec?.class?.name === 'large');
            return updated.filter(isAvailable).length >= 3;
          },
          { timeoutMs },
        );

        await useClass('turned', 'huge');
        const { metadata } = await millwright.untilComplete('turned', undefined, timeoutMs);
        samples.delete('turned');

        const found = await millwright.machinesOf('turned');
        expect([found.length, classesOf(found)]).toEqual([few, new Set(['huge'])]);
        expect(metadata.annotations?.[annotations.revision]).toBe('3');
        const { items } = await millwright.control.list(machineSets, { namespace: millwright.namespace });
        const own = items.filter(({ metadata: { name } }) => name.startsWith('turned-'));
        expect(own.map(({ spec }) => spec?.replicas ?? 0).toSorted((a, b) => a - b)).toEqual([0, 0, few]);
        expect(await millwright.cloud.stats()).toMatchObject({ vmsNow: (await millwright.machines()).length });
        expect(taken.filter(({ total, available }) => total > few + 2 || available < few)).toEqual([]);
        expect(taken.some(({ total }) => total === few + 2)).toBe(true);
        await untilNoneIsOpen();
      },
      3 * timeoutMs,
    );
  });
}

describeRolling(isLong() ? { replicas: 100, timeoutMs: 600_000 } : { replicas: 20, timeoutMs: 180_000 });
