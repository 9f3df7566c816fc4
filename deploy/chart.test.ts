/** The chart, rendered by helm and judged by a real API server. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { providerNames } from '../activities/providers/registry.ts';
import { doctorCommand } from '../cli/commands/doctor/command.ts';
import { controllersCommand, workerCommand } from '../cli/commands/serve/command.ts';
import { envOf, flagOf, parseOptions } from '../cli/options.ts';
import type { KubeClient } from '../kube/client.ts';
import { namespaces } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import { version } from '../temporal/version.ts';
import { judgeObject, type Manifest, newNamespace, testClient, testKubeconfig } from '../test/support/kube.ts';
import { checkRules } from '../test/support/promtool.ts';
import { findServer, findServers } from './local/servers.ts';
import { manifests, render, type Setting, template } from './manifests.ts';

interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly envFrom?: readonly object[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly livenessProbe: object;
  readonly readinessProbe: object;
}
interface PodSpec {
  readonly imagePullSecrets?: readonly object[];
  readonly dnsPolicy?: string;
  readonly dnsConfig?: object;
  readonly serviceAccountName: string;
  readonly containers: readonly [Container];
  readonly volumes: readonly { readonly name: string }[];
  readonly nodeSelector?: object;
  readonly tolerations?: readonly object[];
  readonly affinity?: object;
  readonly topologySpreadConstraints?: readonly object[];
  readonly priorityClassName?: string;
}
interface Deployment extends Manifest {
  readonly spec: {
    readonly replicas?: number;
    readonly strategy?: object;
    readonly revisionHistoryLimit?: number;
    readonly template: { readonly metadata: Manifest['metadata']; readonly spec: PodSpec };
  };
}

const examples = ['one-cluster', 'gardener', 'temporal-cloud', 'mutual-tls'] as const;

let client: KubeClient;
let namespace: string;
beforeAll(async () => {
  client = testClient();
  namespace = await newNamespace(client);
  await findServers(['helm', 'promtool']);
}, 900_000); // where they have to be built
afterAll(() => client?.close());

const objectsOf = (text: string): Manifest[] =>
  parseAllDocuments(text).flatMap((document) => (document.toJSON() === null ? [] : [document.toJSON()]));

const judge = (object: Manifest) => judgeObject(client, object);

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
      } as unknown as Manifest);
    }
  });

  it('gives the processes settings that they know, and `doctor` those that it needs', async () => {
    const deployments = await deploymentsOf(example);
    const isGiven = (name: string) => name.startsWith('MILLWRIGHT_');

    for (const { spec } of deployments) {
      const [container] = spec.template.spec.containers;
      const command = commands.find(({ name }) => name === container.args[0]);
      const known = (command?.flags ?? []).map((flag) => envOf(flag)[0]);
      const given = container.env.map(({ name }) => name).filter(isGiven);
      expect(known).toEqual(expect.arrayContaining(given));
      const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));
      const needed = {
        MILLWRIGHT_NAMESPACE: example === 'gardener' ? 'shoot--project--name' : 'fleet',
        MILLWRIGHT_TEMPORAL_ADDRESS: expect.stringContaining(':7233'),
        ...{
          'one-cluster': { MILLWRIGHT_TARGET_KUBECONFIG: 'inClusterConfig' },
          gardener: {
            MILLWRIGHT_CONTROL_KUBECONFIG: '/etc/millwright/control/kubeconfig',
            MILLWRIGHT_TARGET_KUBECONFIG: '/etc/millwright/target/kubeconfig',
            MILLWRIGHT_TEMPORAL_NAMESPACE: 'machines',
          },
          'temporal-cloud': {
            MILLWRIGHT_TEMPORAL_API_KEY_FILE: '/etc/millwright/temporal-api-key/apiKey',
            MILLWRIGHT_TEMPORAL_CODEC_KEYS: '/etc/millwright/temporal-codec-keys',
          },
          'mutual-tls': {
            MILLWRIGHT_TARGET_KUBECONFIG: 'none',
            MILLWRIGHT_TEMPORAL_TLS_CA: '/etc/millwright/temporal-tls/ca.crt',
            MILLWRIGHT_TEMPORAL_TLS_CERT: '/etc/millwright/temporal-tls/tls.crt',
            MILLWRIGHT_TEMPORAL_TLS_KEY: '/etc/millwright/temporal-tls/tls.key',
          },
        }[example],
      };
      expect(env).toMatchObject(needed);
      // Except those of files, which are not there.
      const withoutFiles = Object.entries(env).filter(([name]) => !/_FILE$|_TLS_(CA|CERT|KEY)$/.test(name));
      expect(parseOptions(command?.flags ?? [], {}, Object.fromEntries(withoutFiles))).toMatchObject({ port: 10_258 });
      expect(doctorCommand.flags.flatMap((flag) => envOf(flag))).toEqual(expect.arrayContaining(Object.keys(needed)));
    }
  });
});

const commands = [controllersCommand, workerCommand];

/** The controllers and the workers. */
async function deploymentsOf(example: string, ...settings: readonly Setting[]): Promise<[Deployment, Deployment]> {
  const objects = objectsOf(await render(example, 'fleet', ...settings));
  return objects.filter(({ kind }) => kind === 'Deployment') as [Deployment, Deployment];
}

