/** MachineSets as machine-controller-manager has them: which machines are theirs, and which of them go. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { controllerOf } from '../../api/owner/ownership.ts';
import { newSetName, templateHash } from '../../api/owner/template.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type FaultProxy, type SeenRequest, startFaultProxy, statusBody } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

const { triggerDeletion, lastReplicaChangeByScalerTime, markedForDeletionTime, priority } = annotations;
const uidOf = ({ metadata }: Machine) => metadata.uid;
const uidsOf = (found: readonly Machine[]) => found.map(uidOf).toSorted();

describe('a MachineSet', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation();
    millwright.recordAs('machine-sets');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const key = (name: string) => ({ namespace: millwright.namespace, name });
  const relabel = ({ metadata }: Machine, value: string) =>
    millwright.control.patch(machines, metadata, mergePatch({ metadata: { labels: { group: value } } }));

  async function untilComplete(name: string): Promise<Machine[]> {
    await millwright.untilComplete(name);
    return millwright.machinesOf(name);
  }

  it('[mcm 62] adopts machines without an owner that it selects, and releases those that it selects no more', async () => {
    const { control, cloud, namespace } = millwright;
    const vmsBefore = (await cloud.stats()).vmsEver;
    const template = {
      metadata: { labels: { group: 'lone' } },
      spec: { class: { kind: 'MachineClass', name: 'small' } },
    };
    const made = await control.create(machines, {
      metadata: { namespace, name: 'by-hand', labels: { group: 'lone' } },
      spec: template.spec,
    });
    await millwright.untilPhase(refOf(made), 'Running');
    const spec = { replicas: 2, selector: { matchLabels: { group: 'lone' } }, template };
    const { metadata: lone } = await control.create(machineSets, { metadata: key('lone'), spec });

    /** Waits until two machines with the label of the set run, and belong to it. */
    const ownedBySet = async () =>
      until(
        'the set owns two machines that run',
        async () => {
          const found = (await millwright.machines()).filter(({ metadata }) => metadata.labels?.['group'] === 'lone');
          const areOwned = found.every((machine) => controllerOf(machine) === lone.uid);
          const areRunning = found.every((machine) => phaseOf(machine) === 'Running');
          return found.length === 2 && areOwned && areRunning ? found : undefined;
        },
        { describe: () => millwright.story() },
      );
    const both = await ownedBySet();
    expect(uidsOf(both)).toContain(made.metadata.uid);
    const other = both.find((machine) => uidOf(machine) !== made.metadata.uid)!;
    expect((await cloud.stats()).vmsEver).toBe(vmsBefore + 2);

    await relabel(other, 'debug');
    expect(uidsOf(await ownedBySet())).toContain(made.metadata.uid);
    const released = await until('the other one has no owner', async (see) => {
      const live = see(await control.get(machines, other.metadata));
      return controllerOf(live) === undefined ? live : undefined;
    });
    expect(released.metadata).toMatchObject({ uid: uidOf(other), labels: { group: 'debug' } });
    expect(released.metadata.ownerReferences ?? []).toEqual([]);
    expect([released.metadata.deletionTimestamp, phaseOf(released)]).toEqual([undefined, 'Running']);
    expect(await cloud.stats()).toMatchObject({ vmsEver: vmsBefore + 3, vmsNow: vmsBefore + 3 });

    // The owner wakes for a machine that it selects again, and has one too many then.
    await relabel(other, 'lone');
    await ownedBySet();
    await until('one of three machines is gone', async (see) => see(await millwright.machines()).length === 2);
    await control.delete(machineSets, key('lone'));
    await until('nothing is left', async (see) => see(await millwright.machines()).length === 0);
    expect((await cloud.stats()).vmsNow).toBe(0);
  });

  it('[mcm 65] [invariant 7] loses exactly the machines that the autoscaler lists on the deployment, which stay listed until then', async () => {
    const { cloud, control } = millwright;
    await millwright.createDeployment('listed', 5);
    const before = await untilComplete('listed');
    const vms = (await cloud.stats()).vmsEver;
    const [first, second, third] = before.map(({ metadata }) => metadata.name) as [string, string, string];
    const [listed, staying] = [before.slice(1, 3), [before[0]!, ...before.slice(3)]];
    const time = new Date().toISOString();

    const list = `${second}~${time},no-such-machine~${time},${first}~soon,~${time},,${third}~${time}`;
    await millwright.changeDeployment('listed', {
      metadata: { annotations: { [triggerDeletion]: list, [lastReplicaChangeByScalerTime]: time } },
      spec: { replicas: 3 },
    });
    // What the list lacks was gone or leaving already when it was written.
    const unlisted: string[] = [];
    await until('the list is gone', async (see) => {
      const { metadata } = see(await millwright.deployment('listed'));
      const entries = (metadata.annotations?.[triggerDeletion] ?? '').split(',');
      for (const machine of listed) {
        if (entries.some((entry) => entry.startsWith(`${machine.metadata.name}~`))) continue;
        const live = await control.find(machines, machine.metadata);
        if (live !== undefined && live.metadata.deletionTimestamp === undefined) unlisted.push(live.metadata.name);
      }
      return metadata.annotations?.[triggerDeletion] === undefined;
    });
    expect(unlisted).toEqual([]);
    expect(uidsOf(await untilComplete('listed'))).toEqual(uidsOf(staying));
    expect((await cloud.stats()).vmsEver).toBe(vms); // none was replaced
  });

  it('[mcm 66] [invariant 7] keeps a machine that is marked until the replicas have changed at or after that', async () => {
    const { control } = millwright;
    await millwright.createDeployment('marked', 3);
    const before = await untilComplete('marked');
    const [marked, ...staying] = before as [Machine, Machine, Machine];
    const [changedAt, markedAt] = [new Date(Date.now() - 3_600_000).toISOString(), new Date().toISOString()];
    const list = `${marked.metadata.name}~${markedAt}`;
    await millwright.changeDeployment('marked', {
      metadata: { annotations: { [triggerDeletion]: list, [lastReplicaChangeByScalerTime]: changedAt } },
    });
    await until('it is marked', async (see) => {
      const { metadata } = see(await control.get(machines, marked.metadata));
      return metadata.annotations?.[priority] === '1' && metadata.annotations[markedForDeletionTime] === markedAt;
    });

    // The owner acts meanwhile, and on other machines alone.
    await millwright.scale('marked', 4);
    const four = await untilComplete('marked');
    expect(uidsOf(four)).toEqual(expect.arrayContaining(uidsOf(before)));
    expect((await millwright.deployment('marked')).metadata.annotations?.[triggerDeletion]).toBe(list);

    await millwright.changeDeployment('marked', {
      metadata: { annotations: { [lastReplicaChangeByScalerTime]: markedAt } },
      spec: { replicas: 3 },
    });
    const after = await untilComplete('marked');
    expect(uidsOf(after)).toEqual(uidsOf(four.filter((machine) => uidOf(machine) !== uidOf(marked))));
    expect(uidsOf(after)).toEqual(expect.arrayContaining(uidsOf(staying)));
  });

  it('[mcm 81] is deleted when it has no machines and is one of the oldest beyond the history limit', async () => {
    const { control, namespace } = millwright;
    await millwright.createDeployment('history', 1, { revisionHistoryLimit: 1 });
    await untilComplete('history');
    const sets = async () =>
      (await control.list(machineSets, { namespace, labelSelector: `${labels.name}=history` })).items;
    const made: string[] = (await sets()).map(({ metadata }) => metadata.name);

    for (const round of ['1', '2', '3']) {
      const young = (await sets()).find(({ metadata }) => metadata.name === made.at(-1))!;
      const bornMs = Date.parse(young.metadata.creationTimestamp); // the API server keeps seconds
      await until('the next set is younger', async () => Date.now() >= bornMs + 1_000);
      await millwright.changeDeployment('history', { spec: { template: { metadata: { annotations: { round } } } } });
      const added = await until('another set is there', async (see) =>
        see(await sets())
          .map(({ metadata }) => metadata.name)
          .find((name) => !made.includes(name)),
      );
      made.push(added);
      await until('the two youngest sets are left', async () => {
        const left = (await sets()).map(({ metadata }) => metadata.name).toSorted();
        return String(left) === String(made.slice(-2).toSorted());
      });
      await untilComplete('history');
    }
    expect(made).toHaveLength(4);
    expect((await sets()).map((set) => set.spec?.replicas).toSorted()).toEqual([0, 1]);
  });

  it('[mcm 82] gets another name where the set of another template has its own, and collisionCount says how often', async () => {
    const { control, namespace } = millwright;
    const templateOf = (note: string) => ({
      metadata: { labels: { [labels.name]: 'clash' }, annotations: { note } },
      spec: { class: { kind: 'MachineClass', name: 'small' } },
    });
    const [one, other] = [templateOf('1129599'), templateOf('1732382')];
    const hash = templateHash(gardener, one);
    expect(templateHash(gardener, other)).toBe(hash);
    // The name that a first collision leads to is somebody else's, too.
    const taken = newSetName('clash', templateHash(gardener, other, 1));
    const template = { metadata: { labels: { group: 'taken' } }, spec: one.spec };
    const spec = { replicas: 0, selector: { matchLabels: { group: 'taken' } }, template };
    const foreign = await control.create(machineSets, { metadata: key(taken), spec });

    await millwright.createDeployment('clash', 2, { template: one });
    await untilComplete('clash');
    await millwright.changeDeployment('clash', { spec: { template: other } });
    const updated = await until('two machines of the other template run', async (see) => {
      const found = see(await untilComplete('clash'));
      return found.every(({ metadata }) => metadata.annotations?.['note'] === '1732382') && found;
    });

    expect((await millwright.deployment('clash')).status?.collisionCount).toBe(2);
    const { items } = await control.list(machineSets, { namespace, labelSelector: `${labels.name}=clash` });
    const own = items.toSorted((a, b) => (b.spec?.replicas ?? 0) - (a.spec?.replicas ?? 0));
    const hashes = [templateHash(gardener, other, 2), hash];
    expect(own.map(({ metadata }) => metadata.name)).toEqual(hashes.map((each) => newSetName('clash', each)));
    expect(own.map(({ metadata }) => metadata.labels?.[labels.templateHash])).toEqual(hashes);
    expect(own.map((set) => set.spec?.replicas)).toEqual([2, 0]);
    expect(updated.map(controllerOf)).toEqual([own[0]?.metadata.uid, own[0]?.metadata.uid]);
    const { metadata } = await control.get(machineSets, key(taken));
    expect([metadata.uid, metadata.ownerReferences]).toEqual([foreign.metadata.uid, undefined]);
  });
});

