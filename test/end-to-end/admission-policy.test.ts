/** The policies of the chart: what they refuse, and that Millwright and everybody else can work under them. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parse, parseAllDocuments, stringify } from 'yaml';
import * as gardener from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { names, signingKeySecret } from '../../api/names.ts';
import { defineResource, type KubeObject, type NewObject, type Resource } from '../../api/objects.ts';
import { findServer } from '../../deploy/local/servers.ts';
import { render } from '../../deploy/manifests.ts';
import type { KubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { secrets } from '../../kube/core.ts';
import { jsonPatch, mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { testClient, testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';

const clusterScoped = (group: string, kind: string, plural: string) =>
  defineResource<KubeObject>({ group, version: 'v1', plural, kind, namespaced: false });
const bindings = clusterScoped('rbac.authorization.k8s.io', 'ClusterRoleBinding', 'clusterrolebindings');
const admission = 'admissionregistration.k8s.io';
const resources = {
  ValidatingAdmissionPolicy: clusterScoped(admission, 'ValidatingAdmissionPolicy', 'validatingadmissionpolicies'),
  ValidatingAdmissionPolicyBinding: clusterScoped(
    admission,
    'ValidatingAdmissionPolicyBinding',
    'validatingadmissionpolicybindings',
  ),
} as const;
interface Policy extends KubeObject {
  readonly kind: keyof typeof resources;
  readonly apiVersion: string;
}

const namespace = `test-${randomBytes(4).toString('hex')}`;
/** All may do everything by RBAC: what is refused is refused by the policies. */
const users = {
  millwright: `millwright-of-${namespace}`,
  editor: `editor-of-${namespace}`,
  velero: `velero-of-${namespace}`,
} as const;
let folder: string;
let millwright: Installation;
let editor: KubeClient;
let velero: KubeClient;
let policies: Policy[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-test-'));
  const admin = testClient();
  const config = await readFile(testKubeconfig(), 'utf8');
  const kubeconfigOf = async (name: string) => {
    const limited = parse(config);
    for (const each of limited.users) each.user.as = name;
    await writeFile(join(folder, name), stringify(limited));
    await admin.create(bindings, {
      metadata: { name },
      roleRef: { apiGroup: bindings.group, kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ apiGroup: bindings.group, kind: 'User', name }],
    } as NewObject<KubeObject>);
    return join(folder, name);
  };
  const processKubeconfig = await kubeconfigOf(users.millwright);
  editor = testClient(loadKubeconfig(await kubeconfigOf(users.editor)));
  velero = testClient(loadKubeconfig(await kubeconfigOf(users.velero)));

  const values = [`accounts={${users.millwright}}`, `users={${users.velero}}`, 'enabled=true'];
  const settings = values.map((value) => `admissionPolicy.${value}`);
  const text = await render('one-cluster', namespace, ...settings);
  policies = parseAllDocuments(text)
    .map((document): Policy => document.toJSON())
    .filter((each) => each?.kind in resources);
  for (const { kind, apiVersion: _, ...policy } of policies) await admin.create(resources[kind], policy);
  await admin.close();
  millwright = await startInstallation({ namespace, processKubeconfig });
  await millwright.putSecret('pool', { userData: '#!/bin/sh\njoin <<BOOTSTRAP_TOKEN>>' });

  // An API server needs a moment until it knows a policy.
  const probe = { metadata: { namespace, name: 'probe' }, stringData: {} };
  const labels = { [names.machineUid]: 'probe' };
  await until('the policy for fields is in effect', async () => {
    const answer = editor.create(secrets, { ...probe, metadata: { ...probe.metadata, labels } }, { dryRun: 'All' });
    return answer.then(() => false).catch(() => true);
  });
  const asMillwright = testClient(loadKubeconfig(processKubeconfig));
  await until('the policy for bootstrap tokens is in effect', async () => {
    const answer = asMillwright.create(secrets, tokenWith('Opaque', 'probe'), { dryRun: 'All' });
    return answer.then(() => false).catch(() => true);
  });
  await asMillwright.close();
});
afterAll(async () => {
  await millwright?.stop();
  await editor?.close();
  await velero?.close();
  const admin = testClient();
  for (const { kind, metadata } of policies ?? []) await admin.delete(resources[kind], metadata);
  for (const name of Object.values(users)) await admin.delete(bindings, { name });
  await admin.close();
  await rm(folder, { recursive: true });
});

/** A Secret of kube-system. */
const tokenWith = (type: string, id: string) => ({
  metadata: { namespace: 'kube-system', name: `bootstrap-token-${id}` },
  type,
  stringData: { 'token-id': id, 'token-secret': '0123456789abcdef' },
});

