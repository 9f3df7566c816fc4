import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { type Attention, attention } from '../../api/attention.ts';
import { gardener } from '../../api/gardener/index.ts';
import { toMachineSnapshot } from '../../api/gardener/machine/snapshot.ts';
import { finalizers } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { toNodeView } from '../../api/node.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { workflowId } from '../../api/workflow-id.ts';
import { events, type Node, nodes, secrets } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { type FaultProxy, type SeenRequest, startFaultProxy } from '../faults/proxy.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { refOf } from '../support/refs.ts';
import { until } from '../support/until.ts';

/** Machines that nobody touches, and those that are changed while there are no controllers. */
const restingCount = 13;
const changedCount = 7;
const count = restingCount + changedCount;
/** Above the last of the timeouts of kubelets: they report once and no more. */
const never = 2 ** 31 - 1;
const defaults = { creationSeconds: 1200, drainSeconds: 60, maxEvictRetries: 360, nodeConditions: [] };

const isWrite = ({ method }: SeenRequest) => method !== 'GET';
const isOfLease = ({ url }: SeenRequest) => url.pathname.includes('/leases');
/** Each process looks every minute whether its namespace is still the same. */
const isOfNamespace = ({ method, url }: SeenRequest) =>
  method === 'GET' && /^\/api\/v1\/namespaces\/[^/]+$/.test(url.pathname);
/** A watch lasts minutes, and one object is read before the next one begins. */
const isWatching = ({ isWatch, url }: SeenRequest) => isWatch || url.searchParams.get('limit') === '1';
const versionOf = (kind: string, { metadata }: KubeObject): [string, string] => [
  `${kind}/${metadata.name}`,
  metadata.resourceVersion,
];
const inWords = ({ method, url, headers }: SeenRequest) => `${headers['user-agent']} ${method} ${url.pathname}`;