it.each(examples)('the NOTES for %s have a command for `doctor` that needs no flags', async (example) => {
  const [chart = '', values = ''] = ['chart', `chart/examples/${example}.yaml`].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  const cluster = ['--kubeconfig', testKubeconfig(), '--dry-run=client'];
  const args = ['install', 'millwright', chart, '--namespace', 'fleet', '--values', values, ...cluster];
  const { stdout } = await promisify(execFile)(await findServer('helm'), args);

  expect(stdout.slice(stdout.indexOf('\nNOTES:')).match(/^.*millwright doctor.*$/gm)).toEqual([
    '  kubectl -n fleet exec deploy/millwright-workers -- millwright doctor',
  ]);
});

it('the schema of the chart knows the flags that no other value sets, and the providers', async () => {
  const schema = JSON.parse(await readFile(new URL('chart/values.schema.json', import.meta.url), 'utf8'));
  const ofComponent = (name: string) => schema.properties[name].properties;
  const byValues = [
    ...['namespace', 'installation', 'controlKubeconfig', 'targetKubeconfig', 'kubeconfig', 'temporalAddress'],
    ...['temporalNamespace', 'temporalTls', 'temporalTlsCa', 'temporalTlsCert', 'temporalTlsKey', 'temporalApiKey'],
    ...['temporalTlsServerName', 'temporalApiKeyFile', 'temporalCodecKeys', 'port', 'allowedHosts', 'providers'],
    ...['fleetPort', 'temporalUi'],
  ];
  const patternOf = (flags: readonly string[]) => {
    const words = flags.filter((flag) => !byValues.includes(flag)).map((flag) => flagOf(flag).slice(2));
    return `^--(${words.toSorted().join('|')})=`;
  };

  expect(ofComponent('controllers').args.items.pattern).toBe(patternOf(controllersCommand.flags));
  expect(ofComponent('workers').args.items.pattern).toBe(patternOf(workerCommand.flags));
  expect(ofComponent('workers').providers.items.enum).toEqual(providerNames);
});

