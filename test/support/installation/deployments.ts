import { annotations, labels } from '../../../api/gardener/names.ts';
import { machineDeployments, machineSets, machines } from '../../../api/gardener/resources.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import { mergePatch } from '../../../kube/patch.ts';
import { until } from '../until.ts';
import { phaseOf } from './machines.ts';
import type { Scene } from './scene.ts';

interface Running {
  /** Machines that have to be gone. */
  readonly without?: readonly { readonly uid: string }[];
  /** Class of all machines. */
  readonly className?: string;
}

/**
 * What tests do with the MachineDeployments of an installation, and ask of them. Their machines have the label `name`.
 */
export function deploymentVerbs({ namespace, control, story }: Scene) {
  const keyOf = (name: string) => ({ namespace, name });
  const ofDeployment = (name: string) => ({ namespace, labelSelector: `${labels.name}=${name}` });

  const verbs = {
    async createDeployment(name: string, replicas: number, changes: object = {}): Promise<void> {
      await control.create(machineDeployments, {
        metadata: { namespace, name },
        spec: {
          replicas,
          selector: { matchLabels: { [labels.name]: name } },
          strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
          template: {
            metadata: { labels: { [labels.name]: name } },
            spec: { class: { kind: 'MachineClass', name: 'small' } },
          },
          ...changes,
        },
      });
    },

    async deployment(name: string): Promise<MachineDeployment> {
      return control.get(machineDeployments, keyOf(name));
    },

    /** Merges this into a deployment. */
    async changeDeployment(name: string, change: object): Promise<MachineDeployment> {
      return control.patch<MachineDeployment>(machineDeployments, keyOf(name), mergePatch(change));
    },

    async scale(name: string, replicas: number): Promise<void> {
      await verbs.changeDeployment(name, { spec: { replicas } });
    },

    /** The sets of a deployment, the oldest revision first. */
    async setsOf(name: string): Promise<MachineSet[]> {
      const { items } = await control.list(machineSets, ofDeployment(name));
      const revisionOf = ({ metadata }: MachineSet) => Number(metadata.annotations?.[annotations.revision] ?? 0);
      return items.toSorted((a, b) => revisionOf(a) - revisionOf(b));
    },

    async machinesOf(name: string): Promise<Machine[]> {
      return (await control.list(machines, ofDeployment(name))).items;
    },

    /** Waits until a deployment has so many machines, and all of them are Running and stay. Returns them. */
    async untilRunning(name: string, count: number, { without = [], className }: Running = {}): Promise<Machine[]> {
      const gone = new Set(without.map(({ uid }) => uid));
      const isDone = (machine: Machine) => {
        const { metadata, spec } = machine;
        const isOfClass = className === undefined || spec?.class?.name === className;
        const stays = metadata.deletionTimestamp === undefined && !gone.has(metadata.uid);
        return isOfClass && stays && phaseOf(machine) === 'Running';
      };
      const check = async () => {
        const found = await verbs.machinesOf(name);
        return found.length === count && found.every(isDone) && found;
      };
      return until(`${count} machines of ${name} are Running`, check, { describe: story });
    },

    /**
     * Waits until a deployment has rolled out its template, and nothing is left of others.
     * @param className of the template
     */
    async untilComplete(name: string, className?: string, timeoutMs?: number): Promise<MachineDeployment> {
      const check = async (see: (status: MachineDeployment['status']) => unknown) => {
        const deployment = await verbs.deployment(name);
        const { status, metadata, spec } = deployment;
        see(status);
        const ofTemplate = spec?.template?.spec?.class?.name;
        if (!isComplete(deployment) || status?.observedGeneration !== metadata.generation) return false;
        if (className !== undefined && className !== ofTemplate) return false;
        const found = await verbs.machinesOf(name);
        const isDone = (each: Machine) => phaseOf(each) === 'Running' && each.spec?.class?.name === ofTemplate;
        return found.length === (spec?.replicas ?? 0) && found.every(isDone) && deployment;
      };
      return until(`the rollout of ${name} is complete`, check, { timeoutMs, describe: story });
    },
  };
  return verbs;
}

/** Whether a deployment says that all its machines are of its template, and available. */
function isComplete({ status, spec }: MachineDeployment): boolean {
  const reason = status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
  const { replicas = 0, updatedReplicas = 0, readyReplicas = 0, availableReplicas = 0 } = status ?? {};
  const counts = [replicas, updatedReplicas, readyReplicas, availableReplicas];
  return reason === 'NewMachineSetAvailable' && counts.every((count) => count === (spec?.replicas ?? 0));
}
