/**
 * Plays machine-controller-manager (MCM): leaves objects, VMs and Nodes as v0.62.1 does, without any mark of
 * Millwright. test/end-to-end/played-mcm.long.test.ts compares them with those of MCM itself.
 */
import { createVm, deleteResource } from '../../activities/providers/simulated/client.ts';
import { annotations, deletionSteps, finalizers, labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { KubeObject, NewObject, Resource } from '../../api/objects.ts';
import { type Node, nodes, secrets } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { type Installation, plainSecret } from './installation.ts';
import { until } from './until.ts';

/** How far the VM of a machine is: `joined` is one whose Node MCM has marked. */
type VmState = 'none' | 'made' | 'joined' | 'gone';

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message?: string;
}

type NodeSpec = { readonly unschedulable?: boolean; readonly taints?: readonly object[] };

/** What MCM leaves of a machine. */
export interface McmMachine {
  readonly vm: VmState;
  /** Whether the Machine names its VM, as it does from the end of the create call on. Default: it has one. */
  readonly isNamed?: boolean;
  /**
   * Whether it has the label `node`, which MCM sets where it knows the cluster of the Nodes. Default: with its name.
   */
  readonly isLabelled?: boolean;
  /** Whether its Node is there. Default: as its VM. */
  readonly hasNode?: boolean;
  readonly phase?: string;
  /** `<machine>` in its description stands for the name. Default: it has joined. */
  readonly operation?: { readonly type: string; readonly state: string; readonly description: string };
  readonly errorCode?: string;
  /** Conditions of the Machine that are still other ones than those of its Node. */
  readonly conditions?: readonly Condition[];
  /** More of `status.currentStatus`. */
  readonly current?: object;
  readonly metadata?: { readonly labels?: object; readonly annotations?: object };
  /** What is changed on its Node. Its conditions are added to those of the kubelet. */
  readonly node?: {
    readonly metadata?: object;
    readonly spec?: NodeSpec;
    readonly conditions?: readonly Condition[];
  };
  /** It is being deleted. */
  readonly isDeleted?: true;
  /** UID of its MachineSet. */
  readonly set?: McmSet;
}

