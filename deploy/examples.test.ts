/** The examples for Argo CD, Flux, kustomize and krew, and how those of providers are built, deployed and tested in CI. */
import { execFile } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments } from 'yaml';
import type { Machine } from '../api/gardener/schema/machine.ts';
import type { MachineClass } from '../api/gardener/schema/machine-class.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import { verdictAnnotations } from '../api/verdict.ts';
import type { KubeClient } from '../kube/client.ts';
import { namespaces } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import { judgeHealth } from '../test/support/health.ts';
import { judgeObject, type Manifest, newNamespace, testClient } from '../test/support/kube.ts';
import { root } from './generators/root.ts';
import { findServer } from './local/servers.ts';
import { render } from './manifests.ts';

interface Document {
  readonly kind: string;
  readonly spec: Record<string, never>;
  readonly metadata: { readonly name: string };
}

async function documentsOf(file: string): Promise<Document[]> {
  const text = await readFile(join(root, 'deploy/examples', file), 'utf8');
  return parseAllDocuments(text).map((document) => document.toJSON());
}

const metadata = {
  name: 'pool',
  uid: '1',
  resourceVersion: '1',
  creationTimestamp: '2026-08-19T10:00:00Z',
  generation: 2,
};
const now = '2026-08-19T10:00:00Z';
const condition = (type: string, status: string) => ({
  ...{ type, status, reason: 'Reason', message: 'words' },
  ...{ lastTransitionTime: now, lastUpdateTime: now },
});
const all = { observedGeneration: 2, replicas: 3, updatedReplicas: 3, availableReplicas: 3 };
const deployment = (status: MachineDeployment['status'], spec: object = {}) =>
  ({ metadata, spec: { replicas: 3, ...spec }, status }) as MachineDeployment;
const set = (status: MachineSet['status']) => ({ metadata, spec: { replicas: 3 }, status }) as MachineSet;
const machine = (phase: string, change: object = {}) =>
  ({
    metadata: { ...metadata, ...change },
    spec: {},
    status: { currentStatus: { phase }, lastOperation: { description: 'words' } },
  }) as Machine;
const machineClass = (problems?: string[]) =>
  ({
    metadata: { ...metadata, ...(problems && { annotations: verdictAnnotations({ version: '1', problems }) }) },
  }) as MachineClass;

/** Kind, object, what Argo CD says of it, and what Flux says where it has an expression for the kind. */
const healths: readonly (readonly [kind: string, object: object, argo: string, flux?: string])[] = [
  ['MachineDeployment', deployment(all), 'Healthy', 'current'],
  [
    'MachineDeployment',
    deployment({ ...all, replicas: 0, updatedReplicas: 0, availableReplicas: 0 }, { replicas: 0 }),
    'Healthy',
    'current',
  ],
  ['MachineDeployment', deployment({}), 'Progressing', 'inProgress'],
  ['MachineDeployment', deployment({ ...all, observedGeneration: 1 }), 'Progressing'],
  ['MachineDeployment', deployment({ ...all, availableReplicas: 2 }), 'Progressing', 'none'],
  ['MachineDeployment', deployment({ ...all, updatedReplicas: 1 }), 'Progressing', 'none'],
  ['MachineDeployment', deployment({ ...all, replicas: 4 }), 'Progressing', 'none'],
  ['MachineDeployment', deployment(all, { paused: true }), 'Suspended'],
  ['MachineDeployment', deployment({ ...all, conditions: [condition('Progressing', 'True')] }), 'Healthy', 'current'],
  ['MachineDeployment', deployment({ ...all, conditions: [condition('Progressing', 'False')] }), 'Degraded', 'failed'],
  ['MachineDeployment', deployment({ ...all, conditions: [condition('Frozen', 'True')] }), 'Degraded', 'failed'],
  [
    'MachineDeployment',
    deployment({ ...all, conditions: [condition('ReplicaFailure', 'True')] }),
    'Degraded',
    'failed',
  ],
  ['MachineSet', set({ observedGeneration: 2, replicas: 3, availableReplicas: 3 }), 'Healthy'],
  ['MachineSet', set({ observedGeneration: 2, replicas: 3, availableReplicas: 1 }), 'Progressing'],
  ['MachineSet', set({ observedGeneration: 1, replicas: 3, availableReplicas: 3 }), 'Progressing'],
  [
    'MachineSet',
    set({ ...all, machineSetCondition: [condition('Frozen', 'True')] } as MachineSet['status']),
    'Degraded',
  ],
  ...(['Running', 'Available'] as const).map((phase) => ['Machine', machine(phase), 'Healthy'] as const),
  ...(['', 'Pending', 'InPlaceUpdating'] as const).map((phase) => ['Machine', machine(phase), 'Progressing'] as const),
  ...(['Unknown', 'Failed', 'CrashLoopBackOff'] as const).map(
    (phase) => ['Machine', machine(phase), 'Degraded'] as const,
  ),
  ['Machine', { metadata, spec: {} }, 'Progressing'],
  ['Machine', machine('Failed', { deletionTimestamp: now }), 'Progressing'],
  ['MachineClass', machineClass(), 'Progressing', 'none'],
  ['MachineClass', machineClass([]), 'Healthy', 'current'],
  ['MachineClass', machineClass(['no image']), 'Degraded', 'failed'],
];