it.each<[Setting, RegExp]>([
  ['temporal.address=http://temporal', /temporal[./]address/],
  ['temporal.address=temporal:99999', /temporal[./]address/],
  ['workers.replicas=-1', /workers[./]replicas/],
  ['wrokers.replicas=3', /wrokers/],
  ['image=null', /image/],
  ['image.digest=sha256:1', /image[./]digest/],
  ['image.tag=a:b', /image[./]tag/],
  ['image.pullSecrets={A b}', /image[./]pullSecrets[./]0/],
  ['workers.providers={awz}', /workers[./]providers[./]0/],
  ['workers.args={--provider=aws}', /workers[./]args[./]0/],
  ['controllers.args={--namespace=other}', /controllers[./]args[./]0/],
  ['controllers.args={--providers=aws}', /controllers[./]args[./]0/],
  ['temporal.tls.keys={ca.crt}', /temporal[./]tls[./]keys/],
  [{ 'temporal.tls.secret': 'tls', 'temporal.tls.keys': ['tls.crt'] }, /temporal[./]tls[./]keys/],
  [{ 'temporal.tls.secret': 'tls', 'temporal.tls.keys': ['tls.key'] }, /temporal[./]tls[./]keys/],
  [{ 'clusters.target.none': true, 'clusters.target.kubeconfigSecret': 'a' }, /target[./]kubeconfigSecret/],
  ['installation=a.provider-aws', /installation/],
  ['installation=a.drain', /installation/],
  [
    { 'workers.autoscaling': { enabled: true, minReplicas: 9, maxReplicas: 3, backlog: 50 } },
    /workers\.autoscaling\.minReplicas is 9 and maxReplicas is 3/,
  ],
  [{ 'workers.resources.limit': { cpu: 1 } }, /workers[./]resources.*limit/s],
  [{ 'workers.resources.limits.memory': '1 Gi' }, /workers[./]resources[./]limits[./]memory/],
  [{ podAnnotations: { a: 1 } }, /podAnnotations[./]a/],
  [{ 'workers.podLabels': { a: 'b c' } }, /workers[./]podLabels[./]a/],
  [{ podLabels: { 'app.kubernetes.io/name': 'other' } }, /podLabels/],
  [{ commonLabels: { a: 1 } }, /commonLabels[./]a/],
  [{ 'serviceMonitor.labels': { a: 1 } }, /serviceMonitor[./]labels[./]a/],
  [{ 'podMonitor.labels': { a: 1 } }, /podMonitor[./]labels[./]a/],
  [{ tolerations: [{ key: 'a', operater: 'Exists' }] }, /tolerations[./]0.*operater/s],
  ['workers.serviceAccount.name=a..b', /workers[./]serviceAccount[./]name/],
  [{ 'workers.serviceAccount.annotations': { a: 1 } }, /workers[./]serviceAccount[./]annotations[./]a/],
  ['machineNamespace=a.b', /machineNamespace/],
  [{ env: [{ name: 'MILLWRIGHT_NAMESPACE', value: 'other' }] }, /env[./]0[./]name/],
  [{ env: [{ name: 'A', value: 1 }] }, /env[./]0[./]value/],
  [{ env: [{ nam: 'A' }] }, /env[./]0/],
  [{ 'workers.env': [{ name: 'A', valueFrom: { secretRef: {} } }] }, /workers[./]env[./]0[./]valueFrom/],
  [{ envFrom: [{ secretKeyRef: { name: 'a' } }] }, /envFrom[./]0/],
  [{ volumes: [{ name: 'tmp', emptyDir: {} }] }, /volumes[./]0[./]name/],
  [{ volumes: [{ name: 'a' }] }, /volumes[./]0/],
  [{ volumeMounts: [{ name: 'a', mountPath: 'etc' }] }, /volumeMounts[./]0[./]mountPath/],
  [{ volumeMounts: [{ name: 'a', mountPath: '/etc/millwright/a' }] }, /volumeMounts[./]0[./]mountPath/],
  [{ 'workers.volumeMounts': [{ name: 'a', mountPath: '/a' }] }, /workers: volumeMounts has "a", and volumes has no/],
  [{ topologySpreadConstraints: [{ maxSkew: 0, topologyKey: 'a', whenUnsatisfiable: 'No' }] }, /maxSkew/],
  [{ affinity: { podAffinty: {} } }, /affinity.*podAffinty/s],
  ['priorityClassName=High', /priorityClassName/],
  ['workers.livenessProbe.periodSeconds=0', /workers[./]livenessProbe[./]periodSeconds/],
  [{ 'networkPolicy.from': [{ podSelectr: {} }] }, /networkPolicy[./]from[./]0/],
  ['admissionPolicy.actions={Deny,Warn}', /admissionPolicy[./]actions/],
  ['crds.enabled=yes', /crds[./]enabled/],
  ['allowedHosts={https://fleet.example.com}', /allowedHosts[./]0/],
  ['global.imagRegistry=mirror', /global\.imagRegistry has no effect, remove it/],
  ['global.imageRegistry=https://mirror', /global[./]imageRegistry/],
  ['global.imagePullSecrets={A b}', /global[./]imagePullSecrets[./]0/],
  [{ 'image.pullSecrets': [{ nam: 'a' }] }, /image[./]pullSecrets[./]0/],
  ['image.pullSecrets={}', /image[./]pullSecrets[./]0/],
  ['fullnameOverride=1st', /fullnameOverride/],
  [`fullnameOverride=${'a'.repeat(51)}`, /fullnameOverride/],
  ['nameOverride=a', /nameOverride/],
  ['hostNetwork=true', /hostNetwork/],
  ['terminationGracePeriodSeconds=60', /terminationGracePeriodSeconds/],
  ['strategy.type=Rolling', /strategy[./]type/],
  [{ strategy: { type: 'Recreate', rollingUpdate: { maxSurge: 1 } } }, /strategy[./]rollingUpdate/],
  ['strategy.rollingUpdate.maxSurge=1.5', /strategy[./]rollingUpdate[./]maxSurge/],
  ['revisionHistoryLimit=-1', /revisionHistoryLimit/],
  ['dnsPolicy=Cluster', /dnsPolicy/],
  ['dnsPolicy=None', /dnsConfig.*nameservers/s],
  [{ dnsConfig: { options: [{ name: 'ndots', value: 2 }] } }, /dnsConfig[./]options[./]0[./]value/],
  ['podDisruptionBudget.maxUnavailable=half', /podDisruptionBudget[./]maxUnavailable/],
  ['podDisruptionBudget.minAvailable=1', /podDisruptionBudget.*minAvailable/s],
  ['serviceMonitor.interval=30', /serviceMonitor[./]interval/],
  [{ 'podMonitor.relabelings': [{ source_labels: ['a'] }] }, /podMonitor[./]relabelings[./]0/],
  [{ 'serviceMonitor.enabled': true, 'podMonitor.enabled': true }, /serviceMonitor\.enabled and podMonitor\.enabled/],
  [
    { 'workers.serviceAccount': { create: false, name: 'a', annotations: { a: 'b' } } },
    /workers[./]serviceAccount[./]annotations/,
  ],
  [{ extraObjects: [{ kind: 'ConfigMap', metadata: { name: 'a' } }] }, /extraObjects[./]0/],
])('the chart refuses %j and names the value', async (setting, message) => {
  await expect(render('one-cluster', namespace, setting)).rejects.toThrow(message);
});