describe('a MachineSet whose machines are refused', () => {
  let millwright: Installation;
  let proxy: FaultProxy;
  let dir: string;

  beforeAll(async () => {
    proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
    dir = await mkdtemp(join(tmpdir(), 'millwright-refused-'));
    const processKubeconfig = join(dir, 'kubeconfig');
    await proxy.writeKubeconfig(processKubeconfig);
    millwright = await startInstallation({ processKubeconfig });
  });
  afterAll(async () => {
    proxy?.setRule();
    await millwright?.stop();
    await proxy?.close();
    await rm(dir, { recursive: true });
  });

  it('[mcm 60] tries one creation in each pass, and all once the first one is accepted', async () => {
    const { control, namespace, temporal } = millwright;
    const isCreation = ({ method, url }: SeenRequest) => method === 'POST' && url.pathname.endsWith('/machines');
    let refused = 0;
    const body = statusBody(403, 'Forbidden', 'exceeded quota');
    proxy.setRule((request) => {
      if (!isCreation(request)) return undefined;
      refused += 1;
      return { kind: 'answer', status: 403, body };
    });
    await millwright.createDeployment('pool', 10);
    await until('three creations are refused', async () => refused >= 3);
    const owner = refOf(await control.get(machineDeployments, { namespace, name: 'pool' }));
    const id = workflowId(namespace, 'MachineDeployment', owner);
    const { runId } = await temporal.workflow.getHandle(id).describe(); // a later one may begin when this is done
    proxy.setRule();
    await millwright.untilMachines(10, 'Running');

    const events = (await temporal.workflow.getHandle(id, runId).fetchHistory()).events ?? [];
    const passes = events.filter(({ activityTaskFailedEventAttributes: failed }) => failed != null).length;
    expect([passes, proxy.seen.filter(isCreation).length]).toEqual([refused, refused + 10]);
  });
});
