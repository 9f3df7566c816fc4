/** The chart, rendered by helm and judged by a real API server. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { defineResource, type KubeObject, type NewObject } from '../api/objects.ts';
import { controllersCommand, workerCommand } from '../cli/commands/serve/command.ts';
import { flagOf } from '../cli/options.ts';
import type { KubeClient } from '../kube/client.ts';
import { namespaces } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import { newNamespace, testClient } from '../test/support/kube.ts';
import { checkRules } from '../test/support/promtool.ts';
import { findServers } from './local/servers.ts';
import { manifests, render } from './manifests.ts';

interface Rendered extends KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
}
interface Deployment extends Rendered {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly serviceAccountName: string;
        readonly containers: readonly { readonly args: readonly string[] }[];
      };
    };
  };
}

const examples = ['one-cluster', 'gardener', 'temporal-cloud', 'mutual-tls'] as const;
const plurals: Readonly<Record<string, string>> = { NetworkPolicy: 'networkpolicies' };

let client: KubeClient;
let namespace: string;
beforeAll(async () => {
  client = testClient();
  namespace = await newNamespace(client);
  await findServers(['helm', 'promtool']);
}, 900_000); // where they have to be built
afterAll(() => client?.close());

const objectsOf = (text: string): Rendered[] =>
  parseAllDocuments(text).flatMap((document) => (document.toJSON() === null ? [] : [document.toJSON()]));

/** Has the API server judge an object as if it were created; it refuses fields that it does not know. */
async function judge({ apiVersion, kind, ...object }: Rendered): Promise<void> {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  const plural = plurals[kind] ?? `${kind.toLowerCase()}s`;
  const isNamespaced = object.metadata.namespace !== undefined;
  const resource = defineResource<KubeObject>({ group, version, plural, kind, namespaced: isNamespaced });
  await client.create(resource, object as NewObject<KubeObject>, { dryRun: 'All', fieldValidation: 'Strict' });
}

describe.each(examples)('the chart with the values of %s', (example) => {
  it('makes objects that an API server takes', async () => {
    const objects = objectsOf(await render(example, namespace));

    for (const object of objects) await judge(object);
    const kinds = new Set(objects.map(({ kind }) => kind));
    for (const kind of ['Deployment', 'ServiceAccount', 'PodDisruptionBudget', 'NetworkPolicy', 'Service'])
      expect([...kinds]).toContain(kind);
    expect(kinds.has('HorizontalPodAutoscaler')).toBe(example === 'gardener');
    const services = objects.filter(({ kind }) => kind === 'Service');
    expect(services).toHaveLength(example === 'gardener' ? 2 : 1); // one more for the fleet page
    expect(kinds.has('ClusterRole')).toBe(example === 'one-cluster' || example === 'temporal-cloud');
  });

  it('makes Pods that a namespace takes which enforces the restricted Pod Security Standard', async () => {
    const enforce = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await client.patch(namespaces, { name: namespace }, mergePatch({ metadata: { labels: enforce } }));
    const deployments = objectsOf(await render(example, namespace)).filter(({ kind }) => kind === 'Deployment');

    expect(deployments).toHaveLength(2);
    for (const { metadata, spec } of deployments as Deployment[]) {
      const { serviceAccountName: _, ...pod } = spec.template.spec as typeof spec.template.spec &
        Record<string, unknown>;
      const { name } = metadata;
      await judge({
        ...{ apiVersion: 'v1', kind: 'Pod', spec: pod },
        metadata: { name, namespace },
      } as unknown as Rendered);
    }
  });

  it('gives the processes arguments that they know', async () => {
    const deployments = objectsOf(await render(example, namespace)).filter(({ kind }) => kind === 'Deployment');
    const commands = [controllersCommand, workerCommand];

    for (const { spec } of deployments as Deployment[]) {
      const [word, ...args] = spec.template.spec.containers[0]?.args ?? [];
      const command = commands.find(({ name }) => name === word);
      const known = (command?.flags ?? []).map((flag) => flagOf(flag));
      expect(known).toEqual(expect.arrayContaining(args.map((arg) => arg.replace(/=.*/, ''))));
    }
  });
});

