/** Machines whose Nodes stay unhealthy: when they are replaced, and how many at once. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { labels } from '../../api/gardener/names.ts';
import { machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { names } from '../../api/names.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { startReflector } from '../../kube/reflector.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { reportCondition } from '../support/node-conditions.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

describe('a machine that is unhealthy for longer than its health timeout', () => {
  let millwright: Installation;
  afterEach(async () => {
    await millwright?.stop();
  });

  /** Nodes of other tests make no outage. */
  const noOutages = ['--outage-share', '100'];

  async function start(flags: readonly string[]): Promise<void> {
    // The kubelets report once and no more, so that what a test writes into a Node stays.
    const cloud = { statusUpdateMs: 2 ** 31 - 1 };
    millwright = await startInstallation({ cloud, flags });
  }

  /** A deployment whose machines run. Nodes have the names of their machines. */
  async function pool(name: string, replicas: number, healthTimeout: string): Promise<Machine[]> {
    await millwright.createDeployment(name, replicas, {
      template: {
        metadata: { labels: { [labels.name]: name } },
        spec: { class: { kind: 'MachineClass', name: 'small' }, healthTimeout },
      },
    });
    return millwright.untilRunning(name, replicas);
  }

  const isDeleting = ({ metadata }: Machine) => metadata.deletionTimestamp !== undefined;

  const report = (name: string, status: string) => reportCondition(millwright.target, name, 'Ready', status);

  const notesOf = async (name: string, reason: string) =>
    (await millwright.eventsOf(name, reason)).map(({ note }) => note);

  /** Each change of the machines of a deployment, until it is stopped. */
  async function watchPool(name: string, onChange: (all: readonly Machine[]) => void) {
    const watch = startReflector<Machine>({
      client: millwright.control,
      resource: machines,
      namespace: millwright.namespace,
      labelSelector: `${labels.name}=${name}`,
      logger: recordingLogger(),
      onEvent: () => {
        if (watch.store.synced) onChange(watch.store.list());
      },
    });
    await watch.waitForSync();
    return watch;
  }

  it('[mcm 35] [mcm 36] fails and is replaced by its deployment; without a health timeout it stays as it is', async () => {
    await start(noOutages);
    millwright.recordAs('health-replacement');
    const { cloud, control } = millwright;
    const lasting = await millwright.createMachine('lasting', {
      class: { kind: 'MachineClass', name: 'small' },
      healthTimeout: '1s',
      disableHealthTimeout: true,
    });
    await millwright.untilPhase(lasting, 'Running');
    const [bad, good] = await pool('pool', 2, '3s');
    if (bad === undefined || good === undefined) throw new Error('there are no machines');
    const { name } = bad.metadata;
    const seen: Machine[] = [];
    const watch = await watchPool('pool', (all) => seen.push(...all.filter(({ metadata }) => metadata.name === name)));
    try {
      await report(lasting.name, 'Unknown');
      await millwright.untilPhase(lasting, 'Unknown');
      await report(name, 'Unknown');
      const after = await millwright.untilRunning('pool', 2, { without: [bad.metadata] });
      expect(after.map(({ metadata }) => metadata.uid)).toContain(good.metadata.uid);
      const [made] = after.filter(({ metadata }) => metadata.uid !== good.metadata.uid);
      expect(made?.metadata.annotations?.[names.replaces]).toBe(name);
      const [old] = await millwright.vmsOf(refOf(bad));
      expect(old?.state).toBe('terminated');
      expect(await cloud.stats()).toMatchObject({ vmsEver: 4, vmsNow: 3 });
    } finally {
      await watch.stop();
    }

    const sinceOf = (phase: string) =>
      Date.parse(seen.find((each) => phaseOf(each) === phase)?.status?.currentStatus?.lastUpdateTime ?? '');
    expect(sinceOf('Failed') - sinceOf('Unknown')).toBeGreaterThanOrEqual(3_000);
    const failed = seen.find((each) => phaseOf(each) === 'Failed');
    expect(failed?.status?.lastOperation).toMatchObject({
      type: 'HealthCheck',
      state: 'Failed',
      description: `node ${name} (Ready is Unknown) is unhealthy for more than 3 s`,
    });
    await millwright.untilEvent(name, 'HealthTimeout');
    await millwright.untilEvent('pool', 'ReplacingMachine');
    expect(await notesOf(name, 'HealthTimeout')).toEqual([failed?.status?.lastOperation?.description]);
    expect(await notesOf('pool', 'ReplacingMachine')).toEqual([expect.stringContaining(name)]);

    // It was unhealthy before the other one, with a shorter timeout, and waits for no time to come.
    expect(phaseOf(await control.get(machines, lasting))).toBe('Unknown');
    expect((await millwright.describe(lasting)).until).toBeUndefined();
  });

  it('recovers until then, also when it has asked to be replaced, and then has the whole timeout again', async () => {
    await start([...noOutages, '--max-health-replacements', '0']);
    const [machine] = await pool('pool', 1, '2s');
    const ref = refOf(machine!);
    const asking = () =>
      until(
        'it asks',
        async () => {
          const { status } = await millwright.control.get(machines, ref);
          return status?.lastOperation?.state === 'Failed' ? status : undefined;
        },
        { describe: () => millwright.story() },
      );
    await report(ref.name, 'False');
    const first = await asking();
    expect(first.currentStatus?.phase).toBe('Unknown');
    const described = await millwright.describe(ref);
    expect(described).toMatchObject({ doing: 'waiting to be replaced', blockedOn: 'NodeHealth' });
    expect(described.waitingFor).toBe(
      `MachineDeployment pool to replace it, or node ${ref.name} (Ready is False) to become healthy`,
    );

    await report(ref.name, 'True');
    await millwright.untilPhase(ref, 'Running');
    await report(ref.name, 'Unknown');
    await millwright.untilPhase(ref, 'Unknown');
    const second = await asking();
    const sinceMs = Date.parse(second.currentStatus?.lastUpdateTime ?? '');
    expect(Date.parse(second.lastOperation?.lastUpdateTime ?? '') - sinceMs).toBeGreaterThanOrEqual(2_000);
    expect((await millwright.cloud.stats()).vmsEver).toBe(1);
  });

  it.each([
    ['by default', [], 1],
    ['as configured', ['--max-health-replacements', '50%'], 2],
  ] as const)('[mcm 37] is one of at most so many that are replaced at once: %s', async (_, flags, most) => {
    await start([...noOutages, ...flags]);
    const before = await pool('pool', 4, '1s');
    let worst = 0;
    const watch = await watchPool('pool', (all) => {
      const kept = all.filter((each) => !isDeleting(each) && ['Running', 'Unknown'].includes(phaseOf(each) ?? ''));
      worst = Math.max(worst, before.length - kept.length);
    });
    try {
      await Promise.all(before.map(({ metadata }) => report(metadata.name, 'Unknown')));
      const without = before.map(({ metadata }) => metadata);
      await millwright.untilRunning('pool', 4, { without });
    } finally {
      await watch.stop();
    }
    expect(worst).toBe(most);
    expect((await millwright.cloud.stats()).vmsEver).toBe(8);
  });

  it('[invariant 6 partly] stays when most Nodes of its class are gone together, its owner says so, and it runs when they are back', async () => {
    await start([]);
    const before = await pool('lost', 3, '1s');
    const lost = await millwright.nodesOf(before);
    for (const { metadata } of lost) {
      const { name } = metadata;
      await millwright.target.patch(nodes, { name }, mergePatch({ metadata: { finalizers: null } }));
      await millwright.target.delete(nodes, { name });
    }

    await millwright.untilEvent('lost', 'ReplacementHeld');
    const outage = '3 of 3 machines of small have lost their Nodes';
    await until('the deployment is blocked', async (see) => {
      const { code, output } = see(await millwright.command('stuck'));
      return code === 0 && output.includes('Outage') && output.includes(outage);
    });
    expect((await millwright.machinesOf('lost')).filter(isDeleting)).toEqual([]);

    for (const { metadata, spec, status } of lost) {
      const { name, labels: own } = metadata;
      const again = await millwright.target.create(nodes, { metadata: { name, labels: own ?? {} }, spec: { ...spec } });
      await millwright.target.patch(nodes, again.metadata, mergePatch({ status }), { subresource: 'status' });
    }
    await millwright.untilRunning('lost', 3);
    expect((await millwright.cloud.stats()).vmsEver).toBe(3);
  });

  it('fails without an owner, too, and says that nobody replaces it', async () => {
    await start(noOutages);
    const ref = await millwright.createMachine('ownerless', {
      class: { kind: 'MachineClass', name: 'small' },
      healthTimeout: '1s',
    });
    await millwright.untilPhase(ref, 'Running');
    await report('ownerless', 'Unknown');
    await millwright.untilPhase(ref, 'Failed');
    await until('it says that nobody replaces it', async (see) => {
      return see((await millwright.describe(ref)).unblock)?.startsWith('No MachineSet owns this Machine') === true;
    });
    expect((await millwright.cloud.stats()).vmsNow).toBe(1);
  });
});