describe('machines at rest', () => {
  let millwright: Installation;
  let proxy: FaultProxy;
  let dir: string;
  let controllers: MillwrightProcess;
  let worker: MillwrightProcess;

  const start = async (command: 'controllers' | 'worker') => {
    const { namespace, processes } = millwright;
    // A sweep reads what there is, and could be due at any moment.
    // Nobody starts the controllers again, and creating many machines may delay a renewal of their Leases.
    const leases = ['--leader-elect-renew-deadline', '20s', '--leader-elect-lease-duration', '30s'];
    const flags = command === 'controllers' ? ['--machine-safety-orphan-vms-period', '0s', ...leases] : [];
    const started = await startMillwright({ namespace, kubeconfig: join(dir, 'kubeconfig'), command, flags });
    processes.push(started);
    return started;
  };
  async function startControllers(): Promise<void> {
    controllers = await start('controllers');
    await until('they lead', async () => controllers.logs().includes('controllers started'));
  }

  beforeAll(async () => {
    proxy = await startFaultProxy(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
    dir = await mkdtemp(join(tmpdir(), 'millwright-rest-'));
    await proxy.writeKubeconfig(join(dir, 'kubeconfig'));
    millwright = await startInstallation({ isStopped: true, cloud: { statusUpdateMs: never } });
    millwright.recordAs('rest');
    await Promise.all([
      millwright.createDeployment('rest', restingCount),
      millwright.createDeployment('changed', changedCount),
    ]);
    [worker] = await Promise.all([start('worker'), startControllers()]);
    await millwright.untilMachines(count, 'Running', 240_000);
    await untilQuiet();
  });
  afterAll(async () => {
    await millwright?.stop();
    await proxy?.close();
    await rm(dir, { recursive: true, force: true });
  });

  /** The resourceVersions of all objects of the installation, by `<plural>/<name>`; Events by what they are about. */
  async function versions(): Promise<[string, string][]> {
    const { control, namespace } = millwright;
    const own: Resource<KubeObject>[] = [machines, machineSets, machineDeployments, machineClasses, secrets];
    const lists = own.map(async (resource) => {
      const { items } = await control.list(resource, { namespace });
      return items.map((item) => versionOf(resource.plural, item));
    });
    const reported = (await control.list(events, { namespace })).items;
    return [
      ...(await Promise.all(lists)).flat(),
      ...reported.map((event) => versionOf(`events/${event.regarding.name}`, event)),
      ...(await millwright.nodes()).map((node) => versionOf('nodes', node)),
    ];
  }

  /** Runs of all workflows of the installation with the number of their events. */
  async function histories(): Promise<[string, number][]> {
    const { temporal, namespace } = millwright;
    const ids = (await millwright.machines()).map((machine) => workflowId(namespace, 'Machine', refOf(machine)));
    for await (const { workflowId: id } of temporal.workflow.list({
      query: `MillwrightInstallation = '${namespace}'`,
    })) {
      ids.push(id);
    }
    const found = [...new Set(ids)].map(async (id): Promise<[string, number]> => {
      const { runId, historyLength } = await temporal.workflow.getHandle(id).describe();
      return [`${id} ${runId}`, historyLength];
    });
    return Promise.all(found);
  }

  /** How many keys a work queue of the controllers has handled since they were started. */
  async function handledBy(queue: string): Promise<number> {
    const metrics = await (await fetch(`${controllers.url}/metrics`)).text();
    const count = new RegExp(`^mcm_workqueue_work_duration_seconds_count\\{name="${queue}"\\} (\\d+)$`, 'm');
    return Number(count.exec(metrics)?.[1] ?? 0);
  }

  /** Everything that Millwright could have changed; with `part`, of objects whose names begin with it. */
  async function footprint(part = ''): Promise<Record<string, string | number>> {
    const all = [...(await versions()), ...(await histories())];
    return Object.fromEntries(all.filter(([key]) => key.includes(`/${part}`)).toSorted());
  }

  /** Waits until nothing was written through several renewals of the Leases, which come twice a second. */
  async function untilQuiet(): Promise<void> {
    await until('nothing is written but to the Leases', () => {
      const last = proxy.seen.filter(isWrite).slice(-12);
      return last.length === 12 && last.every(isOfLease);
    });
  }

  it('[invariant 9] cost nothing in a round of all that is done every minute: no write but to the Leases, no read but of these and the namespace, no event of Temporal', async () => {
    const before = await footprint();
    const first = proxy.seen.length;
    const resynced = await handledBy('machines-resync');

    const lookers = () =>
      new Set(
        proxy.seen
          .slice(first)
          .filter(isOfNamespace)
          .map(({ headers }) => headers['user-agent']),
      );
    await until('both processes have looked at the namespace', () => lookers().size === 2);
    await until(
      'all machines were resynced',
      async (see) => see(await handledBy('machines-resync')) >= resynced + count,
    );

    const seen = proxy.seen.slice(first);
    expect(await footprint()).toEqual(before);
    const isExpected = (request: SeenRequest) => [isOfLease, isOfNamespace, isWatching].some((is) => is(request));
    expect(seen.filter((request) => !isExpected(request)).map(inWords)).toEqual([]);
    const leases = seen.filter(isOfLease);
    expect(leases.length).toBeGreaterThan(0);
    expect(new Set(leases.map(({ url }) => url.pathname.split('/').at(-1)))).toEqual(
      new Set(['machine-controller-manager', 'machine-controller']),
    );
    expect(Object.keys(before).filter((key) => key.includes('/machine/'))).toHaveLength(count);
  });

  it('[invariant 11] are signalled nothing when the controllers and the worker start again', async () => {
    const before = await footprint();
    await Promise.all([controllers.stop(), worker.stop()]);
    const first = proxy.seen.length;

    [worker] = await Promise.all([start('worker'), startControllers()]);
    await until('all machines were handled', async (see) => see(await handledBy('machine')) >= count);
    await until('stale workflows were looked for', async (see) => see(await handledBy('stale-workflows')) > 0);
    const writes = proxy.seen.slice(first).filter((request) => isWrite(request) && !isOfLease(request));
    expect(writes.map(inWords)).toEqual([]);
    // Workflows are refreshed in the order in which that was asked for: those that seemed stale would come before this
    // one.
    const last = await millwright.createMachine('latest');
    await millwright.untilPhase(last, 'Running');
    await millwright.remove(last);
    await until('a workflow was refreshed', async (see) => see(await handledBy('refreshes')) > 0);

    expect(await handledBy('refreshes')).toBe(1);
    const after = Object.entries(await footprint()).filter(([key]) => !key.includes('/latest'));
    expect(Object.fromEntries(after)).toEqual(before);
  });

  describe('of which some are changed while there are no controllers', () => {
    interface Change {
      /** What `attention` says of the machine then. */
      readonly raises: readonly Attention[];
      make(name: string): Promise<unknown>;
      /** Whether the machine has come to what it should. */
      isDone(machine: Machine | undefined, node: Node | undefined): boolean;
    }

    const machineKey = (name: string) => ({ namespace: millwright.namespace, name });
    const withoutFinalizers = mergePatch({ metadata: { finalizers: null } });
    /** Every reason that there is for attention. */
    const changes: readonly Change[] = [
      {
        raises: ['deletion'],
        make: (name) => millwright.control.delete(machines, machineKey(name)),
        isDone: (machine, node) => machine === undefined && node === undefined,
      },
      {
        raises: ['nodeDeleting'],
        make: (name) => millwright.target.delete(nodes, { name }),
        isDone: (machine, node) => machine === undefined && node === undefined,
      },
      {
        raises: ['nodeMissing'],
        async make(name) {
          await millwright.target.patch(nodes, { name }, withoutFinalizers);
          await millwright.target.delete(nodes, { name });
        },
        isDone: (machine) => machine !== undefined && phaseOf(machine) === 'Unknown',
      },
      {
        raises: ['nodeConditions', 'nodeHealth'],
        make: (name) => report(name, 'Ready', 'False'),
        isDone: (machine) =>
          machine?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'False') === true &&
          phaseOf(machine) === 'Unknown',
      },
      {
        raises: ['finalizer'],
        make: (name) => millwright.control.patch(machines, machineKey(name), withoutFinalizers),
        isDone: (machine) => machine?.metadata.finalizers?.includes(finalizers.machine) === true,
      },
      {
        raises: ['nodeUnmanaged'],
        make: (name) => millwright.target.patch(nodes, { name }, withoutFinalizers),
        isDone: (_, node) => node?.metadata.finalizers?.includes(finalizers.node) === true,
      },
      {
        raises: ['stage', 'nodeHealth'],
        make: (name) => {
          const patch = mergePatch({ status: { currentStatus: { phase: 'Pending' } } });
          return millwright.control.patch(machines, machineKey(name), patch, { subresource: 'status' });
        },
        isDone: (machine) => machine !== undefined && phaseOf(machine) === 'Running',
      },
    ];

    /** Writes a condition as a kubelet does. Nodes have the names of their machines. */
    async function report(name: string, type: string, status: string): Promise<void> {
      const lastHeartbeatTime = new Date().toISOString().replace(/\.\d+/, '');
      const condition = { type, status, reason: 'Test', message: 'test', lastHeartbeatTime };
      const patch = strategicMergePatch({ status: { conditions: [condition] } });
      await millwright.target.patch(nodes, { name }, patch, { subresource: 'status' });
    }

    /** Machines that are not at rest, with the reasons. */
    async function restless(): Promise<Record<string, Attention[]>> {
      const byName = new Map((await millwright.nodes()).map((node) => [node.metadata.name, node]));
      const found = (await millwright.machines()).map((machine): [string, Attention[]] => {
        const { namespace = '', name } = machine.metadata;
        const node = toNodeView(gardener.marks, { node: byName.get(name) }, { namespace, name });
        return [name, attention(toMachineSnapshot(machine, defaults), node)];
      });
      return Object.fromEntries(found.filter(([, reasons]) => reasons.length > 0));
    }

    /** The run of a machine's workflow that is the latest now. */
    async function runOf(machine: Machine): Promise<WorkflowHandle> {
      const id = workflowId(millwright.namespace, 'Machine', refOf(machine));
      const { runId } = await millwright.temporal.workflow.getHandle(id).describe();
      return millwright.temporal.workflow.getHandle(id, runId);
    }

    /** Names of the signals that a run was sent, in order. */
    async function signalsOf(run: WorkflowHandle): Promise<string[]> {
      const { events: history } = await run.fetchHistory();
      return (history ?? []).flatMap(
        ({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName ?? [],
      );
    }

    it('[invariant 11] are not signalled, those that were changed are, and none of them is lost', async () => {
      const { control, target, cloud } = millwright;
      const all = await millwright.machines();
      const changed = all.filter(({ metadata }) => metadata.name.startsWith('changed-'));
      const resting = all.filter(({ metadata }) => metadata.name.startsWith('rest-'));
      const runs = await Promise.all(changed.map(runOf));
      const reported = await Promise.all(runs.map(signalsOf));
      const { vmsEver } = await cloud.stats();
      await controllers.stop();

      // What is nobody's business:
      const [noted, beaten] = resting.map(({ metadata }) => metadata.name);
      const annotated = mergePatch({ metadata: { annotations: { 'example.com/note': 'changed' } } });
      await control.patch(machines, machineKey(noted ?? ''), annotated);
      await control.patch(machineClasses, machineKey('small'), annotated);
      const setName = resting[0]?.metadata.ownerReferences?.[0]?.name ?? '';
      await control.patch(machineSets, machineKey(setName), annotated);
      await report(beaten ?? '', 'MemoryPressure', 'False');
      // what is:
      for (const [index, { make }] of changes.entries()) await make(changed[index]?.metadata.name ?? '');
      await millwright.scale('changed', changedCount + 1);
      expect(await restless()).toEqual(
        Object.fromEntries(changes.map(({ raises }, index) => [changed[index]?.metadata.name, raises])),
      );
      const before = await footprint('rest');

      await startControllers();

      const isDone = async (name: string, change: Change) =>
        change.isDone(await control.find(machines, machineKey(name)), await target.find(nodes, { name }));
      for (const [index, change] of changes.entries()) {
        await until(`what raised ${change.raises} is done`, () => isDone(changed[index]?.metadata.name ?? '', change), {
          describe: () => millwright.story(),
        });
      }
      // Of the seven 2 are replaced and 2 have unhealthy nodes; the eighth is new.
      await until('the deployment has what it should', async () => {
        const phases = (await millwright.machines()).map(phaseOf);
        const running = phases.filter((phase) => phase === 'Running').length;
        return phases.length === count + 1 && running === count - 1;
      });
      await untilQuiet();

      expect(await footprint('rest')).toEqual(before);
      expect((await cloud.stats()).vmsEver).toBe(vmsEver + 3);
      for (const [index, run] of runs.entries()) {
        const signals = (await signalsOf(run)).slice(reported[index]?.length);
        expect([changes[index]?.raises, signals]).toEqual([
          changes[index]?.raises,
          expect.arrayContaining(['observed']),
        ]);
      }
    });
  });
});