describe('the policy for fields that only Millwright writes', () => {
  const { annotations, labels, finalizers } = gardener;
  const { machine: finalizer, secret: secretFinalizer } = finalizers;
  const small = { kind: 'MachineClass', name: 'small' };
  /** Of a set or deployment without machines. */
  const emptySpec = (template: object = {}) => ({
    replicas: 0,
    selector: { matchLabels: { name: 'empty' } },
    template: { metadata: { labels: { name: 'empty' } }, spec: { class: small }, ...template },
  });

  beforeAll(async () => {
    const { control } = millwright;
    await millwright.createDeployment('pool', 2);
    await millwright.untilMachines(2, 'Running');
    await control.create(secrets, { metadata: { namespace, name: 'other' }, stringData: { a: 'b' } });
  });

  const anObject = async (resource: Resource<KubeObject>) => {
    const { items } = await millwright.control.list(resource, { namespace });
    const found = items.find(({ metadata }) => metadata.name !== 'other');
    if (found === undefined) throw new Error(`no ${resource.plural}`);
    return { namespace, name: found.metadata.name };
  };

  it('lets Millwright create machines, roll them out and delete them', async () => {
    await millwright.control.patch(
      machineDeployments,
      { namespace, name: 'pool' },
      mergePatch({ spec: { template: { metadata: { labels: { name: 'pool', round: '2' } } } } }),
    );
    await until('they are replaced', async (see) => {
      const found = see(await millwright.machines());
      return found.length === 2 && found.every(({ metadata }) => metadata.labels?.['round'] === '2');
    });
    const [first] = await millwright.untilMachines(2, 'Running');
    await editor.delete(machines, { namespace, name: first?.metadata.name ?? '' });
    await until('it is replaced', async (see) => {
      const found = see(await millwright.machines());
      return found.length === 2 && !found.some(({ metadata }) => metadata.uid === first?.metadata.uid);
    });
    await millwright.untilMachines(2, 'Running');
  });

  /** By title: a kind, a change, and the path of the field in the message. */
  const changes: readonly [string, Resource<KubeObject>, object, string][] = [
    ...[machines, machineSets, machineDeployments, machineClasses].map(
      (resource): [string, Resource<KubeObject>, object, string] => [
        `the finalizer of ${resource.plural}`,
        resource,
        { metadata: { finalizers: [] } },
        `metadata.finalizers[${finalizer}]`,
      ],
    ),
    [
      'places',
      machines,
      { metadata: { annotations: { [names.places]: '[]' } } },
      `metadata.annotations[${names.places}]`,
    ],
    [
      'the removal of places',
      machines,
      { metadata: { annotations: { [names.places]: null } } },
      `metadata.annotations[${names.places}]`,
    ],
    ['the Node', machines, { metadata: { labels: { [labels.node]: 'cp-1' } } }, `metadata.labels[${labels.node}]`],
    ['spec.providerID', machines, { spec: { providerID: 'simulated:///a/b' } }, 'spec.providerID'],
    [
      'the hash of a set',
      machineSets,
      { metadata: { labels: { [labels.templateHash]: '1' } } },
      `metadata.labels[${labels.templateHash}]`,
    ],
    [
      'a revision',
      machineDeployments,
      { metadata: { annotations: { [annotations.revision]: '9' } } },
      `metadata.annotations[${annotations.revision}]`,
    ],
    [
      'a freeze',
      machineDeployments,
      { metadata: { labels: { [labels.freeze]: 'True' } } },
      `metadata.labels[${labels.freeze}]`,
    ],
    [
      'a verdict',
      machineClasses,
      { metadata: { annotations: { [names.verdict]: '{}' } } },
      `metadata.annotations[${names.verdict}]`,
    ],
    [
      'places in a template',
      machineDeployments,
      { spec: { template: { metadata: { annotations: { [names.places]: '[]' } } } } },
      `spec.template.metadata.annotations[${names.places}]`,
    ],
    [
      'a Node in a template',
      machineSets,
      { spec: { template: { metadata: { labels: { [labels.node]: 'cp-1' } } } } },
      `spec.template.metadata.labels[${labels.node}]`,
    ],
    [
      'a provider ID in a template',
      machineDeployments,
      { spec: { template: { spec: { providerID: 'simulated:///a/b' } } } },
      'spec.template.spec.providerID',
    ],
  ];

  it.each(changes)(
    'refuses others to change %s, and names the field and its writer',
    async (_, resource, change, field) => {
      const key = await anObject(resource);
      const refusal = editor.patch(resource, key, mergePatch(change), { dryRun: 'All' });

      const message = `only Millwright writes these fields of a ${resource.kind}: ${field}, `;
      await expect(refusal).rejects.toThrow(message);
      await expect(refusal).rejects.toThrow(`The user ${users.editor} may write them if`);
    },
  );

  it.each(changes)('lets the users of the value admissionPolicy.users change %s', async (_, resource, change) => {
    await velero.patch(resource, await anObject(resource), mergePatch(change), { dryRun: 'All' });
  });

  it.each([machines, machineSets, machineDeployments])(
    'refuses others to write the status of $plural',
    async (resource) => {
      const key = await anObject(resource);
      const change = mergePatch({ status: { observedGeneration: 99 } });
      const write = (client: KubeClient) =>
        client.patch<KubeObject>(resource, key, change, { subresource: 'status', dryRun: 'All' });

      await expect(write(editor)).rejects.toThrow(/only Millwright writes these fields of a \w+: status, written by/);
      await write(velero);
    },
  );

  it('refuses others to create objects with these fields, and lets a restore do so', async () => {
    const objects: readonly [Resource<KubeObject>, object, string][] = [
      [machines, { spec: { class: small, providerID: 'simulated:///a/b' } }, 'spec.providerID, written by'],
      [
        machines,
        { metadata: { labels: { [labels.node]: 'cp-1' }, finalizers: [finalizer] }, spec: { class: small } },
        `metadata.labels[${labels.node}], written by the machine workflow; metadata.finalizers[${finalizer}], written by`,
      ],
      [
        machineSets,
        { spec: emptySpec({ metadata: { labels: { name: 'empty' }, annotations: { [names.places]: '[]' } } }) },
        `spec.template.metadata.annotations[${names.places}]`,
      ],
      [secrets, { metadata: { labels: { [names.machineUid]: 'uid' } } }, `metadata.labels[${names.machineUid}]`],
      [secrets, { metadata: { finalizers: [secretFinalizer] } }, `metadata.finalizers[${secretFinalizer}]`],
    ];
    for (const [resource, { metadata, ...rest }, field] of objects as [
      typeof machines,
      { metadata?: object },
      string,
    ][]) {
      const object = { metadata: { namespace, name: 'new', ...metadata }, ...rest } as never;
      await expect(editor.create(resource, object, { dryRun: 'All' })).rejects.toThrow(field);
      await velero.create(resource, object, { dryRun: 'All' });
    }
  });

  it('refuses others another key of the signatures, and lets them label its Secret', async () => {
    const key = { namespace, name: signingKeySecret };
    await until('there is a key', async () => (await millwright.control.find(secrets, key)) !== undefined);
    const change = mergePatch({ stringData: { key: 'known' } });

    const field = 'only Millwright writes these fields of a Secret: data, the key of the signatures';
    await expect(editor.patch(secrets, key, change, { dryRun: 'All' })).rejects.toThrow(field);
    await velero.patch(secrets, key, change, { dryRun: 'All' });
    await editor.patch(secrets, key, mergePatch({ metadata: { labels: { team: 'fleet' } } }), { dryRun: 'All' });
  });

  it('lets others do what leaves these fields alone', async () => {
    const meta = (change: object) => mergePatch({ metadata: change });
    const dryRun = { dryRun: 'All' } as const;
    const machine = await anObject(machines);
    const set = await anObject(machineSets);
    const pool = { namespace, name: 'pool' };

    await editor.create(machines, { metadata: { namespace, name: 'new' }, spec: { class: small } }, dryRun);
    await editor.create(machineSets, { metadata: { namespace, name: 'new' }, spec: emptySpec() }, dryRun);
    await editor.create(secrets, { metadata: { namespace, name: 'new' }, stringData: {} }, dryRun);
    await editor.patch(secrets, { namespace, name: 'other' }, mergePatch({ stringData: { a: 'c' } }), dryRun);
    await editor.patch(machineDeployments, pool, mergePatch({ spec: { replicas: 3, paused: true } }), dryRun);
    await editor.patch<KubeObject>(
      machineDeployments,
      pool,
      meta({ annotations: { [annotations.unfreeze]: '' } }),
      dryRun,
    );
    await editor.patch<KubeObject>(machineDeployments, pool, meta({ annotations: { [names.maxSurge]: '1' } }), dryRun);
    const ofUsers = { annotations: { [annotations.priority]: '1', [annotations.preserve]: 'now' } };
    await editor.patch<KubeObject>(
      machines,
      machine,
      meta({ ...ofUsers, labels: { [labels.forceDeletion]: 'true' } }),
      dryRun,
    );
    await editor.patch(
      machineClasses,
      { namespace, name: 'small' },
      mergePatch({ providerSpec: { machineType: 'big' } }),
      dryRun,
    );
    // As the garbage collector does after a deletion that orphans.
    const orphaning = { namespace, name: 'small' };
    await millwright.control.patch<KubeObject>(machineClasses, orphaning, meta({ finalizers: [finalizer, 'orphan'] }));
    await editor.patch<KubeObject>(machineClasses, orphaning, meta({ finalizers: [finalizer] }));
    await editor.patch(machineSets, set, jsonPatch([{ op: 'remove', path: '/metadata/ownerReferences' }]), dryRun);
  });

  it.each([[[]], [['--server-side']]])(
    'lets others apply a manifest without these fields twice: kubectl apply %j',
    async (flags) => {
      const name = flags.length > 0 ? 'server-side' : 'applied';
      const manifest = (replicas: number) => ({
        ...{ apiVersion: gardener.apiVersion, kind: 'MachineDeployment', metadata: { namespace, name } },
        spec: {
          replicas,
          strategy: { type: 'Recreate' },
          selector: { matchLabels: { name } },
          template: { metadata: { labels: { name } }, spec: { class: small } },
        },
      });
      await apply(manifest(1), flags);
      await until('it has a revision, a finalizer and a machine', async (see) => {
        const { metadata, status } = see(await millwright.control.get(machineDeployments, { namespace, name }));
        const { revision } = annotations;
        return (
          metadata.annotations?.[revision] === '1' && metadata.finalizers !== undefined && status?.readyReplicas === 1
        );
      });
      await apply(manifest(0), flags);

      const { metadata, spec } = await millwright.control.get(machineDeployments, { namespace, name });
      expect([spec?.replicas, metadata.annotations?.[annotations.revision], metadata.finalizers]).toEqual([
        0,
        '1',
        [finalizer],
      ]);
    },
  );

  async function apply(manifest: object, flags: readonly string[]): Promise<void> {
    const file = join(folder, 'manifest.yaml');
    await writeFile(file, stringify(manifest));
    const kubeconfig = ['--kubeconfig', join(folder, users.editor)];
    await promisify(execFile)(await findServer('kubectl'), ['apply', ...kubeconfig, ...flags, '-f', file]);
  }

  it('lets others delete a deployment, whose machines and finalizers Millwright removes', async () => {
    await editor.delete(machineDeployments, { namespace, name: 'pool' });

    await until('all is gone', async (see) => {
      const { items } = await millwright.control.list(machineDeployments, { namespace });
      const left = see({
        machines: await millwright.machines(),
        deployments: items.map(({ metadata }) => metadata.name),
      });
      return left.machines.length === 0 && !left.deployments.includes('pool');
    });
  });
});

