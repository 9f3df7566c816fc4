/** The commands of the demo, in order, and the effect of each. */
import { machineDeployments, machineSets, machines } from '../../../api/gardener/resources.ts';
import type { Blocker } from '../../../api/names.ts';
import { nodes, pods } from '../../../kube/core.ts';
import { type CloudDemo, type Demo, installation, namespace } from './set-up.ts';

/** A command to paste, and its effect. */
export interface Stop<D extends Demo = CloudDemo> {
  /** Effect of the command. */
  readonly title: string;
  /** For a POSIX shell that has read `env`. */
  readonly command: string;
  /**
   * The part of the effect that is missing. Called until it returns undefined. Throws when waiting does not help.
   * @param output - Output of the command.
   */
  missing(demo: D, output: string): Promise<string | undefined>;
}

/** Not one whose Node may have joined while Millwright was killed: its workflow waited for no Node. */
export const oldestMachine = `"$(kubectl get machines --sort-by=.metadata.creationTimestamp -o jsonpath='{.items[0].metadata.name}')"`;
const firstNode = `"$(kubectl get nodes -o jsonpath='{.items[0].metadata.name}')"`;
const newTemplate = '{"spec":{"template":{"metadata":{"annotations":{"example.com/image":"2"}}}}}';
const budgetPod = '{"spec":{"nodeName":"\'$NODE\'","terminationGracePeriodSeconds":1}}';
const nodeOfPod = `"$(kubectl get pod web -o jsonpath='{.spec.nodeName}')"`;
const blockedOn = (blocker: Blocker) => `MillwrightBlockedOn = '${blocker}' AND ExecutionStatus = 'Running'`;
const stuck = blockedOn('CloudCapacity');
const stuckPage = `/namespaces/default/workflows?query=${encodeURIComponent(stuck).replaceAll("'", '%27')}`;

/** Applies the example. */
export const firstStop: Stop = {
  title: 'The example becomes three nodes',
  command: 'kubectl apply -f "$DEMO/machines.yaml"',
  missing: async (demo) => (await missingOf(demo, { machines: 3, vmsEver: 3 })) ?? missingOfRollout(demo),
};