/** What each value for the Pods of one or both components makes of them. */
const settings: Readonly<Record<string, unknown>> = {
  env: [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }],
  envFrom: [{ secretRef: { name: 'a', optional: true } }],
  volumes: [{ name: 'authority', configMap: { name: 'authority' } }],
  volumeMounts: [{ name: 'authority', mountPath: '/etc/authority', readOnly: true }],
  podLabels: { 'azure.workload.identity/use': 'true' },
  podAnnotations: { checksum: '1' },
  nodeSelector: { pool: 'system' },
  tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoSchedule' }],
  affinity: { nodeAffinity: {} },
  priorityClassName: 'system-cluster-critical',
};
/** What a Deployment has of these. */
function settingsOf({ spec }: Deployment): Record<string, unknown> {
  const { metadata, spec: pod } = spec.template;
  const [{ env, envFrom, volumeMounts }] = pod.containers;
  const { nodeSelector, tolerations, affinity, priorityClassName } = pod;
  return {
    ...{ env: env.filter(({ name }) => !name.startsWith('MILLWRIGHT_')), envFrom },
    volumes: pod.volumes.filter(({ name }) => name !== 'tmp'),
    volumeMounts: volumeMounts.filter(({ name }) => name !== 'tmp'),
    podLabels: Object.fromEntries(
      Object.entries(metadata.labels ?? {}).filter(([key]) => !key.startsWith('app.kubernetes.io/')),
    ),
    ...{ podAnnotations: metadata.annotations, nodeSelector, tolerations, affinity, priorityClassName },
  };
}
const noSettings = { env: [], volumes: [], volumeMounts: [], podLabels: {} };

it('the chart gives the Pods of both components, or of one, what its values say, as an API server takes it', async () => {
  const both = await deploymentsOf('one-cluster', settings);
  for (const deployment of both) {
    expect(settingsOf(deployment)).toEqual(settings);
    await judge({ ...deployment, metadata: { ...deployment.metadata, namespace } });
  }

  const ofWorkers = Object.fromEntries(Object.entries(settings).map(([name, value]) => [`workers.${name}`, value]));
  const [controllers, workers] = await deploymentsOf('one-cluster', ofWorkers);
  expect(settingsOf(controllers)).toEqual(noSettings);
  expect(settingsOf(workers)).toEqual(settings);
});