describe('the policy for bootstrap tokens', () => {
  const T = 'bootstrap.kubernetes.io/token';
  let asMillwright: KubeClient;
  beforeAll(async () => {
    asMillwright = testClient(loadKubeconfig(join(folder, users.millwright)));
    for (const name of [namespace, `${namespace}-2`])
      await millwright.control.create(secrets, { metadata: { namespace: 'kube-system', name }, type: 'Opaque' });
  });
  afterAll(async () => {
    for (const name of [namespace, `${namespace}-2`])
      await millwright.control.delete(secrets, { namespace: 'kube-system', name });
    await asMillwright?.close();
  });

  const refusal = `Millwright (${users.millwright}) may write only Secrets of type ${T} in kube-system`;
  const other = { namespace: 'kube-system', name: namespace };

  it('lets Millwright create, change and delete a token', async () => {
    const id = namespace.slice(-6);
    const { metadata } = await asMillwright.create(secrets, tokenWith(T, id));
    await asMillwright.patch(secrets, metadata, mergePatch({ stringData: { description: 'changed' } }));
    await asMillwright.delete(secrets, metadata);

    expect(await millwright.control.find(secrets, metadata)).toBeUndefined();
  });

  it.each(['Opaque', 'kubernetes.io/service-account-token'])('refuses Millwright a Secret of type %s', async (type) => {
    const annotated = { 'kubernetes.io/service-account.name': 'default' };
    const secret = tokenWith(type, 'fedcba');
    const object = { ...secret, metadata: { ...secret.metadata, annotations: annotated } };

    await expect(asMillwright.create(secrets, object, { dryRun: 'All' })).rejects.toThrow(refusal);
  });

  it('refuses Millwright to change or delete another Secret', async () => {
    const change = mergePatch({ stringData: { a: 'b' } });

    await expect(asMillwright.patch(secrets, other, change)).rejects.toThrow(refusal);
    await expect(asMillwright.delete(secrets, other)).rejects.toThrow(refusal);
  });

  it('lets others write any Secret', async () => {
    await editor.patch(secrets, other, mergePatch({ stringData: { a: 'b' } }));
    await editor.create(secrets, tokenWith('Opaque', 'fedcba'), { dryRun: 'All' });
  });
});