describe('health checks', () => {
  it('of Argo CD say how each kind is', async () => {
    const { data } = parse(await readFile(join(root, 'deploy/examples/argocd/argocd-cm.yaml'), 'utf8'));
    const keyOf = (what: string, kind: string) => `resource.customizations.${what}.machine.sapcloud.io_${kind}`;
    const questions = healths.map(([kind, object]) => ({
      ...{ object, lua: data[keyOf('health', kind)] as string },
      useOpenLibs: data[keyOf('useOpenLibs', kind)] === 'true',
    }));

    const answers = await judgeHealth(questions);

    const found = answers.map(({ error, status }, i) => [healths[i]?.[0], healths[i]?.[1], error ?? status]);
    expect(found).toEqual(healths.map(([kind, object, status]) => [kind, object, status]));
    expect(answers.find(({ status }) => status === 'Degraded')?.message).toBe('Reason: words');
  });

  it('of Flux say how a MachineDeployment and a MachineClass are', async () => {
    const machines = (await documentsOf('flux/millwright.yaml')).find(({ kind }) => kind === 'Kustomization');
    const expressions = machines?.spec['healthCheckExprs'] as unknown as Readonly<Record<string, string>>[];
    const asked = healths.filter(([, , , flux]) => flux !== undefined);
    // In the order of Flux: the first that is true counts.
    const states = ['inProgress', 'failed', 'current'] as const;
    const questions = asked.flatMap(([kind, object]) =>
      states.map((state) => ({ object, cel: expressions.find((each) => each['kind'] === kind)?.[state] ?? 'false' })),
    );

    const answers = await judgeHealth(questions);

    expect(answers.flatMap(({ error }) => error ?? [])).toEqual([]);
    const found = asked.map((_, i) => states.find((_state, j) => answers[i * states.length + j]?.is) ?? 'none');
    expect(found).toEqual(asked.map(([, , , flux]) => flux));
  });
});

describe('the chart', () => {
  it('takes the values of the examples for Argo CD and Flux', async () => {
    const argo = (await documentsOf('argocd/application.yaml'))[0]?.spec['source'] as never as {
      readonly path: string;
      readonly helm: { readonly valueFiles: string[]; readonly valuesObject: Record<string, unknown> };
    };
    const flux = (await documentsOf('flux/millwright.yaml')).find(({ kind }) => kind === 'HelmRelease')
      ?.spec as never as {
      readonly chart: { readonly spec: { readonly chart: string; readonly valuesFiles: string[] } };
      readonly values: Record<string, unknown>;
    };

    const files = [
      ...argo.helm.valueFiles.map((file) => join(argo.path, file)),
      ...flux.chart.spec.valuesFiles,
      ...[argo.path, flux.chart.spec.chart],
    ];
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    expect(flux.values).toEqual(argo.helm.valuesObject);
    const manifests = await render('one-cluster', 'millwright', argo.helm.valuesObject);
    expect(manifests).toContain('image: registry.example.com/millwright:0.2.0');
    expect(manifests).toContain('kind: CustomResourceDefinition');
  });
});

describe('kustomize', () => {
  it('builds the manifests with the image, the Temporal server and the provider of the example', async () => {
    const kubectl = await findServer('kubectl');
    const { stdout } = await promisify(execFile)(kubectl, ['kustomize', join(root, 'deploy/examples/kustomize')]);

    const built: Document[] = parseAllDocuments(stdout).map((document) => document.toJSON());
    const base = parseAllDocuments(await readFile(join(root, 'deploy/manifests/millwright.yaml'), 'utf8'));
    expect(built).toHaveLength(base.length);
    const containers = built.flatMap(({ kind, metadata: { name }, spec }) => {
      if (kind !== 'Deployment') return [];
      const { template } = spec as never as {
        template: { spec: { containers: { image: string; env: Variable[] }[] } };
      };
      return template.spec.containers.map(({ image, env }) => ({
        ...{ name, image },
        temporal: env.find((each) => each.name === 'MILLWRIGHT_TEMPORAL_ADDRESS')?.value,
        providers: env.find((each) => each.name === 'MILLWRIGHT_PROVIDERS')?.value,
      }));
    });
    const both = { image: 'registry.example.com/millwright:0.2.0', temporal: 'temporal.example.com:7233' };
    expect(containers).toEqual([
      { name: 'millwright-controllers', ...both, providers: undefined },
      { name: 'millwright-workers', ...both, providers: 'azure' },
    ]);
  });
});

interface Variable {
  readonly name: string;
  readonly value?: string;
}

