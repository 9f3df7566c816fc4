/** Every command of the documentation works: it is run here, or elsewhere.ts says where it is. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { annotations } from '../../api/gardener/names.ts';
import { machineDeployments } from '../../api/gardener/resources.ts';
import { defineResource, type KubeObject } from '../../api/objects.ts';
import { workflowIdPrefix } from '../../api/workflow-id.ts';
import { root } from '../../deploy/generators/root.ts';
import { findServer } from '../../deploy/local/servers.ts';
import { mergePatch } from '../../kube/patch.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';
import { commandsOf, documents } from './blocks.ts';
import { elsewhere } from './elsewhere.ts';

const isElsewhere = (file: string, command: string) =>
  Object.keys(elsewhere[file] ?? {}).some((beginning) => command.startsWith(beginning));
const runHere = documents
  .map((file) => ({ file, commands: commandsOf(file).filter((command) => !isElsewhere(file, command)) }))
  .filter(({ commands }) => commands.length > 0)
  .toSorted((a, b) => disturbance(a.file) - disturbance(b.file));

describe('the list of commands that are run elsewhere', () => {
  const entries = Object.entries(elsewhere).flatMap(([file, commands]) =>
    Object.entries(commands).map(([beginning, where]) => ({ file, beginning, where })),
  );

  it('names commands that there are', () => {
    const gone = entries.filter(({ file, beginning }) => !commandsOf(file).some((each) => each.startsWith(beginning)));

    expect(gone).toEqual([]);
  });

  it('names files that there are', () => {
    const files = entries.flatMap(({ where }) => ('testedBy' in where ? [where.testedBy] : []));

    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  });
});

describe('a document', () => {
  let millwright: Installation;
  let folder: string;
  /** What stands for the placeholders of a document. */
  let values: Record<string, string>;

  beforeAll(async () => {
    millwright = await startInstallation({
      alone: 'it has the Schedule of the sweeps',
      isElected: true, // commands show its Leases
      flags: ['--machine-safety-orphan-vms-period', '1h', '--orphan-confirm-after', '100ms'],
    });
    folder = await mkdtemp(join(tmpdir(), 'millwright-documented-'));
    await prepareShell();
    await prepareDeployment();
  });
  afterAll(async () => {
    await millwright?.stop();
    if (folder) await rm(folder, { recursive: true });
  });

  /** A folder that looks like a checkout, with the programs under their usual names. */
  async function prepareShell(): Promise<void> {
    await mkdir(join(folder, 'bin'));
    for (const name of ['kubectl', 'temporal'] as const)
      await symlink(await findServer(name), join(folder, 'bin', name));
    const program = join(folder, 'bin', 'millwright');
    await writeFile(program, `#!/bin/sh\nexec ${process.execPath} ${root}cli/main.ts "$@"\n`);
    await chmod(program, 0o755);
    await symlink(join(root, 'deploy'), join(folder, 'deploy'));
    const kubeconfig = join(folder, 'kubeconfig');
    await copyFile(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'), kubeconfig);
    await run(`kubectl config set-context --current --namespace ${millwright.namespace}`);
  }

  /** A deployment at its second revision, a machine that waits, and a file that would change it. */
  async function prepareDeployment(): Promise<void> {
    const { namespace, control } = millwright;
    await millwright.createDeployment('pool', 1);
    const key = { namespace, name: 'pool' };
    const template = (version: number) => ({
      spec: { template: { metadata: { annotations: { version: `${version}` } } } },
    });
    for (let revision = 1; revision <= 2; revision += 1) {
      if (revision > 1) await control.patch(machineDeployments, key, mergePatch(template(revision)));
      await until(`the deployment is at revision ${revision}`, async (see) => {
        const { metadata, spec, status } = see(await control.get(machineDeployments, key));
        return (
          metadata.annotations?.[annotations.revision] === `${revision}` && status?.updatedReplicas === spec?.replicas
        );
      });
    }
    const node = await until('only a machine of the last template is left', async (see) => {
      const [only, ...others] = see(await millwright.untilMachines(1, 'Running'));
      return others.length === 0 && only?.metadata.annotations?.version === '2' && only.metadata.labels?.node;
    });
    await run('kubectl create deployment machine-controller-manager --image=machine-controller-manager');
    await millwright.createMachine('waiting', { class: { kind: 'MachineClass', name: 'nowhere' } });
    // `millwright retry` finds it in a list of Temporal, which may be behind.
    const id = workflowIdPrefix(namespace, 'Machine', { namespace, name: 'waiting' });
    const query = `WorkflowId STARTS_WITH '${id}' AND ExecutionStatus = 'Running'`;
    await until('the workflow of the machine that waits is listed', async (see) => {
      return see(await millwright.temporal.workflow.count(query)).count > 0;
    });
    const pods = { 'pod namespace': `${namespace}-pods` };
    values = {
      ...pods,
      namespace,
      installation: namespace,
      class: 'small',
      deployment: 'pool',
      node,
      machine: 'waiting',
      account: 'machines',
    };
    const changed = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineDeployment', metadata: key };
    const { spec } = await control.get(machineDeployments, key);
    await writeFile(join(folder, 'changed.yaml'), stringify({ ...changed, spec: { ...spec, replicas: 2 } }));
  }

  /**
   * Runs commands in one shell of a reader, who has put a name for each placeholder. Throws for the first that fails.
   */
  async function run(...commands: readonly string[]): Promise<void> {
    const { namespace, cloud } = millwright;
    const filled = commands.map((command) =>
      command
        .replaceAll(/<([a-z ]+)>(\.\.\.)?/g, (_, name: string) => valueOf(name, command))
        .replaceAll("'default'", `'${namespace}'`)
        .replaceAll('default/orphan-sweep', `${namespace}/orphan-sweep`),
    );
    const env = {
      MILLWRIGHT_NAMESPACE: namespace,
      ...{ HOME: folder, PATH: [join(folder, 'bin'), process.env.PATH].join(delimiter), URL: cloud.url },
      ...{ KUBECONFIG: join(folder, 'kubeconfig'), TEMPORAL_ADDRESS: fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS') },
    };
    // It prints each command, so that the error has the one that failed.
    await promisify(execFile)('sh', ['-exc', filled.join('\n')], { cwd: folder, env, timeout: 240_000 });
  }

  /** `<name>` is that of the kind that the command is about. */
  function valueOf(placeholder: string, command: string): string {
    const kinds = [
      ['node', 'node'],
      ['machineclass', 'class'],
      ['rollout', 'deployment'],
      ['machinedeployment', 'deployment'],
      ['machine', 'machine'],
    ] as const;
    const kind = kinds.find(([word]) => command.includes(` ${word} `))?.[1];
    const value = values[placeholder === 'name' && kind ? kind : placeholder];
    if (value === undefined) throw new Error(`nothing stands for <${placeholder}> in: ${command}`);
    return value;
  }

  it.each(runHere)('$file has commands that work', async ({ commands }) => {
    await run(...commands);
  });

  it('rights.md binds the roles of both clusters to the accounts of one namespace, or to a single account', async () => {
    const { namespace, control } = millwright;
    const rights = commandsOf('docs/how-to/rights.md');
    const bindings = [
      { kind: 'RoleBinding', metadata: { namespace, name: 'millwright-controllers' } },
      { kind: 'RoleBinding', metadata: { namespace, name: 'millwright-workers' } },
      { kind: 'ClusterRoleBinding', metadata: { name: 'millwright-controllers-nodes' } },
      { kind: 'ClusterRoleBinding', metadata: { name: 'millwright-workers-nodes' } },
      { kind: 'RoleBinding', metadata: { namespace: 'kube-system', name: 'millwright-bootstrap-tokens' } },
    ];
    const group = 'rbac.authorization.k8s.io';
    const find = (kind: string, metadata: { readonly namespace?: string; readonly name: string }) => {
      const resource = { group, version: 'v1', plural: `${kind.toLowerCase()}s`, kind };
      return control.get(defineResource<KubeObject>({ ...resource, namespaced: 'namespace' in metadata }), metadata);
    };
    const boundTo = async (accountOf: (name: string) => object, pattern: RegExp) => {
      await run(...rights.filter((command) => pattern.test(command)));
      for (const { kind, metadata } of bindings) {
        const account = { kind: 'ServiceAccount', ...accountOf(metadata.name) };
        expect(await find(kind, metadata)).toMatchObject({ metadata, subjects: [account] });
      }
    };
    const roleIn = (name: string) => ({ name: `millwright-${/controllers/.test(name) ? 'controllers' : 'workers'}` });

    await boundTo((name) => ({ ...roleIn(name), namespace: 'millwright' }), /^kubectl/);
    await boundTo((name) => ({ ...roleIn(name), namespace: values['pod namespace'] }), /^sed (?!.*account)/);
    const role = await find('Role', { namespace, name: 'millwright-workers' });
    expect(JSON.stringify(role)).toContain(`"millwright-${values['installation']}-target"`);
    await boundTo(() => ({ name: values['account'], namespace: values['pod namespace'] }), /^sed .*account/);
  });
});

/** The commands of a document may replace the machines of others, or end what the others need: the more, the later. */
function disturbance(file: string): number {
  // Temporal may be at work on a batch when the command that has asked for it has ended.
  if (/back-to-mcm|high-availability/.test(file)) return 3;
  if (/simulated-cloud|run-by-hand/.test(file)) return 2;
  return /change-a-class|rollouts/.test(file) ? 1 : 0;
}