it('the chart adds lists and labels of a component to those of both, and replaces where its Pods run', async () => {
  const [controllers, workers] = await deploymentsOf('one-cluster', {
    env: [{ name: 'A', value: 'both' }],
    'workers.env': [{ name: 'B', value: 'workers' }],
    podLabels: { a: 'both', b: 'both' },
    'workers.podLabels': { b: 'workers' },
    nodeSelector: { pool: 'both' },
    'workers.nodeSelector': { pool: 'workers' },
  });

  expect(settingsOf(controllers)).toMatchObject({
    env: [{ name: 'A', value: 'both' }],
    podLabels: { a: 'both', b: 'both' },
    nodeSelector: { pool: 'both' },
  });
  expect(settingsOf(workers)).toMatchObject({
    env: [
      { name: 'A', value: 'both' },
      { name: 'B', value: 'workers' },
    ],
    podLabels: { a: 'both', b: 'workers' },
    nodeSelector: { pool: 'workers' },
  });
});

it('the chart gives both Deployments what its values say about upgrades and DNS, as an API server takes it', async () => {
  const values = {
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '50%', maxUnavailable: 0 } },
    revisionHistoryLimit: 2,
    dnsPolicy: 'None',
    dnsConfig: { nameservers: ['10.0.0.10'], searches: ['a.b'], options: [{ name: 'ndots', value: '2' }] },
  };
  const [plain] = await deploymentsOf('one-cluster');

  expect(plain.spec.strategy).toBeUndefined();
  expect(plain.spec.template.spec).not.toHaveProperty('dnsPolicy');
  for (const deployment of await deploymentsOf('one-cluster', values)) {
    const { strategy, revisionHistoryLimit, template } = deployment.spec;
    const { dnsPolicy, dnsConfig } = template.spec;
    expect({ strategy, revisionHistoryLimit, dnsPolicy, dnsConfig }).toEqual(values);
    await judge({ ...deployment, metadata: { ...deployment.metadata, namespace } });
  }
});

it('the chart makes PodDisruptionBudgets as its values say, or none', async () => {
  const budgetsOf = async (...values: readonly Setting[]) =>
    objectsOf(await render('one-cluster', namespace, ...values)).filter(({ kind }) => kind === 'PodDisruptionBudget');
  const budget = (spec: object) => expect.objectContaining({ spec: expect.objectContaining(spec) });

  const plain = budget({ maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow' });
  expect(await budgetsOf()).toEqual([plain, plain]);
  const other = { 'podDisruptionBudget.maxUnavailable': '50%' };
  const budgets = await budgetsOf(other, 'podDisruptionBudget.unhealthyPodEvictionPolicy=IfHealthyBudget');
  const expected = budget({ maxUnavailable: '50%', unhealthyPodEvictionPolicy: 'IfHealthyBudget' });
  expect(budgets).toEqual([expected, expected]);
  for (const each of budgets) await judge(each);
  expect(await budgetsOf('podDisruptionBudget.enabled=false')).toEqual([]);
});

it('the chart adds objects of its values, with what is a template in them', async () => {
  const extra = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: '{{ .Release.Name }}-a' }, data: { b: 'c' } };
  const objects = objectsOf(await render('one-cluster', 'fleet', { extraObjects: [extra] }));

  expect(objects.filter(({ kind }) => kind === 'ConfigMap')).toEqual([
    { ...extra, metadata: { name: 'millwright-a' } },
  ]);
});

/** Where and with which Secrets the Pods of a Deployment find their image. */
const pullOf = ({ spec }: Deployment) => {
  const { imagePullSecrets, containers } = spec.template.spec;
  return { imagePullSecrets, image: containers[0].image.replace(`:${version}`, '') };
};

it.each([
  ['ghcr.io/m/m', 'mirror.example:5000/ghcr', 'mirror.example:5000/ghcr/m/m'],
  ['localhost:5000/m', 'mirror', 'mirror/m'],
  ['localhost/m', 'mirror', 'mirror/m'],
  ['m/m', 'mirror', 'mirror/m/m'],
  ['m', 'mirror', 'mirror/m'],
])('the chart takes %s from the registry %s as %s', async (repository, registry, image) => {
  const values = [`image.repository=${repository}`, `global.imageRegistry=${registry}`];
  const pulls = (await deploymentsOf('one-cluster', ...values)).map(pullOf);

  expect(pulls).toEqual([{ image }, { image }]);
});