describe('the template for krew', () => {
  it('has the program of the plugin, and a placeholder for all that a release says', async () => {
    const [manifest] = await documentsOf('krew.yaml');
    const { bin } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));

    expect(manifest).toMatchObject({
      metadata: { name: 'millwright' },
      spec: {
        version: 'v<version>',
        platforms: [
          {
            uri: '<url>/millwright-<version>-cli.tar.gz',
            sha256: '<sha256>',
            bin: `package/${bin['kubectl-machine']}`,
          },
        ],
      },
    });
  });
});

describe.each(['go', 'python'])('the example of a provider in %s', (language) => {
  const folder = `${language}-provider`;
  const read = (file: string) => readFile(join(root, 'deploy/examples', folder, file), 'utf8');
  let client: KubeClient;
  let namespace: string;
  beforeAll(async () => {
    client = testClient();
    namespace = await newNamespace(client);
    const enforce = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await client.patch(namespaces, { name: namespace }, mergePatch({ metadata: { labels: enforce } }));
  });
  afterAll(() => client?.close());

  async function podSpec() {
    const [deployment] = await documentsOf(`${folder}/deployment.yaml`);
    const template = deployment?.spec['template'] as never as {
      readonly spec: { readonly serviceAccountName: string; readonly containers: { readonly env: Variable[] }[] };
    };
    return template.spec;
  }

  it('has rights, and a Deployment with them, that an API server takes, also where Pods are restricted', async () => {
    const [account, ...others] = await documentsOf(`${folder}/rights.yaml`);
    const { serviceAccountName, ...pod } = await podSpec();
    const objects: unknown[] = [
      ...[account, ...others, ...(await documentsOf(`${folder}/deployment.yaml`))],
      { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'provider' }, spec: pod },
    ];

    for (const object of objects as Manifest[])
      await judgeObject(client, { ...object, metadata: { ...object.metadata, namespace } });
    expect(account).toMatchObject({ kind: 'ServiceAccount', metadata: { name: serviceAccountName } });
    const [role, binding] = others;
    expect(role?.kind).toBe('Role');
    expect(binding).toMatchObject({
      kind: 'RoleBinding',
      roleRef: { kind: 'Role', name: role?.metadata.name },
      subjects: [{ kind: 'ServiceAccount', name: serviceAccountName }],
    });
  });

  it('sets variables in its Pods that a README names', async () => {
    const readme = await readFile(join(root, 'deploy/examples/python-provider/README.md'), 'utf8');
    const rows = readme.match(/^\| `[A-Z].*?\|/gm) ?? [];

    const names = (await podSpec()).containers.flatMap(({ env }) => env.map(({ name }) => name));
    expect(rows.flatMap((row) => row.match(/[A-Z_]+(?=`)/g))).toEqual(expect.arrayContaining(names));
    expect(names).toEqual(expect.arrayContaining(['TEMPORAL_ADDRESS', 'MILLWRIGHT_INSTALLATION']));
  });

  it('has the files that its Dockerfile copies, and an image whose user is not root', async () => {
    const dockerfile = await read('Dockerfile');
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, files = '']) =>
      files.split(' '),
    );

    expect(copied).not.toEqual([]);
    expect(
      copied.filter((file) => globSync(file, { cwd: join(root, 'deploy/examples', folder) }).length === 0),
    ).toEqual([]);
    expect(dockerfile.match(/^USER .*/gm)).toEqual([expect.stringMatching(/^USER [1-9]\d*:[1-9]\d*$/)]);
  });

  it('has a CI job that calls its `make test` with a clone of Millwright', async () => {
    const { jobs } = parse(await read('.github/workflows/test.yaml'));
    const steps: { run?: string; with?: { path?: string } }[] = jobs.test.steps;
    const workspace = await mkdtemp(join(tmpdir(), 'millwright-ci-'));
    const [own = '', clone = ''] = steps.flatMap((step) => step.with?.path ?? []);
    await symlink(join(root, 'deploy/examples', folder), join(workspace, own));
    await symlink(root, join(workspace, clone));

    // Read before each Makefile, whose default for the clone must not count.
    const makefile = join(workspace, 'print.mk');
    await writeFile(makefile, '$(info $(MAKECMDGOALS) with $(MILLWRIGHT))\n');
    const { MILLWRIGHT: _, ...env } = process.env;
    const make = { MAKEFLAGS: 'n', MAKEFILES: makefile, GITHUB_WORKSPACE: workspace };
    const printOnly = { cwd: workspace, env: { ...env, ...make } };
    const runs = steps.flatMap(({ run }) => run ?? []).map((run) => promisify(execFile)('sh', ['-c', run], printOnly));
    const printed = (await Promise.all(runs)).map(({ stdout }) => stdout).join('');
    await rm(workspace, { recursive: true });
    expect(printed).toMatch(/^(go test|\S+python -m unittest) /m);
    expect(printed.split('\n')).toContain(`test with ${join(workspace, clone)}`);
  });
});