it.each([
  ['temporal.address=http://temporal', /temporal[./]address/],
  ['workers.replicas=0', /workers[./]replicas/],
  ['wrokers.replicas=3', /wrokers/],
  ['allowedHosts={https://fleet.example.com}', /allowedHosts[./]0/],
])('the chart refuses %s and names the value', async (setting, message) => {
  await expect(render('one-cluster', namespace, setting)).rejects.toThrow(message);
});

it.each([
  ['one-cluster', true],
  ['gardener', false],
  ['temporal-cloud', true],
  ['mutual-tls', false],
] as const)('the Pods of %s get the token of their account: %s', async (example, isMounted) => {
  const objects = objectsOf(await render(example, namespace));
  const pods = objects
    .filter(({ kind }) => kind === 'Deployment')
    .map((each) => (each as Deployment).spec.template.spec);
  const accounts = objects.filter(({ kind }) => kind === 'ServiceAccount');

  expect(pods).toHaveLength(2);
  for (const pod of pods)
    expect(pod).toMatchObject({ automountServiceAccountToken: isMounted, enableServiceLinks: false });
  expect(accounts).toHaveLength(2);
  for (const account of accounts) expect(account).toMatchObject({ automountServiceAccountToken: false });
});

/** Name of a role, and the account that it is bound to. */
const bindings = (objects: readonly Rendered[]) =>
  objects
    .filter(({ kind }) => kind.endsWith('Binding'))
    .map((each) => {
      const { roleRef, subjects } = each as Rendered & { roleRef: Rendered['metadata']; subjects: { name: string }[] };
      return [roleRef.name, ...subjects.map(({ name }) => name)];
    });

it('the chart gives each component an account of its own, with the roles of this component', async () => {
  const objects = objectsOf(await render('one-cluster', 'fleet', 'installation=pool'));
  const accounts = (objects.filter(({ kind }) => kind === 'Deployment') as Deployment[]).map(({ spec, metadata }) => [
    metadata.name,
    spec.template.spec.serviceAccountName,
  ]);

  expect(accounts).toEqual([
    ['millwright-controllers', 'millwright-controllers'],
    ['millwright-workers', 'millwright-workers'],
  ]);
  expect(bindings(objects)).toEqual([
    ['fleet-millwright-controllers-nodes', 'millwright-controllers'],
    ['fleet-millwright-workers-nodes', 'millwright-workers'],
    ['millwright-controllers', 'millwright-controllers'],
    ['millwright-workers', 'millwright-workers'],
    ['fleet-millwright-bootstrap-tokens', 'millwright-workers'],
  ]);
  const leases = objects
    .filter(({ kind, metadata }) => kind === 'Role' && metadata.namespace === 'fleet')
    .flatMap((role) => (role as Rendered & { rules: { resources: string[]; resourceNames?: string[] }[] }).rules)
    .filter(({ resources }) => resources.includes('leases'));
  expect(leases.flatMap(({ resourceNames = [] }) => resourceNames)).toContain('millwright-pool-target');
  expect(JSON.stringify(leases)).not.toContain('<installation>');
});

it('the chart takes the accounts that its values name, and makes no role for bootstrap tokens where none are wanted', async () => {
  const settings = [
    ...['workers.serviceAccount.name=cloud', 'workers.serviceAccount.annotations.role=of-the-cloud'],
    ...['controllers.serviceAccount.create=false', 'rbac.bootstrapTokens=false'],
  ];
  const objects = objectsOf(await render('one-cluster', 'fleet', ...settings));

  const accounts = objects.filter(({ kind }) => kind === 'ServiceAccount');
  expect(accounts.map(({ metadata: { name, annotations } }) => [name, annotations])).toEqual([
    ['cloud', { role: 'of-the-cloud' }],
  ]);
  expect(bindings(objects)).toEqual([
    ['fleet-millwright-controllers-nodes', 'millwright-controllers'],
    ['fleet-millwright-workers-nodes', 'cloud'],
    ['millwright-controllers', 'millwright-controllers'],
    ['millwright-workers', 'cloud'],
  ]);
});