it('the chart takes the global values of a parent chart, and leaves those for other charts alone', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'millwright-parent-chart-'));
  try {
    await writeFile(join(parent, 'Chart.yaml'), stringify({ apiVersion: 'v2', name: 'parent', version: '1.0.0' }));
    const global = { imageRegistry: 'mirror', imagePullSecrets: [{ name: 'a' }, 'b'], storageClass: 'fast' };
    const millwright = { image: { repository: 'ghcr.io/m/m', pullSecrets: ['c', { name: 'd' }] } };
    await writeFile(join(parent, 'values.yaml'), stringify({ global, millwright }));
    await cp(fileURLToPath(new URL('chart', import.meta.url)), join(parent, 'charts/millwright'), { recursive: true });
    const deployments = objectsOf(await template('parent', 'fleet', parent)).filter(
      ({ kind }) => kind === 'Deployment',
    );

    const imagePullSecrets = ['c', 'd', 'a', 'b'].map((name) => ({ name }));
    const expected = { image: 'mirror/m/m', imagePullSecrets };
    expect((deployments as Deployment[]).map(pullOf)).toEqual([expected, expected]);
  } finally {
    await rm(parent, { recursive: true });
  }
});

const everything = ['admissionPolicy', 'fleetPage', 'grafanaDashboard', 'workers.autoscaling'].flatMap((name) => [
  '--set',
  `${name}.enabled=true`,
]);

it('an API server takes all objects of a release whose name and namespace are as long as they may be', async () => {
  const folder = fileURLToPath(new URL('chart', import.meta.url));
  const longNamespace = 'n'.repeat(63);
  const objects = objectsOf(await template('r'.repeat(53), longNamespace, folder, ...everything));

  const lengths = objects.map(({ metadata }) => metadata.name.length);
  expect(Math.max(...lengths)).toBe(longNamespace.length + 50 + '--controllers-nodes'.length);
  expect(new Set(objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).size).toBe(objects.length);
  for (const object of objects) {
    const { metadata } = object;
    const isLong = metadata.namespace === longNamespace; // which is not there
    await judge(isLong ? { ...object, metadata: { ...metadata, namespace } } : object);
  }
});

it('the names of all objects begin with fullnameOverride, and selectors stay as they are', async () => {
  const folder = fileURLToPath(new URL('chart', import.meta.url));
  const texts = await Promise.all(
    ['', 'pool'].map((name) => template('a', 'fleet', folder, ...everything, '--set', `fullnameOverride=${name}`)),
  );
  const [plain = [], renamed = []] = texts.map(objectsOf);
  const selectors = (objects: readonly Manifest[]) =>
    (objects.filter(({ kind }) => kind === 'Deployment') as (Manifest & { spec: { selector: object } })[]).map(
      ({ spec }) => spec.selector,
    );

  expect(renamed.map(({ metadata }) => metadata.name)).toEqual(
    plain.map(({ metadata }) => metadata.name.replace(/^(fleet-)?a/, '$1pool')),
  );
  expect(selectors(renamed)).toEqual(selectors(plain));
});

it('the chart spreads the Pods of each component over the nodes, or as its values say', async () => {
  const spreadOf = async (...values: readonly Setting[]) =>
    (await deploymentsOf('one-cluster', ...values)).map(({ spec }) => spec.template.spec.topologySpreadConstraints);
  const zones = { maxSkew: 1, topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'DoNotSchedule' };
  const labelSelector = (component: string) => ({
    matchLabels: {
      ...{ 'app.kubernetes.io/name': 'millwright', 'app.kubernetes.io/instance': 'millwright' },
      'app.kubernetes.io/component': component,
    },
  });
  const components = ['controllers', 'workers'];

  const nodes = { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' };
  expect(await spreadOf()).toEqual(components.map((each) => [{ ...nodes, labelSelector: labelSelector(each) }]));
  expect(await spreadOf({ topologySpreadConstraints: [zones] })).toEqual(
    components.map((each) => [{ ...zones, labelSelector: labelSelector(each) }]),
  );
  const own = { ...zones, labelSelector: { matchLabels: { a: 'b' } } };
  expect((await spreadOf({ 'workers.topologySpreadConstraints': [own] }))[1]).toEqual([own]);
  expect(await spreadOf({ affinity: { podAntiAffinity: {} } })).toEqual([undefined, undefined]);
});

it('the chart takes an image by its digest, times of probes, flags, and no replicas at all', async () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  const imageOf = async (...values: readonly Setting[]) =>
    (await deploymentsOf('one-cluster', 'image.repository=r/m', ...values))[1].spec.template.spec.containers[0].image;

  expect(await imageOf()).toBe(`r/m:${version}`);
  expect(await imageOf(`image.digest=${digest}`)).toBe(`r/m@${digest}`);
  expect(await imageOf(`image.digest=${digest}`, 'image.tag=v1')).toBe(`r/m:v1@${digest}`);
  const [controllers, workers] = await deploymentsOf('one-cluster', 'controllers.replicas=0', {
    'workers.livenessProbe': { initialDelaySeconds: 20, periodSeconds: 30 },
    'controllers.readinessProbe': { periodSeconds: 7, failureThreshold: 9 },
    'workers.args': ['--orphan-brake-count=3'],
  });
  expect(controllers.spec.replicas).toBe(0);
  expect(controllers.spec.template.spec.containers[0].readinessProbe).toEqual({
    httpGet: { path: '/readyz', port: 'metrics' },
    ...{ periodSeconds: 7, timeoutSeconds: 5, failureThreshold: 9 },
  });
  const [worker] = workers.spec.template.spec.containers;
  expect(worker.livenessProbe).toMatchObject({ initialDelaySeconds: 20, periodSeconds: 30 });
  expect(worker.args).toEqual(['worker', '--orphan-brake-count=3']);
});

