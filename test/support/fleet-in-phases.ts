/** A fleet that is brought into every phase of a machine, held there, and released: by whichever controller leads. */
import type { z } from 'zod';
import { annotations, labels, taints, updateResults } from '../../api/gardener/names.ts';
import { machineDeployments, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { Fault } from '../../deploy/local/simulated-cloud/faults.ts';
import { type Node, nodes, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { startReflector } from '../../kube/reflector.ts';
import { type Installation, phaseOf } from './installation.ts';
import { recordingLogger } from './kube.ts';
import { reportCondition } from './node-conditions.ts';
import { until } from './until.ts';

/** Machines in each phase. */
export const size = 20;

type FaultInput = z.input<typeof Fault>;

/**
 * Machines that are held in one phase. They have a class of its name, or several whose names begin with it and a dot.
 */
interface Group {
  /** Machines before it is held, and when it is released. Default: 20. */
  readonly replicas?: number;
  readonly after?: number;
  /** Its machines have no deployment. */
  readonly isBare?: boolean;
  /** Its machines do not outlive a round. */
  readonly isTransient?: boolean;
  /** Only MCM can be held there: Millwright finds its own VMs by their UID. */
  readonly isOfMcm?: boolean;
  readonly deployment?: object;
  readonly machine?: object;
  /** Faults of the cloud that hold it, and others while its machines are made. */
  readonly faults?: readonly FaultInput[];
  readonly atFirst?: readonly FaultInput[];
  /** Whether its machines can be held. Default: they run. */
  isMade?(own: readonly Machine[]): boolean | Promise<boolean>;
  hold?(own: readonly Machine[], round: number): Promise<unknown>;
  isHeld(own: readonly Machine[]): boolean;
  release?(own: readonly Machine[]): Promise<unknown>;
  /** What others do again and again until the group is at rest. */
  goOn?(own: readonly Machine[]): Promise<unknown>;
}

export type PhaseFleet = Awaited<ReturnType<typeof startFleet>>;

/** Makes the deployments, without machines. The cluster of the installation is its own. */
export async function startFleet(installation: Installation) {
  const { control, target, cloud, namespace } = installation;
  const watched = { logger: recordingLogger(), onEvent: () => undefined };
  const machineWatch = startReflector<Machine>({ client: control, resource: machines, namespace, ...watched });
  const nodeWatch = startReflector<Node>({ client: target, resource: nodes, ...watched });
  await Promise.all([machineWatch.waitForSync(), nodeWatch.waitForSync()]);

  const ofGroup = (group: string) =>
    machineWatch.store.list().filter(({ spec }) => spec?.class?.name?.split('.')[0] === group);
  const nodeOf = ({ metadata }: Machine) => nodeWatch.store.list().find((node) => node.metadata.name === metadata.name);
  const conditionOf = (machine: Machine, type: string) =>
    nodeOf(machine)?.status?.conditions?.find((condition) => condition.type === type);
  const isPreserved = ({ status }: Machine) => status?.currentStatus?.preserveExpiryTime !== undefined;
  const all = (phase: string) => (own: readonly Machine[]) => own.every((each) => phaseOf(each) === phase);
  const inPhase = (own: readonly Machine[], phase: string) => own.filter((each) => phaseOf(each) === phase);

  const forEach = (own: readonly Machine[], act: (machine: Machine) => Promise<unknown>) => Promise.all(own.map(act));
  const report = (status: string) => (own: readonly Machine[]) =>
    forEach(own, ({ metadata }) => reportCondition(target, metadata.name, 'Ready', status));
  const remove = (own: readonly Machine[]) => forEach(own, ({ metadata }) => control.delete(machines, metadata));
  const change = (name: string, spec: object) =>
    control.patch(machineDeployments, { namespace, name }, mergePatch({ spec }));
  const preserve = (value: string | null) => (own: readonly Machine[]) =>
    forEach(own, ({ metadata }) =>
      control.patch(machines, metadata, mergePatch({ metadata: { annotations: { [annotations.preserve]: value } } })),
    );
  async function restart(own: readonly Machine[]): Promise<void> {
    const names = new Set(own.map(({ metadata }) => metadata.name));
    const vms = (await cloud.vms()).filter(({ name }) => names.has(name));
    await Promise.all(vms.map(({ id }) => cloud.restartVm(id)));
  }
  async function haveVms(own: readonly Machine[]): Promise<boolean> {
    const names = new Set((await cloud.vms()).map(({ name }) => name));
    return own.every(({ metadata }) => names.has(metadata.name));
  }
  function isKeptFailed(machine: Machine): boolean {
    const isDrained = conditionOf(machine, 'Preserved')?.message?.includes('drained successfully') === true;
    return phaseOf(machine) === 'Failed' && isPreserved(machine) && isDrained;
  }

  const meeting = (group: string) => ({ tags: { group } });
  const neverJoin = (group: string) => ({ kind: 'neverJoin', ...meeting(group) }) as const;
  const hang = (group: string, effect: 'done' | 'none') =>
    ({ kind: 'hang', effect, operation: 'create', ...meeting(group) }) as const;
  const outage = (group: string, operation: 'list' | 'delete') =>
    ({ kind: 'outage', how: 'unavailable', operation, ...meeting(group) }) as const;
  /** The VMs are made, the answers are lost, and nobody can list them. */
  const unnamed = (group: string): Group => ({
    isBare: true,
    isOfMcm: true,
    atFirst: [hang(group, 'done'), { kind: 'lostAnswer', effect: 'done', operation: 'create', ...meeting(group) }],
    faults: [outage(group, 'list')],
    isMade: haveVms,
    isHeld: all('CrashLoopBackOff'),
  });

  const guard = { namespace: 'default', name: 'guard' };
  /** Runs a pod on each Node that is not evicted before the budget is deleted. */
  async function guardNodes(own: readonly Machine[]): Promise<void> {
    const matchLabels = { app: guard.name };
    await forEach(own, ({ metadata: { name } }) =>
      target.create(pods, {
        metadata: { namespace: guard.namespace, name, labels: matchLabels },
        spec: { nodeName: name, containers: [{ name: 'app', image: 'app' }] },
      }),
    );
    await target.create(podDisruptionBudgets, {
      metadata: guard,
      spec: { selector: { matchLabels }, minAvailable: own.length + 1 },
    });
    await until('the budget knows all pods', async (see) => {
      const { status } = see(await target.get(podDisruptionBudgets, guard));
      return status?.currentHealthy === own.length;
    });
  }

  /** The agent on the Node of an update in place, and whoever sees its critical components run again. */
  async function playAgent(machine: Machine): Promise<void> {
    const { metadata, spec } = nodeOf(machine)!;
    const { name } = metadata;
    const others = spec?.taints?.filter(({ key }) => key !== taints.criticalComponentsNotReady.key) ?? [];
    const isReady = conditionOf(machine, 'InPlaceUpdate')?.reason === 'ReadyForUpdate';
    if (others.length < (spec?.taints?.length ?? 0))
      await target.patch(nodes, { name }, mergePatch({ spec: { taints: others } }));
    else if (isReady && metadata.labels?.[labels.updateResult] === undefined) {
      const result = { [labels.updateResult]: updateResults.successful };
      await target.patch(nodes, { name }, mergePatch({ metadata: { labels: result } }));
    }
  }

  const groups: Readonly<Record<string, Group>> = {
    running: { isHeld: all('Running') },
    pending: {
      isTransient: true,
      faults: [neverJoin('pending')],
      isMade: all('Pending'),
      isHeld: all('Pending'),
      release: restart,
    },
    refused: {
      isTransient: true,
      faults: [{ kind: 'capacity', ...meeting('refused') }],
      isMade: all('CrashLoopBackOff'),
      isHeld: all('CrashLoopBackOff'),
    },
    unnamed: { ...unnamed('unnamed'), isTransient: true },
    'unnamed-deleted': {
      ...unnamed('unnamed-deleted'),
      after: 0,
      async hold(own) {
        await until('their creations are refused', () => all('CrashLoopBackOff')(ofGroup('unnamed-deleted')));
        await remove(own);
      },
      isHeld: all('Terminating'),
    },
    draining: {
      replicas: size + 1,
      after: 1,
      isTransient: true,
      // MCM counts a machine that it has just deleted until its phase is Terminating, and deletes others meanwhile:
      // of a lower priority it takes the same ones again.
      async hold(own) {
        await guardNodes(own);
        const lower = { [annotations.priority]: '2' };
        await forEach(own.slice(1), ({ metadata }) =>
          control.patch(machines, metadata, mergePatch({ metadata: { annotations: lower } })),
        );
        await change('draining', { replicas: 1 });
      },
      isHeld: (own) =>
        inPhase(own, 'Running').length === 1 &&
        inPhase(own, 'Terminating').filter((each) => nodeOf(each)?.spec?.unschedulable === true).length === size,
      release: () => target.delete(podDisruptionBudgets, guard),
    },
    'vm-refused': {
      after: 0,
      isTransient: true,
      atFirst: [],
      faults: [outage('vm-refused', 'delete')],
      hold: () => change('vm-refused', { replicas: 0 }),
      isHeld: (own) => own.every(({ status }) => /Initiate VM deletion/.test(status?.lastOperation?.description ?? '')),
    },
    unknown: { hold: report('Unknown'), isHeld: all('Unknown'), release: report('True') },
    failed: {
      after: 0,
      isBare: true,
      machine: { creationTimeout: '5s' },
      faults: [neverJoin('failed')],
      isMade: all('Failed'),
      isHeld: all('Failed'),
      release: remove,
    },
    'preserved-running': {
      hold: preserve('now'),
      isHeld: (own) => own.every((each) => isPreserved(each) && conditionOf(each, 'Preserved')?.status === 'True'),
      release: preserve(null),
    },
    'preserved-failed': {
      machine: { healthTimeout: '2s' },
      async hold(own) {
        await preserve('when-failed')(own);
        await report('Unknown')(own);
      },
      isHeld: (own) => own.every(isKeptFailed),
      release: report('True'),
    },
    'preserved-by-set': {
      deployment: { autoPreserveFailedMachineMax: size },
      machine: { healthTimeout: '2s' },
      hold: report('Unknown'),
      isHeld: (own) => own.every(isKeptFailed),
      release: report('True'),
    },
    rollout: {
      deployment: { strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: size / 2, maxUnavailable: 0 } } },
      atFirst: [],
      faults: [neverJoin('rollout')],
      // The first half of the new machines joins, the second half does not.
      async hold(_, round) {
        const name = rolloutClasses[round % 2];
        await change('rollout', { template: { spec: { class: { name } } } });
        const joining = () => inPhase(ofGroup('rollout'), 'Pending');
        await until('the first half has VMs', () => joining().length === size / 2);
        await restart(joining());
      },
      isHeld: (own) => inPhase(own, 'Running').length === size && inPhase(own, 'Pending').length === size / 2,
      release: (own) => restart(inPhase(own, 'Pending')),
    },
    // Half of them are ready for their agents, and the others are candidates.
    'in-place': {
      replicas: 2 * size,
      deployment: {
        strategy: {
          type: 'InPlaceUpdate',
          inPlaceUpdate: { maxSurge: 0, maxUnavailable: size, orchestrationType: 'Auto' },
        },
      },
      hold: (_, round) => change('in-place', { template: { metadata: { annotations: { version: String(round) } } } }),
      isHeld: (own) => {
        const of = (reason: string) => own.filter((each) => conditionOf(each, 'InPlaceUpdate')?.reason === reason);
        const isReady = inPhase(of('ReadyForUpdate'), 'InPlaceUpdating').length === size;
        return isReady && of('CandidateForUpdate').length === size;
      },
      goOn: (own) => forEach(own, playAgent),
    },
    // Their create calls are on their way when the controllers change.
    begun: { replicas: size / 2, isBare: true, isTransient: true, isHeld: all('Running') },
    asked: { replicas: size / 2, isBare: true, isTransient: true, isHeld: all('Running') },
  };
  const inFlight = ['begun', 'asked'] as const;
  const rolloutClasses = ['rollout.a', 'rollout.b'] as const;

  for (const [name, { isBare = false, deployment = {}, machine = {} }] of Object.entries(groups)) {
    const tags = { cluster: namespace, group: name };
    const providerSpec = { endpoint: cloud.url, machineType: 'small', region: 'here', tags };
    const classes = name === 'rollout' ? rolloutClasses : [name];
    for (const each of classes) await installation.createClass(each, { providerSpec });
    const spec = { class: { kind: 'MachineClass', name: classes[0] }, ...machine };
    const template = { metadata: { labels: { [labels.name]: name } }, spec };
    if (!isBare) await installation.createDeployment(name, 0, { template, ...deployment });
  }

  /** Whether it runs, and nothing says that anything was or is under way. */
  function isAtRest(machine: Machine): boolean {
    const { metadata, spec, status } = nodeOf(machine) ?? {};
    const passing = [annotations.scaleDownDisabled, annotations.scaleDownDisabledByMcm, annotations.preserve];
    const ofUpdate = [labels.candidateForUpdate, labels.selectedForUpdate, labels.updateResult];
    const marks = { ...metadata?.annotations, ...metadata?.labels };
    const isUsable = spec?.unschedulable !== true && (spec?.taints ?? []).length === 0;
    const bad = status?.conditions?.filter(({ type }) => type === 'Terminating' || type === 'Preserved') ?? [];
    return (
      phaseOf(machine) === 'Running' &&
      !isPreserved(machine) &&
      isUsable &&
      ![...passing, ...ofUpdate].some((key) => key in marks) &&
      bad.every((condition) => condition.status === 'False')
    );
  }

  async function make(name: string, round: number): Promise<void> {
    const { replicas = size, isBare = false, machine = {} } = groups[name]!;
    const spec = { class: { kind: 'MachineClass', name }, ...machine };
    if (!isBare) await change(name, { replicas });
    else for (let i = 0; i < replicas; i++) await installation.createMachine(`${name}-${round}-${i}`, spec);
  }

  /** Waits until the check holds for each of these groups. */
  async function untilEach(
    what: string,
    names: readonly string[],
    check: (own: readonly Machine[], group: Group) => boolean | Promise<boolean>,
  ): Promise<void> {
    const countsOf = (name: string) => {
      const found = Object.groupBy(ofGroup(name), phaseOf);
      return `${name}: ${Object.entries(found).map(([phase, own = []]) => `${own.length} ${phase || '(new)'}`)}`;
    };
    await until(
      what,
      async (see) => {
        const open: string[] = [];
        for (const name of names) if (!(await check(ofGroup(name), groups[name]!))) open.push(name);
        return see(open.map(countsOf)).length === 0;
      },
      { timeoutMs: 600_000 },
    );
  }

  const held = (isMcm: boolean) =>
    Object.entries(groups).filter(
      ([name, { isOfMcm }]) => !inFlight.some((each) => each === name) && (isMcm || !isOfMcm),
    );

  return {
    /** Those that are held in this round. @param isMcm MCM leads */
    heldGroups: (isMcm: boolean) => held(isMcm).map(([name]) => name),
    /** The group of a Machine or Node. */
    groupOf: (name: string) =>
      Object.keys(groups)
        .filter((group) => name.startsWith(`${group}-`))
        .toSorted((a, b) => b.length - a.length)[0],

    /**
     * Brings twenty machines into each phase, and holds them there. Other machines are being created when it returns.
     */
    async hold(round: number, isMcm: boolean): Promise<void> {
      const those = held(isMcm);
      const names = those.map(([name]) => name);
      await cloud.setFaults(...those.flatMap(([, { faults = [], atFirst = faults }]) => atFirst));
      for (const name of names) await make(name, round);
      await untilEach('all machines are made', names, (own, { replicas = size, isMade = all('Running') }) => {
        return own.length === replicas && isMade(own);
      });
      const faults = those.flatMap(([, { faults = [] }]) => faults);
      await cloud.setFaults(...faults);
      for (const [name, { hold }] of those) await hold?.(ofGroup(name), round);
      await untilEach('all machines are held', names, (own, { isHeld }) => isHeld(own));

      await cloud.setFaults(...faults, hang('begun', 'done'), hang('asked', 'none'));
      for (const name of inFlight) await make(name, round);
      await until('the last create calls hang', async (see) => {
        const hanging = (await cloud.faults()).filter(({ fault }) => fault.kind === 'hang');
        return see(hanging).every(({ shown }) => shown >= size / 2);
      });
    },

    /** Ends the create calls that hang. What holds the others stays, and is counted anew. */
    async endCalls(isMcm: boolean): Promise<void> {
      await cloud.setFaults(...held(isMcm).flatMap(([, { faults = [] }]) => faults));
    },

    /** Waits until the machines run that were being created, and each call that is refused was made again. */
    async untilTaken(times: number): Promise<void> {
      await untilEach('all runs that was being created', inFlight, all('Running'));
      const isRefusal = ({ fault }: { fault: FaultInput }) => fault.kind !== 'neverJoin';
      await until(
        'each call that is refused was made again',
        async (see) => see((await cloud.faults()).filter(isRefusal)).every(({ shown }) => shown >= times * size),
        { timeoutMs: 300_000 },
      );
    },

    /** Lets everything go on, and waits until all machines are at rest and those of one round are gone. */
    async release(isMcm: boolean): Promise<void> {
      const those = held(isMcm);
      await cloud.setFaults();
      for (const [name, { release }] of those) await release?.(ofGroup(name));
      await untilEach(
        'all machines are at rest',
        those.map(([name]) => name),
        async (own, { replicas = size, after = replicas, goOn }) => {
          await goOn?.(own);
          return own.length === after && own.every(isAtRest);
        },
      );
      const transient = Object.entries(groups).filter(([, { isTransient = false }]) => isTransient);
      for (const [name, { isBare = false }] of transient)
        await (isBare ? remove(ofGroup(name)) : change(name, { replicas: 0 }));
      await untilEach(
        'the machines of the round are gone',
        transient.map(([name]) => name),
        (own) => own.length === 0,
      );
    },

    /** Deletes everything, and waits until no Machine is left. */
    async remove(): Promise<void> {
      for (const [name, { isBare = false }] of Object.entries(groups))
        if (!isBare) await control.delete(machineDeployments, { namespace, name });
      await until('no Machine is left', () => machineWatch.store.list().length === 0, { timeoutMs: 300_000 });
    },

    async stop(): Promise<void> {
      await Promise.all([machineWatch.stop(), nodeWatch.stop()]);
    },
  };
}