export const tour: readonly Stop[] = [
  {
    title: 'Look at everything',
    command: 'kubectl get mcd,mcs,mc,nodes',
    missing: async (_, output) => expectIn(output, 'machinedeployment', 'machineset', 'machine', 'node', 'Running'),
  },
  {
    title: 'List the machines with what each of them waits for',
    command: 'millwright get machines',
    missing: async (_, output) => expectIn(output, 'FOR', 'Running'),
  },
  {
    title: 'Open this in a browser: every machine as a cell, live',
    command: 'echo "$FLEET_PAGE"',
    missing: async (_, output) => {
      const page = await fetch(output.trim());
      return page.ok ? undefined : `the page answers ${page.status}`;
    },
  },
  {
    title: 'Scale up',
    command: 'kubectl scale machinedeployment workers --replicas 5',
    missing: async (demo) => {
      const { items } = await demo.kube.list(machines, { namespace });
      return items.length === 5 ? undefined : `${items.length} of 5 machines exist`;
    },
  },
  {
    title: 'Kill Millwright while it creates machines: it is restarted and makes no VM twice',
    command: 'kill -9 "$(cat "$DEMO/millwright.pid")"',
    missing: async (demo) => {
      if (demo.millwright.starts === 1) {
        const running = await runningMachines(demo);
        if (running === 5) throw new Error('all machines were Running before Millwright was killed');
        return 'Millwright has not been restarted';
      }
      return missingOf(demo, { machines: 5, vmsEver: 5 });
    },
  },
  {
    title: 'Describe a machine in Kubernetes',
    command: `kubectl describe machine ${oldestMachine}`,
    missing: async (_, output) => expectIn(output, 'Provider ID', 'Last Operation', 'Running'),
  },
  {
    title: 'Ask its workflow',
    command: `millwright describe machine ${oldestMachine}`,
    missing: async ({ cloud }, output) => expectIn(output, 'Running', cloud.scheme),
  },
  {
    title: 'See where the time of its creation went',
    command: `millwright timeline ${oldestMachine}`,
    missing: async (_, output) => expectIn(output, 'provision', 'join', 'run'),
  },
  {
    title: 'Delete a node: its machine is replaced',
    command: `kubectl delete node ${firstNode}`,
    missing: (demo) => missingOf(demo, { machines: 5, vmsEver: 6 }),
  },
  {
    title: 'Change the template: every machine is replaced, each after its replacement is running',
    command: `kubectl patch machinedeployment workers --type merge --patch '${newTemplate}'`,
    missing: async (demo) => (await missingOf(demo, { machines: 5, vmsEver: 11 })) ?? missingOfRollout(demo),
  },
  {
    title: 'Watch the rollout',
    command: 'millwright rollout status workers',
    missing: async (_, output) => expectIn(output, 'complete'),
  },
  {
    title: 'Show what a sweep would delete',
    command: 'millwright sweep --dry-run',
    missing: async (_, output) => expectIn(output, 'nothing'),
  },
  {
    title: 'Let the cloud run out of capacity',
    command: `curl -sS -X PUT "$CLOUD/faults" -d '{"faults": [{"kind": "capacity"}]}'`,
    missing: async ({ cloud }) => ((await cloud.faults()).length === 1 ? undefined : 'the fault is not on'),
  },
  {
    title: 'Ask for one more machine',
    command: 'kubectl scale machinedeployment workers --replicas 6',
    missing: (demo) => missingOfStuck(demo, 'CloudCapacity'),
  },
  {
    title: 'Ask what is stuck, and what would help',
    command: 'millwright stuck',
    missing: async (_, output) => expectIn(output, 'CloudCapacity: 1 machine', 'To unblock'),
  },
  {
    title: 'List the machines that wait for capacity, in Temporal',
    command: `temporal workflow list --query "${stuck}"`,
    missing: async (_, output) => expectIn(output, `${installation}/machine/${namespace}/workers-`),
  },
  {
    title: 'Open this in a browser: the same list, with the state and history of each machine',
    command: `echo "$TEMPORAL_UI${stuckPage}"`,
    missing: async ({ uiUrl }, output) => {
      const page = await fetch(output);
      const list = await fetch(`${uiUrl}/api/v1${stuckPage}`);
      if (!page.ok || !list.ok) throw new Error(`the UI answers ${page.status} and ${list.status}`);
      return expectIn(await list.text(), `${installation}/machine/${namespace}/workers-`);
    },
  },
  {
    title: 'Give the cloud capacity again',
    command: `curl -sS -X PUT "$CLOUD/faults" -d '{"faults": []}'`,
    missing: async ({ cloud }) => ((await cloud.faults()).length === 0 ? undefined : 'the fault is still on'),
  },
  {
    title: 'Make all machines that wait for capacity try again now',
    command: 'millwright retry --blocked-on CloudCapacity',
    missing: (demo) => missingOf(demo, { machines: 6, vmsEver: 12 }),
  },
  {
    title: 'Start a pod on a node',
    command: `NODE=${firstNode}; kubectl run web --image=web --overrides '${budgetPod}'`,
    missing: async ({ kube }) => {
      const { status } = await kube.get(pods, { namespace, name: 'web' });
      return status?.phase === 'Running' ? undefined : 'the pod does not run';
    },
  },
  {
    title: 'Protect the pod with a PodDisruptionBudget',
    command: 'kubectl create poddisruptionbudget web --selector run=web --min-available 1',
    missing: async (_, output) => expectIn(output, 'created'),
  },
  {
    title: 'Delete the machine of the pod: its drain waits for the budget',
    command: `kubectl delete machines --wait=false --selector node=${nodeOfPod}`,
    missing: (demo) => missingOfStuck(demo, 'PodDisruptionBudget'),
  },
  {
    title: 'Ask its workflow which budget that is',
    command: `millwright describe machine "$(kubectl get machines --selector node=${nodeOfPod} -o name | cut -d/ -f2)"`,
    missing: async (_, output) => expectIn(output, `the PodDisruptionBudget ${namespace}/web`),
  },
  {
    title: 'Delete the budget',
    command: 'kubectl delete poddisruptionbudget web',
    missing: async (_, output) => expectIn(output, 'deleted'),
  },
  {
    title: 'Make the drain try again now: the pod is evicted, and the machine goes',
    command: 'millwright retry --blocked-on PodDisruptionBudget',
    missing: (demo) => missingOf(demo, { machines: 6, vmsEver: 13 }),
  },
  deletion({ vmsEver: 13 }),
];