it('the chart puts common labels on all objects, and keeps the selectors as they are', async () => {
  const on = ['admissionPolicy', 'fleetPage', 'serviceMonitor', 'prometheusRule', 'grafanaDashboard'];
  const enabled = on.map((name) => `${name}.enabled=true`);
  const objects = objectsOf(await render('one-cluster', 'fleet', ...enabled, 'commonLabels.team=fleet'));

  for (const { kind, metadata } of objects)
    expect({ kind, team: metadata.labels?.['team'] }).toEqual({ kind, team: 'fleet' });
  const deployments = objects.filter(({ kind }) => kind === 'Deployment');
  for (const each of deployments) {
    const { selector, template } = (each as Manifest & { spec: { selector: object; template: Manifest } }).spec;
    expect(JSON.stringify(selector)).not.toContain('team');
    expect(template.metadata.labels).toMatchObject({ team: 'fleet' });
  }
});

it.each([
  ['serviceMonitor', 'ServiceMonitor', 'endpoints'],
  ['podMonitor', 'PodMonitor', 'podMetricsEndpoints'],
] as const)('the chart makes of %s a %s that says how to scrape', async (name, kind, endpoints) => {
  const monitorsOf = async (values: Readonly<Record<string, unknown>>) => {
    const paths = Object.entries(values).map(([key, value]) => [`${name}.${key}`, value]);
    const objects = objectsOf(await render('one-cluster', 'fleet', Object.fromEntries(paths)));
    return objects.filter((each) => each.kind.endsWith('Monitor'));
  };
  const times = { interval: '1m', scrapeTimeout: '20s' };
  const rules = {
    relabelings: [{ sourceLabels: ['__meta_kubernetes_pod_node_name'], targetLabel: 'node' }],
    metricRelabelings: [{ action: 'drop', sourceLabels: ['__name__'], regex: 'nodejs_.*' }],
  };
  const labels = { 'app.kubernetes.io/name': 'millwright', 'app.kubernetes.io/instance': 'millwright' };
  const monitor = (endpoint: object) => ({
    kind,
    metadata: { labels: { a: 'b' } },
    spec: { selector: { matchLabels: labels }, [endpoints]: [endpoint] },
  });

  expect(await monitorsOf({ enabled: true, labels: { a: 'b' } })).toMatchObject([
    monitor({ port: 'metrics', interval: '30s', honorLabels: true }),
  ]);
  expect(await monitorsOf({ enabled: true, labels: { a: 'b' }, ...times, ...rules })).toMatchObject([
    monitor({ port: 'metrics', honorLabels: true, ...times, ...rules }),
  ]);
});