export interface McmSet {
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** What MCM leaves of a rollout. */
export interface McmRollout {
  readonly replicas: number;
  /** Version of the deployment's template. */
  readonly current: string;
  readonly strategy: {
    readonly type: string;
    readonly rollingUpdate?: { readonly maxSurge: number; readonly maxUnavailable: number };
  };
  /** The oldest first: its revision is 1. */
  readonly sets: readonly {
    readonly version: string;
    readonly replicas: number;
    readonly marks?: { readonly labels?: object; readonly annotations?: object };
  }[];
  /** Of the deployment. Default: that of the last set. */
  readonly revision?: number;
  /** Of the condition Progressing, which is about the last set. Default: MachineSetUpdated. */
  readonly reason?: keyof typeof progress;
}

/** Messages of the condition Progressing by its reason. */
const progress = {
  NewMachineSetCreated: (set: string) => `Created new machine set "${set}"`,
  MachineSetUpdated: (set: string) => `MachineSet "${set}" is progressing.`,
  NewMachineSetAvailable: (set: string) => `MachineSet "${set}" has successfully progressed.`,
} as const;

/** As MCM before v0.62 writes it, with a time that is null: Millwright has to read that, too. */
const nodeTemplate = {
  metadata: { creationTimestamp: null, labels: { pool: 'workers' }, annotations: { owner: 'somebody' } },
  spec: { taints: [{ key: 'dedicated', value: 'workers', effect: 'PreferNoSchedule' }] },
};
export const machineSpec = { class: { kind: 'MachineClass', name: 'small' }, drainTimeout: '2h0m0s', nodeTemplate };
const joined = {
  type: 'Create',
  state: 'Successful',
  description: 'Machine <machine> successfully joined the cluster',
};

/** Time of a status as Go writes it, so many seconds ago. */
export function secondsAgo(seconds: number): string {
  return new Date(Date.now() - seconds * 1_000).toISOString().replace(/\.\d+/, '');
}

/** Operation of a machine whose deletion is at a step: MCM finds the step in the description alone. */
export function atStep(step: keyof typeof deletionSteps, before = '') {
  return { type: 'Delete', state: 'Processing', description: `${before}${deletionSteps[step]}` };
}

export function playMcm({ namespace, control, target, cloud }: Installation) {
  const access = { endpoint: cloud.url, token: plainSecret.token };
  const inTime = () => AbortSignal.timeout(10_000);

  async function create(resource: Resource<KubeObject>, object: object): Promise<KubeObject> {
    return control.create(resource, object as NewObject<KubeObject>);
  }
  async function putStatus(resource: Resource<KubeObject>, name: string, status: object): Promise<void> {
    await control.patch(resource, { namespace, name }, mergePatch({ status }), { subresource: 'status' });
  }

  /** A VM with the tags of its class and the name of its Machine, and nothing else that says whose it is. */
  async function makeVm(name: string): Promise<string> {
    const body = { region: 'here', machineType: 'small', tags: { cluster: namespace }, userData: 'none' } as const;
    const vm = await createVm(access, { ...body, name, token: name, node: { labels: {}, taints: [] } }, inTime());
    return vm.id;
  }

  /** The Node as MCM marks it: finalizer, back reference, and what the template says with the note of it. */
  async function markNode(name: string, more: McmMachine['node'] = {}): Promise<Node> {
    const node = await until(`the Node ${name} has joined`, () => target.find(nodes, { name }));
    const { metadata, spec } = nodeTemplate;
    const marks = {
      finalizers: [...(node.metadata.finalizers ?? []), finalizers.node],
      labels: { ...metadata.labels, [labels.machineName]: name },
      annotations: { ...metadata.annotations, [annotations.lastAppliedNodeTemplate]: JSON.stringify(nodeTemplate) },
    };
    const taints = [...spec.taints, ...(more.spec?.taints ?? [])];
    await target.patch(nodes, { name }, mergePatch({ metadata: marks, spec: { ...more.spec, taints } }));
    await target.patch(nodes, { name }, mergePatch({ metadata: more.metadata ?? {} }));
    const at = secondsAgo(60);
    const conditions = (more.conditions ?? []).map((condition) => ({
      ...{ lastTransitionTime: at, ...(condition.type === 'Terminating' && { lastHeartbeatTime: at }) },
      ...condition,
    }));
    return target.patch(nodes, { name }, strategicMergePatch({ status: { conditions } }), { subresource: 'status' });
  }

  async function removeVm(name: string, id: string): Promise<void> {
    await deleteResource(access, { kind: 'vm', id }, inTime());
    const isGone = async () => !(await cloud.vms()).some((vm) => vm.id === id);
    await until(`the VM of ${name} is gone`, isGone);
  }

  async function removeNode(name: string): Promise<void> {
    await target.patch(nodes, { name }, mergePatch({ metadata: { finalizers: null } }));
    await target.delete(nodes, { name });
  }

  return {
    /** Deletes a machine and its VM, as MCM does from the first step to the last. */
    async remove(name: string): Promise<void> {
      const key = { namespace, name };
      await control.delete(machines, key);
      const [vm] = (await cloud.vms()).filter((each) => each.name === name);
      if (vm !== undefined) await removeVm(name, vm.id);
      await control.patch(machines, key, mergePatch({ metadata: { finalizers: null } }));
    },

    /** What MCM does to the class and the Secret of a fleet. */
    async protectSources(): Promise<void> {
      const key = { namespace, name: 'small' };
      await control.patch(machineClasses, key, mergePatch({ metadata: { finalizers: [finalizers.machine] } }));
      const secret = { namespace, name: 'pool' };
      await control.patch(secrets, secret, mergePatch({ metadata: { finalizers: [finalizers.secret] } }));
    },

    /**
     * A MachineDeployment with its MachineSet, without a rollout: so many of its machines are available.
     * @param frozenAt how many machines it had when it was frozen; left out: it is not frozen
     */
    async deployment(name: string, replicas: number, available: number, frozenAt?: number): Promise<McmSet> {
      const isFrozen = frozenAt !== undefined;
      const count = frozenAt ?? replicas;
      const frozen = isFrozen ? { freeze: 'True' } : {};
      const hash = String(1_000_000 + name.length);
      const own = { [labels.name]: name };
      const hashed = { ...own, [labels.templateHash]: hash };
      const template = { metadata: { creationTimestamp: null, labels: own }, spec: machineSpec };
      const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
      const marks = { namespace, finalizers: [finalizers.machine] };
      const revision = { [annotations.revision]: '1' };
      const deployment = await create(machineDeployments, {
        metadata: { ...marks, name, annotations: revision, labels: frozen },
        spec: { replicas, selector: { matchLabels: own }, strategy, template },
      });
      const set = await create(machineSets, {
        metadata: {
          ...marks,
          name: `${name}-5f8b7`,
          labels: { ...hashed, ...frozen },
          annotations: {
            ...revision,
            [annotations.desiredReplicas]: String(replicas),
            [annotations.maxReplicas]: String(replicas + 1),
          },
          ownerReferences: [referenceTo('MachineDeployment', deployment)],
        },
        spec: {
          replicas,
          selector: { matchLabels: hashed },
          machineClass: {},
          template: { ...template, metadata: { creationTimestamp: null, labels: hashed } },
        },
      });
      // Go leaves out a count that is 0.
      const ready = available === 0 ? {} : { readyReplicas: available, availableReplicas: available };
      const at = secondsAgo(3_600);
      const limit = replicas + 3;
      const message = `The number of machines backing MachineSet: ${set.metadata.name} is ${frozenAt} >= ${limit} which is the Max-ScaleUp-Limit`;
      const freeze = { type: 'Frozen', status: 'True', reason: 'OverShootingReplicaCount', message };
      await putStatus(machineSets, set.metadata.name, {
        ...{ replicas: count, fullyLabeledReplicas: count, ...ready, observedGeneration: 1 },
        ...(isFrozen && { machineSetCondition: [{ ...freeze, lastTransitionTime: at }] }),
        lastOperation: { lastUpdateTime: at },
      });
      const condition = (type: string, status: string, reason: string, message: string) => ({
        ...{ type, status, lastUpdateTime: at, lastTransitionTime: at, reason, message },
      });
      const minimum =
        available === replicas
          ? condition('Available', 'True', 'MinimumReplicasAvailable', 'Deployment has minimum availability.')
          : condition(
              'Available',
              'False',
              'MinimumReplicasUnavailable',
              'Deployment does not have minimum availability.',
            );
      await putStatus(machineDeployments, name, {
        ...{ replicas: count, updatedReplicas: count, ...ready, observedGeneration: 1 },
        ...(available < replicas && { unavailableReplicas: replicas - available }),
        conditions: [
          minimum,
          condition(
            'Progressing',
            'True',
            'NewMachineSetAvailable',
            progress.NewMachineSetAvailable(set.metadata.name),
          ),
          ...(isFrozen ? [{ ...freeze, lastUpdateTime: at, lastTransitionTime: at }] : []),
        ],
      });
      return { name: set.metadata.name, uid: set.metadata.uid, labels: hashed };
    },

    /**
     * A deployment in the middle of a rollout: the sets of its templates, which differ by the annotation `version`,
     * with the replicas that MCM has given them so far. The template of the deployment is that of `current`.
     */
    async rollout(name: string, left: McmRollout): Promise<McmSet[]> {
      const { replicas, current, strategy, sets, revision = sets.length, reason = 'MachineSetUpdated' } = left;
      const own = { [labels.name]: name };
      const templateOf = (version: string, more = {}) => ({
        metadata: { creationTimestamp: null, annotations: { version }, labels: { ...own, ...more } },
        spec: machineSpec,
      });
      const deployment = await create(machineDeployments, {
        metadata: {
          ...{ namespace, name, finalizers: [finalizers.machine] },
          annotations: { [annotations.revision]: String(revision) },
        },
        spec: { replicas, selector: { matchLabels: own }, strategy, template: templateOf(current) },
      });
      const surge = strategy.rollingUpdate?.maxSurge ?? 0;
      const made: McmSet[] = [];
      for (const [i, { version, replicas: had, marks = {} }] of sets.entries()) {
        const hash = { [labels.templateHash]: String(3_000_000_000 + i) };
        const hashed = { ...own, ...hash };
        const { metadata } = await create(machineSets, {
          metadata: {
            namespace,
            name: `${name}-${i}mcm${i}`,
            finalizers: [finalizers.machine],
            labels: { ...hashed, ...marks.labels },
            annotations: {
              [annotations.revision]: String(i + 1),
              [annotations.desiredReplicas]: String(replicas),
              [annotations.maxReplicas]: String(replicas + surge),
              ...marks.annotations,
            },
            ownerReferences: [referenceTo('MachineDeployment', deployment)],
          },
          spec: {
            ...(had > 0 && { replicas: had }),
            ...{ machineClass: {}, selector: { matchLabels: hashed } },
            template: templateOf(version, hash),
          },
        });
        made.push({ name: metadata.name, uid: metadata.uid, labels: hashed });
      }
      const at = secondsAgo(60);
      const times = { lastUpdateTime: at, lastTransitionTime: at };
      const message = 'Deployment has minimum availability.';
      const newest = made.at(-1)?.name ?? '';
      await putStatus(machineDeployments, name, {
        observedGeneration: 1,
        conditions: [
          { type: 'Available', status: 'True', reason: 'MinimumReplicasAvailable', message, ...times },
          { type: 'Progressing', status: 'True', reason, message: progress[reason](newest), ...times },
        ],
      });
      return made;
    },

    /** A machine in any phase. Its Node has its name. */
    async machine(name: string, left: McmMachine): Promise<Machine> {
      const { vm, set, isNamed = vm !== 'none', hasNode = vm === 'joined', metadata = {} } = left;
      const { isLabelled = isNamed } = left;
      const id = vm === 'none' ? undefined : await makeVm(name);
      const node = vm === 'joined' || vm === 'gone' ? await markNode(name, left.node) : undefined;
      if (id !== undefined && vm === 'gone') await removeVm(name, id);
      if (node !== undefined && !hasNode) await removeNode(name);
      await create(machines, {
        metadata: {
          namespace,
          name,
          ...(set && { generateName: `${set.name}-` }),
          finalizers: [finalizers.machine],
          labels: { ...set?.labels, ...(isLabelled && { [labels.node]: name }), ...metadata.labels },
          annotations: { ...(isNamed && { [annotations.priority]: '3' }), ...metadata.annotations },
          ...(set && { ownerReferences: [referenceTo('MachineSet', { metadata: set })] }),
        },
        spec: { ...machineSpec, ...(isNamed && id !== undefined && { providerID: `simulated:///here/${id}` }) },
      });
      const { phase = '', operation = joined, errorCode, current } = left;
      // Those of the Node of a machine that terminates are not copied any more.
      const conditions = node?.status?.conditions
        ?.filter(({ type }) => type !== 'Terminating')
        .map((condition) => ({ ...condition, ...left.conditions?.find(({ type }) => type === condition.type) }));
      if (left.isDeleted) await control.delete(machines, { namespace, name });
      if (phase !== '') {
        await putStatus(machines, name, {
          ...(conditions && { conditions }),
          currentStatus: { phase, lastUpdateTime: secondsAgo(60), ...current },
          lastOperation: {
            ...operation,
            description: operation.description.replaceAll('<machine>', name),
            lastUpdateTime: secondsAgo(60),
            ...(errorCode !== undefined && { errorCode }),
          },
        });
      }
      return control.get(machines, { namespace, name });
    },
  };
}

function referenceTo(
  kind: string,
  { metadata }: { readonly metadata: { readonly name: string; readonly uid: string } },
) {
  const { name, uid } = metadata;
  return { apiVersion: 'machine.sapcloud.io/v1alpha1', kind, name, uid, controller: true, blockOwnerDeletion: true };
}
