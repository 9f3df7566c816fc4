/** Acts of people and of the autoscaler: what they change in the API server and in Temporal. */
import { annotations, labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { names, searchAttributes } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { nodes, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { update } from '../../kube/update.ts';
import { type Acts, pickOne } from './act.ts';
import type { Dice } from './dice.ts';
import { classes, deploymentsAtFirst, namespace, untouched, type World } from './world.ts';

/** A server that is down refuses an act instead of keeping it for later. */
const quick = { timeoutMs: 5_000 };

/** One of the objects that may be touched, by its number among the names. */
async function pickObject<T extends KubeObject>(world: World, dice: Dice, resource: Resource<T>): Promise<T> {
  const { items } = await world.control.list(resource, { namespace, ...quick });
  const others = items.filter(({ metadata }) => metadata.name !== untouched && !isOfUntouched(metadata.labels));
  return pickOne(dice, others.toSorted(byName), resource.kind);
}

function byName(a: KubeObject, b: KubeObject): number {
  return a.metadata.name < b.metadata.name ? -1 : 1;
}

function isOfUntouched(found: Readonly<Record<string, string>> = {}): boolean {
  return found[labels.name] === untouched;
}

const pickDeployment = (world: World, dice: Dice) => pickObject(world, dice, machineDeployments);

async function change(world: World, { metadata }: MachineDeployment, patch: object): Promise<void> {
  await world.control.patch(machineDeployments, { namespace, name: metadata.name }, mergePatch(patch), quick);
}

const policyOf = (dice: Dice) => dice.pick(['Background', 'Foreground', 'Orphan'] as const) ?? 'Background';

export const peopleActs: Acts = {
  scale: {
    weight: 8,
    async run(world, dice, tell) {
      const deployment = await pickDeployment(world, dice);
      const replicas = dice.between(0, 5);
      tell(`scales ${deployment.metadata.name} to ${replicas}`);
      await change(world, deployment, { spec: { replicas } });
    },
  },
  'roll out': {
    weight: 4,
    async run(world, dice, tell) {
      const deployment = await pickDeployment(world, dice);
      const name = pickOne(dice, classes, 'class');
      const restartedAt = String(dice.below(1_000));
      tell(`rolls out class ${name} in ${deployment.metadata.name}, restart ${restartedAt}`);
      const metadata = { annotations: { [names.restartedAt]: restartedAt } };
      await change(world, deployment, { spec: { template: { metadata, spec: { class: { name } } } } });
    },
  },
  pause: {
    weight: 2,
    async run(world, dice, tell) {
      const deployment = await pickDeployment(world, dice);
      const paused = !deployment.spec?.paused;
      tell(`${paused ? 'pauses' : 'resumes'} ${deployment.metadata.name}`);
      await change(world, deployment, { spec: { paused } });
    },
  },
  'edit strategy': {
    weight: 2,
    async run(world, dice, tell) {
      const deployment = await pickDeployment(world, dice);
      const [maxSurge, maxUnavailable] = [dice.below(3), dice.below(3)];
      const rolling = { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } };
      const strategy = dice.below(3) === 0 ? { type: 'Recreate', rollingUpdate: null } : rolling;
      tell(`sets ${JSON.stringify(strategy)} in ${deployment.metadata.name}`);
      await change(world, deployment, { spec: { strategy } });
    },
  },
  'run pods': {
    weight: 4,
    async run({ control }, dice, tell) {
      const { items } = await control.list(nodes, quick);
      const { name: nodeName } = pickOne(dice, items.toSorted(byName), 'Node').metadata;
      const name = `app-${dice.below(1_000)}`;
      const metadata = { namespace, name, labels: { app: name } };
      const minAvailable = dice.below(2);
      tell(`runs pod ${name} on ${nodeName}; its budget keeps ${minAvailable}`);
      const spec = { selector: { matchLabels: { app: name } }, minAvailable };
      await control.create(podDisruptionBudgets, { metadata, spec }, quick);
      const containers = [{ name: 'app', image: 'app' }];
      await control.create(pods, { metadata, spec: { nodeName, containers } }, quick);
    },
  },
  'mark a machine': {
    weight: 3,
    async run(world, dice, tell) {
      const { metadata } = await pickObject(world, dice, machines);
      const priority = pickOne(dice, ['1', '2', '4', 'no number'], 'priority');
      tell(`marks ${metadata.name} with priority ${priority}`);
      const patch = mergePatch({ metadata: { annotations: { [annotations.priority]: priority } } });
      await world.control.patch(machines, metadata, patch, quick);
    },
  },
  'scale down as the autoscaler': {
    weight: 3,
    async run(world, dice, tell) {
      const { metadata } = await pickObject(world, dice, machines);
      const name = pickOne(dice, [metadata.labels?.[labels.name]].filter(Boolean), 'deployment of the machine') ?? '';
      const { uid } = (await world.control.get(machineDeployments, { namespace, name }, quick)).metadata;
      tell(`the autoscaler removes ${metadata.name} from ${name}, which has one replica less then`);
      const time = `${new Date().toISOString().slice(0, 19)}Z`;
      const { triggerDeletion, lastReplicaChangeByScalerTime } = annotations;
      const list = (live: MachineDeployment) => {
        const before = live.metadata.annotations?.[triggerDeletion];
        const entries = [...(before ? [before] : []), `${metadata.name}~${time}`].join(',');
        const listed = { [triggerDeletion]: entries, [lastReplicaChangeByScalerTime]: time };
        return { metadata: { annotations: listed }, spec: { replicas: Math.max(0, (live.spec?.replicas ?? 1) - 1) } };
      };
      const changed = await update(world.control, machineDeployments, { namespace, name, uid }, list, quick);
      if (changed) world.named.push({ atMs: Date.now(), uid: metadata.uid, name: metadata.name, deployment: uid });
    },
  },
  'preserve a machine': {
    weight: 2,
    async run(world, dice, tell) {
      const { metadata } = await pickObject(world, dice, machines);
      const value = pickOne(dice, ['now', 'when-failed', 'false'], 'value');
      tell(`annotates ${metadata.name} with preserve=${value}`);
      const patch = mergePatch({ metadata: { annotations: { [annotations.preserve]: value } } });
      await world.control.patch(machines, metadata, patch, quick);
    },
  },
  'delete a machine': {
    weight: 4,
    async run(world, dice, tell) {
      const { metadata } = await pickObject(world, dice, machines);
      const isForced = dice.below(3) === 0;
      tell(`deletes ${metadata.name}${isForced ? ' by force' : ''}`);
      const patch = mergePatch({ metadata: { labels: { [labels.forceDeletion]: 'true' } } });
      if (isForced) await world.control.patch(machines, metadata, patch, quick);
      await world.control.delete(machines, metadata, quick);
    },
  },
  'create a machine': {
    weight: 2,
    async run(world, dice, tell) {
      const name = `lone-${dice.below(5)}`;
      const machineClass = pickOne(dice, classes, 'class');
      const node = dice.below(3) === 0 ? world.strangers.node : undefined;
      tell(`creates ${name} of class ${machineClass}${node === undefined ? '' : `, which names the Node ${node}`}`);
      const metadata = { namespace, name, ...(node !== undefined && { labels: { [labels.node]: node } }) };
      const spec = { class: { kind: 'MachineClass', name: machineClass } };
      await world.control.create(machines, { metadata, spec }, quick);
    },
  },
  'delete a Node': {
    weight: 2,
    async run(world, dice, tell) {
      const { metadata } = await pickObject(world, dice, machines);
      const { name } = metadata;
      tell(`deletes the Node ${name}`);
      await world.control.delete(nodes, { name }, quick);
    },
  },
  'delete a deployment': {
    weight: 2,
    async run(world, dice, tell) {
      const { metadata } = await pickDeployment(world, dice);
      const propagationPolicy = policyOf(dice);
      tell(`deletes deployment ${metadata.name}, ${propagationPolicy}`);
      await world.control.delete(machineDeployments, metadata, { ...quick, propagationPolicy });
    },
  },
  'create a deployment': {
    weight: 4,
    async run(world, dice, tell) {
      const present = new Set(
        (await world.control.list(machineDeployments, { namespace, ...quick })).items.map(
          ({ metadata }) => metadata.name,
        ),
      );
      const missing = Object.keys(deploymentsAtFirst).filter((name) => !present.has(name));
      const name = pickOne(dice, missing, 'deployment that is missing');
      const replicas = dice.between(1, 3);
      tell(`creates deployment ${name} with ${replicas} replicas`);
      await world.createDeployment(name, replicas);
    },
  },
  'delete a set': {
    weight: 1,
    async run(world, dice, tell) {
      const { metadata } = await pickObject(world, dice, machineSets);
      const propagationPolicy = policyOf(dice);
      tell(`deletes set ${metadata.name}, ${propagationPolicy}`);
      await world.control.delete(machineSets, metadata, { ...quick, propagationPolicy });
    },
  },
  rotate: {
    weight: 3,
    async run(world, dice, tell) {
      const number = dice.below(world.credentials.length + 1);
      const isValid = number < world.credentials.length;
      tell(`rotates the credentials of the cloud to ${isValid ? `number ${number}` : 'wrong ones'}`);
      await world.putSecret(number);
    },
  },
  'edit tags': {
    weight: 2,
    async run({ control }, dice, tell) {
      const name = pickOne(dice, classes, 'class');
      const team = dice.below(3) === 0 ? null : `team-${dice.below(100)}`;
      tell(`sets tag team of class ${name} to ${team}`);
      await control.patch(machineClasses, { namespace, name }, mergePatch({ providerSpec: { tags: { team } } }), quick);
    },
  },
  'edit timeouts': {
    weight: 2,
    async run(world, dice, tell) {
      const deployment = await pickDeployment(world, dice);
      const timeouts = {
        creationTimeout: `${dice.between(60, 120)}s`,
        healthTimeout: `${dice.between(10, 30)}s`,
        drainTimeout: `${dice.between(5, 60)}s`,
      };
      tell(`sets ${JSON.stringify(timeouts)} in ${deployment.metadata.name}`);
      await change(world, deployment, { spec: { template: { spec: timeouts } } });
    },
  },
  'edit labels': {
    weight: 2,
    async run(world, dice, tell) {
      const deployment = await pickDeployment(world, dice);
      const pool = `pool-${dice.below(100)}`;
      tell(`labels the Nodes of ${deployment.metadata.name} with ${pool}`);
      const nodeTemplate = { metadata: { labels: { pool } } };
      await change(world, deployment, { spec: { template: { spec: { nodeTemplate } } } });
    },
  },
  'edit limits': {
    weight: 2,
    async run(world, dice, tell) {
      const deployment = await pickDeployment(world, dice);
      const limit = dice.below(3) === 0 ? null : String(dice.between(1, 4));
      const name = pickOne(dice, [names.maxSurge, names.maxProvisioning], 'limit');
      tell(`sets ${name} of ${deployment.metadata.name} to ${limit}`);
      await change(world, deployment, { metadata: { annotations: { [name]: limit } } });
    },
  },
  'terminate a workflow': {
    weight: 3,
    async run({ temporal }, dice, tell) {
      const query = `${searchAttributes.installation} = '${namespace}' AND ExecutionStatus = 'Running'`;
      const ids: string[] = [];
      await temporal.withDeadline(Date.now() + quick.timeoutMs, async () => {
        for await (const { workflowId } of temporal.workflow.list({ query })) ids.push(workflowId);
        const id = pickOne(dice, ids.toSorted(), 'open workflow');
        tell(`terminates ${id}`);
        await temporal.workflow.getHandle(id).terminate('chaos');
      });
    },
  },
};