it('the chart has the CRDs of deploy/crds if its values say so, and they stay unless these say otherwise', async () => {
  const crdsOf = async (...values: readonly Setting[]) =>
    objectsOf(await render('one-cluster', 'fleet', ...values)).filter(
      ({ kind }) => kind === 'CustomResourceDefinition',
    ) as (Manifest & { spec: object })[];

  expect(await crdsOf()).toEqual([]);
  const crds = await crdsOf('crds.enabled=true');
  expect(crds).toHaveLength(4);
  for (const { metadata, spec } of crds) {
    const [plural, ...group] = metadata.name.split('.');
    const file = new URL(`crds/${group.join('.')}_${plural}.yaml`, import.meta.url);
    const original = parse(await readFile(file, 'utf8'));
    expect(spec).toEqual(original.spec);
    expect(metadata.annotations).toEqual({ ...original.metadata.annotations, 'helm.sh/resource-policy': 'keep' });
  }
  const [first] = await crdsOf('crds.enabled=true', 'crds.keep=false');
  expect(Object.keys(first?.metadata.annotations ?? {})).not.toContain('helm.sh/resource-policy');
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
const bindings = (objects: readonly Manifest[]) =>
  objects
    .filter(({ kind }) => kind.endsWith('Binding'))
    .map((each) => {
      const { roleRef, subjects } = each as Manifest & { roleRef: Manifest['metadata']; subjects: { name: string }[] };
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
    .flatMap((role) => (role as Manifest & { rules: { resources: string[]; resourceNames?: string[] }[] }).rules)
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
  const policy = objects.find(({ kind }) => kind === 'NetworkPolicy') as Manifest & { spec: { ingress: unknown[] } };
  const deployments = objects.filter(({ kind }) => kind === 'Deployment') as Deployment[];

  expect(policy.spec.ingress).toEqual([
    {
      from: [{ namespaceSelector: { matchLabels: { team: 'monitoring' } } }],
      ports: [expect.objectContaining({ port: 'metrics' }), expect.objectContaining({ port: 'fleet' })],
    },
  ]);
  for (const { spec } of deployments)
    expect(spec.template.spec.containers[0].env).toContainEqual({
      name: 'MILLWRIGHT_ALLOWED_HOSTS',
      value: 'millwright.fleet,millwright-fleet.fleet,fleet.example.com,b',
    });
});

it('the chart refuses to send an API key for Temporal in clear text, except to the same Pod', async () => {
  const off = ['temporal.apiKeySecret=key', 'temporal.tls.enabled=false'];

  await expect(render('one-cluster', namespace, ...off)).rejects.toThrow(/temporal[./]tls[./]enabled/);
  for (const address of ['localhost:7233', '127.0.0.1:7233', '[::1]:7233'])
    expect(await render('one-cluster', namespace, ...off, `temporal.address=${address}`)).toContain(
      'MILLWRIGHT_TEMPORAL_TLS, value: "false"',
    );
  for (const one of [['temporal.apiKeySecret=key', 'temporal.tls.enabled=true'], off.slice(0, 1), off.slice(1)])
    expect(await render('one-cluster', namespace, ...one)).toContain('MILLWRIGHT_TEMPORAL_ADDRESS');
});

it('the chart makes of the files in monitoring a PrometheusRule that Prometheus takes, and a ConfigMap for Grafana', async () => {
  const settings = ['serviceMonitor', 'prometheusRule', 'grafanaDashboard'].map((name) => `${name}.enabled=true`);
  const objects = objectsOf(
    await render('one-cluster', namespace, ...settings, 'prometheusRule.labels.release=prometheus'),
  );
  const [rule] = objects.filter(({ kind }) => kind === 'PrometheusRule') as (Manifest & { spec: object })[];
  const [dashboard] = objects.filter(({ kind }) => kind === 'ConfigMap') as (Manifest & {
    data: Record<string, string>;
  })[];

  expect(rule?.metadata.labels).toMatchObject({ release: 'prometheus' });
  expect(rule?.spec).toEqual(parse(await readChartFile('alerts.yaml')));
  await checkRules(stringify(rule?.spec));
  expect(dashboard?.metadata.labels).toMatchObject({ grafana_dashboard: '1' });
  expect(JSON.parse(dashboard?.data['millwright.json'] ?? '')).toEqual(
    JSON.parse(await readChartFile('dashboard.json')),
  );
  await judge(dashboard as Manifest);
  expect(objects.filter(({ kind }) => kind === 'ServiceMonitor')).toHaveLength(1);
});

const readChartFile = (name: string) => readFile(new URL(`chart/monitoring/${name}`, import.meta.url), 'utf8');

it('deploy/manifests is what the chart makes', async () => {
  const file = fileURLToPath(new URL('manifests/millwright.yaml', import.meta.url));

  // To update it: npm run manifests
  expect(await manifests()).toBe(await readFile(file, 'utf8'));
});
