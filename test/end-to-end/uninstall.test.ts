/** `millwright uninstall` on real servers: nothing of an installation is left, and its VMs and Nodes are. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, stringify } from 'yaml';
import { finalizers } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { clusterRecordName, names, prefix, signingKeySecret } from '../../api/names.ts';
import { defineResource, type KubeObject, type Resource } from '../../api/objects.ts';
import { peopleRules } from '../../api/rights.ts';
import { dialect } from '../../cli/dialect.ts';
import { leases, secrets } from '../../kube/core.ts';
import { sweepScheduleId } from '../../temporal/schedules.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { startProcess } from '../support/millwright.ts';

const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1' };
type Bound = KubeObject & {
  readonly rules?: readonly object[];
  readonly roleRef?: object;
  readonly subjects?: object[];
};
const bound = (kind: string, namespaced: boolean) =>
  defineResource<Bound>({ ...rbac, plural: `${kind.toLowerCase()}s`, kind, namespaced });
const [roles, roleBindings] = [bound('Role', true), bound('RoleBinding', true)];
const [clusterRoles, clusterRoleBindings] = [bound('ClusterRole', false), bound('ClusterRoleBinding', false)];
interface User {
  readonly name: string;
  readonly user: object;
}

const kinds: readonly Resource<KubeObject>[] = [machineDeployments, machineSets, machines, machineClasses, secrets];
const own: readonly string[] = Object.values(finalizers);

// One story: each test goes on with what the one before has left.
describe('millwright uninstall', () => {
  let millwright: Installation;
  let vms: number;
  let folder: string;
  let asUser: string;

  beforeAll(async () => {
    millwright = await startInstallation({
      alone: 'its processes are stopped',
      isElected: true,
      flags: ['--machine-safety-orphan-vms-period', '1h'],
    });
    await millwright.createDeployment('pool', 3);
    await millwright.changeDeployment('pool', { metadata: { annotations: { [names.maxSurge]: '5' } } });
    await millwright.untilMachines(3, 'Running');
    vms = (await millwright.cloud.stats()).vmsNow;
    folder = await mkdtemp(join(tmpdir(), 'millwright-uninstall-'));
    asUser = join(folder, 'kubeconfig');
    const { users, ...config } = parse(await readFile(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'), 'utf8'));
    const as = await createUser();
    const impersonating = users.map(({ name, user }: User) => ({ name, user: { ...user, as } }));
    await writeFile(asUser, stringify({ ...config, users: impersonating }));
  });
  afterAll(async () => {
    await millwright?.stop();
    if (folder) await rm(folder, { recursive: true });
  });

  /** Has what Kubernetes' admin may do with these kinds, what Millwright adds to it, and rights for Nodes. */
  async function createUser(): Promise<string> {
    const { control, target, namespace } = millwright;
    const name = `uninstaller-${namespace}`;
    const subjects = [{ apiGroup: rbac.group, kind: 'User', name }];
    const write = ['get', 'list', 'create', 'update', 'patch', 'delete'];
    const inNamespace = [
      ...Object.values(peopleRules(dialect.kinds)).flat(),
      { apiGroups: [''], resources: ['secrets'], verbs: write },
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: write },
    ];
    const ofNodes = [
      { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'patch'] },
      { apiGroups: [''], resources: ['namespaces'], resourceNames: ['kube-system'], verbs: ['get'] },
    ];
    const roleRef = { apiGroup: rbac.group, name };
    await control.create(roles, { metadata: { namespace, name }, rules: inNamespace });
    await control.create(roleBindings, {
      metadata: { namespace, name },
      roleRef: { ...roleRef, kind: 'Role' },
      subjects,
    });
    await target.create(clusterRoles, { metadata: { name }, rules: ofNodes });
    await target.create(clusterRoleBindings, {
      metadata: { name },
      roleRef: { ...roleRef, kind: 'ClusterRole' },
      subjects,
    });
    return name;
  }

  /** As a user with the rights that docs/how-to/uninstall.md names. */
  async function uninstall(...flags: readonly string[]): Promise<{ code: number | null; output: string }> {
    const servers = [
      '--temporal-address',
      fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS'),
      '--target-kubeconfig',
      asUser,
    ];
    const { exited, logs } = startProcess(['uninstall', '-n', millwright.namespace, ...servers, ...flags]);
    return { code: (await exited).code, output: logs() };
  }

  async function objects(): Promise<{ kind: string; metadata: KubeObject['metadata'] }[]> {
    const { control, namespace } = millwright;
    const lists = kinds.map(async (kind) =>
      (await control.list(kind, { namespace })).items.map(({ metadata }) => ({ kind: kind.kind, metadata })),
    );
    return [
      ...(await Promise.all(lists)).flat(),
      ...(await millwright.nodes()).map((node) => ({ kind: 'Node', ...node })),
    ];
  }

  async function finalizersLeft(): Promise<string[]> {
    const held = (await objects()).filter(({ metadata }) => metadata.finalizers?.some((each) => own.includes(each)));
    return [...new Set(held.map(({ kind }) => kind))];
  }

  async function annotationsLeft(): Promise<string[]> {
    const all = (await objects()).flatMap(({ metadata }) => Object.keys(metadata.annotations ?? {}));
    return [...new Set(all.filter((name) => name.startsWith(prefix)))];
  }

  async function leasesLeft(): Promise<string[]> {
    const { items } = await millwright.control.list(leases, { namespace: millwright.namespace });
    return items.map(({ metadata }) => metadata.name);
  }

  async function openWorkflows(): Promise<number> {
    const query = `MillwrightInstallation = '${millwright.namespace}' AND ExecutionStatus = 'Running'`;
    return (await millwright.temporal.workflow.count(query)).count;
  }

  it('refuses while processes run, and changes nothing', async () => {
    const { code, output } = await uninstall('--machines', 'unmanaged', '--yes');

    expect(output).toMatch(/may still run: watching for up to \d+ s, until a sign that they do\n/);
    expect(output).toMatch(/nothing was changed, as processes run .*_millwright with the Lease machine-controller/);
    expect(output).toContain('end `millwright run`, `controllers` and `worker` where you have started them yourself');
    expect(code).toBe(1);
    expect(await leasesLeft()).toHaveLength(3);
    expect(await finalizersLeft()).toHaveLength(6);
  });

  it('asks what becomes of the Machines, and whose installation it is', async () => {
    const [undecided, mistaken] = await Promise.all([
      uninstall('--yes'),
      uninstall('--machines', 'unmanaged', '--installation', 'other'),
    ]);

    expect(undecided).toEqual({ code: 2, output: expect.stringMatching(/--machines is missing, .* has 3 Machines/) });
    const { namespace } = millwright;
    const answer = `the installation of namespace ${namespace} is ${namespace} and not other`;
    expect(mistaken).toEqual({ code: 2, output: expect.stringContaining(answer) });
  });

  it('shows what it would do, and lists a Machine that is being deleted, when the processes are stopped', async () => {
    const { namespace, control, processes } = millwright;
    await processes[0]?.stop();
    const [{ metadata, spec }] = (await millwright.machines()) as [Machine];
    await control.delete(machines, metadata);

    const { code, output } = await uninstall('--machines', 'unmanaged');

    expect(code).toBe(0);
    expect(output).toContain(`Machine ${metadata.name} is being deleted: its VM ${spec?.providerID} may exist`);
    expect(output).toMatch(new RegExp(`Schedule ${sweepScheduleId(namespace)}\\n  [1-9]\\d* open workflows`));
    expect(output).toContain('3 Nodes\n  3 Machines\n  1 MachineSet\n  1 MachineDeployment\n  1 MachineClass\n');
    expect(output).toContain(`Lease ${clusterRecordName(namespace)}`);
    expect(output).toMatch(/nothing was changed; to do it: millwright uninstall --yes --machines unmanaged /);
    expect(await finalizersLeft()).toHaveLength(6);
    expect(await leasesLeft()).toHaveLength(3);
  });

  it('names the flag where Temporal does not answer', async () => {
    const { code, output } = await uninstall('--temporal-address', '127.0.0.1:1');

    expect(output).toMatch(/Temporal does not answer at 127.0.0.1:1 .* give --without-temporal/);
    expect(code).toBe(1);
  });

  it('keeps the finalizers and Leases of machine-controller-manager, and removes what it does not know', async () => {
    const { namespace } = millwright;
    const { code, output } = await uninstall('--machines', 'mcm', '--without-temporal', '--yes');

    expect(output).toContain('not asked, as it is gone');
    expect(code).toBe(0);
    expect(await finalizersLeft()).toHaveLength(6);
    expect(await annotationsLeft()).toEqual([names.maxSurge]);
    expect((await leasesLeft()).toSorted()).toEqual(['machine-controller', 'machine-controller-manager']);
    expect(await millwright.control.find(secrets, { namespace, name: signingKeySecret })).toBeUndefined();
  });

  it('leaves no finalizer and no Lease without Temporal, and all VMs and Nodes', async () => {
    const { code, output } = await uninstall('--machines', 'unmanaged', '--without-temporal', '--yes');

    expect(output).toContain('\n  2 Machines with their VMs and Nodes; ');
    expect(code).toBe(0);
    expect(await finalizersLeft()).toEqual([]);
    expect(await leasesLeft()).toEqual([]);
    expect(await millwright.machines()).toHaveLength(2);
    expect(await millwright.nodes()).toHaveLength(3);
    expect((await millwright.cloud.stats()).vmsNow).toBe(vms);
  });

  it('leaves no Schedule and no open workflow, and may be repeated', async () => {
    const { namespace, temporal } = millwright;
    const { code } = await uninstall('--machines', 'unmanaged', '--yes');
    const { output: again } = await uninstall('--machines', 'unmanaged');

    expect(code).toBe(0);
    await expect(temporal.schedule.getHandle(sweepScheduleId(namespace)).describe()).rejects.toThrow('not found');
    expect(await openWorkflows()).toBe(0);
    expect(again).toContain('in Temporal would be ended:\n  0 open workflows\n');
    expect(again).not.toContain('removed from');
  });

  it('leaves a namespace that can be deleted, with its VMs', async () => {
    const { control, namespace, cloud } = millwright;
    for (const kind of kinds) {
      for (const { metadata } of (await control.list(kind, { namespace })).items) await control.delete(kind, metadata);
    }

    expect((await objects()).filter(({ kind }) => kind !== 'Node')).toEqual([]);
    expect((await cloud.stats()).vmsNow).toBe(vms);
  });
});