function deletion({ vmsEver }: { readonly vmsEver: number }): Stop {
  return {
    title: 'Delete the deployment: no Machine, Node, VM or open workflow is left',
    command: 'kubectl delete machinedeployment workers',
    missing: async (demo) => {
      const { items: sets } = await demo.kube.list(machineSets, { namespace });
      const { count } = await demo.temporal.workflow.count(
        `MillwrightInstallation = '${installation}' AND ExecutionStatus = 'Running'`,
      );
      const left = [...(sets.length ? [`${sets.length} MachineSets`] : []), ...(count ? [`${count} workflows`] : [])];
      return (await missingOf(demo, { machines: 0, vmsEver })) ?? (left.length ? `left: ${left}` : undefined);
    },
  };
}

/** Missing until `machines` machines are Running, each with a node and a VM, and `vmsEver` VMs were made. */
async function missingOf(demo: CloudDemo, wanted: { machines: number; vmsEver: number }): Promise<string | undefined> {
  const [{ items }, running, { items: nodesNow }, { vmsNow, vmsEver }] = await Promise.all([
    demo.kube.list(machines, { namespace }),
    runningMachines(demo),
    demo.kube.list(nodes),
    demo.cloud.stats(),
  ]);
  if (vmsEver > wanted.vmsEver) throw new Error(`${vmsEver} VMs were made, ${wanted.vmsEver} are needed`);
  const found = { machines: items.length, Running: running, nodes: nodesNow.length, VMs: vmsNow };
  const wrong = Object.entries(found).filter(([, count]) => count !== wanted.machines);
  if (wrong.length > 0)
    return `${wrong.map(([what, count]) => `${count} ${what}`).join(', ')} instead of ${wanted.machines}`;
  return vmsEver === wanted.vmsEver ? undefined : `${vmsEver} VMs were made instead of ${wanted.vmsEver}`;
}

/** Missing until Temporal lists one workflow that waits for this. */
async function missingOfStuck({ temporal }: Demo, blocker: Blocker): Promise<string | undefined> {
  const { count } = await temporal.workflow.count(blockedOn(blocker));
  return count === 1 ? undefined : `${count} workflows are found with ${blockedOn(blocker)}`;
}

/** Missing until all machines of the deployment have its current template. */
async function missingOfRollout({ kube }: Demo): Promise<string | undefined> {
  const { spec, status } = await kube.get(machineDeployments, { namespace, name: 'workers' });
  const { updatedReplicas = 0, availableReplicas = 0 } = status ?? {};
  const isDone = updatedReplicas === spec?.replicas && availableReplicas === spec?.replicas;
  return isDone ? undefined : `${updatedReplicas} machines are updated, ${availableReplicas} available`;
}

async function runningMachines(demo: Demo): Promise<number> {
  const { items } = await demo.kube.list(machines, { namespace });
  return items.filter(({ status }) => status?.currentStatus?.phase === 'Running').length;
}

/** Throws for the first time that the output lacks a part. */
export async function expectIn(output: string, ...parts: string[]): Promise<undefined> {
  const absent = parts.filter((part) => !output.includes(part));
  if (absent.length > 0) throw new Error(`not in the output: ${absent.join(', ')}`);
}