it('the chart adds rights for people to the ClusterRoles view, edit and admin of Kubernetes, unless that is off', async () => {
  const rolesFor = async (...settings: readonly string[]) =>
    objectsOf(await render('one-cluster', 'fleet', ...settings))
      .filter(({ kind, metadata }) => kind === 'ClusterRole' && !metadata.name.endsWith('-nodes'))
      .map(({ metadata: { name, labels = {} } }) => [name, Object.keys(labels).find((each) => /aggregate/.test(each))]);

  const aggregate = 'rbac.authorization.k8s.io/aggregate-to';
  expect(await rolesFor()).toEqual(
    ['view', 'edit', 'admin'].map((name) => [`fleet-millwright-${name}`, `${aggregate}-${name}`]),
  );
  expect(await rolesFor('rbac.aggregateClusterRoles=false')).toEqual(
    ['view', 'edit', 'admin'].map((name) => [`fleet-millwright-${name}`, undefined]),
  );
});

it('the chart makes hosts and peers of a NetworkPolicy of its values', async () => {
  const from = 'networkPolicy.from[0].namespaceSelector.matchLabels.team=monitoring';
  const objects = objectsOf(await render('gardener', 'fleet', 'allowedHosts={fleet.example.com,b}', from));
  const policy = objects.find(({ kind }) => kind === 'NetworkPolicy') as Rendered & { spec: { ingress: unknown[] } };
  const deployments = objects.filter(({ kind }) => kind === 'Deployment') as Deployment[];

  expect(policy.spec.ingress).toEqual([
    {
      from: [{ namespaceSelector: { matchLabels: { team: 'monitoring' } } }],
      ports: [expect.objectContaining({ port: 'metrics' }), expect.objectContaining({ port: 'fleet' })],
    },
  ]);
  for (const { spec } of deployments)
    expect(spec.template.spec.containers[0]?.args).toContain(
      '--allowed-hosts=millwright.fleet,millwright-fleet.fleet,fleet.example.com,b',
    );
});

it('the chart refuses to send an API key for Temporal in clear text, except to the same Pod', async () => {
  const off = ['temporal.apiKeySecret=key', 'temporal.tls.enabled=false'];

  await expect(render('one-cluster', namespace, ...off)).rejects.toThrow(/temporal[./]tls[./]enabled/);
  for (const address of ['localhost:7233', '127.0.0.1:7233', '[::1]:7233'])
    expect(await render('one-cluster', namespace, ...off, `temporal.address=${address}`)).toContain(
      '--temporal-tls=false',
    );
  for (const one of [['temporal.apiKeySecret=key', 'temporal.tls.enabled=true'], off.slice(0, 1), off.slice(1)])
    expect(await render('one-cluster', namespace, ...one)).toContain('--temporal-address=');
});

it('the chart makes of the files in monitoring a PrometheusRule that Prometheus takes, and a ConfigMap for Grafana', async () => {
  const settings = ['serviceMonitor', 'prometheusRule', 'grafanaDashboard'].map((name) => `${name}.enabled=true`);
  const objects = objectsOf(
    await render('one-cluster', namespace, ...settings, 'prometheusRule.labels.release=prometheus'),
  );
  const [rule] = objects.filter(({ kind }) => kind === 'PrometheusRule') as (Rendered & { spec: object })[];
  const [dashboard] = objects.filter(({ kind }) => kind === 'ConfigMap') as (Rendered & {
    data: Record<string, string>;
  })[];

  expect(rule?.metadata.labels).toMatchObject({ release: 'prometheus' });
  expect(rule?.spec).toEqual(parse(await readChartFile('alerts.yaml')));
  await checkRules(stringify(rule?.spec));
  expect(dashboard?.metadata.labels).toMatchObject({ grafana_dashboard: '1' });
  expect(JSON.parse(dashboard?.data['millwright.json'] ?? '')).toEqual(
    JSON.parse(await readChartFile('dashboard.json')),
  );
  await judge(dashboard as Rendered);
  expect(objects.filter(({ kind }) => kind === 'ServiceMonitor')).toHaveLength(1);
});

const readChartFile = (name: string) => readFile(new URL(`chart/monitoring/${name}`, import.meta.url), 'utf8');

it('deploy/manifests is what the chart makes', async () => {
  const file = fileURLToPath(new URL('manifests/millwright.yaml', import.meta.url));

  // To update it: npm run manifests
  expect(await manifests()).toBe(await readFile(file, 'utf8'));
});
