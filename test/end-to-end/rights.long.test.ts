/** The roles of deploy/rbac are what Millwright needs, and no more: by the audit logs of both clusters. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { defineResource, type KubeObject, type NewObject } from '../../api/objects.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import type { KubeClient } from '../../kube/client.ts';
import { namespaces, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { guardNode } from '../support/guarded-node.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { type MillwrightProcess, startMillwright, startProcess } from '../support/millwright.ts';
import { until } from '../support/until.ts';
import { startVolumes } from '../support/volumes.ts';

const user = 'millwright-under-test';
const rbac = 'rbac.authorization.k8s.io';
const kinds = new Map(
  [
    ['Role', 'roles'],
    ['RoleBinding', 'rolebindings'],
    ['ClusterRole', 'clusterroles'],
    ['ClusterRoleBinding', 'clusterrolebindings'],
  ].map(([kind = '', plural = '']) => [
    kind,
    defineResource<KubeObject>({ group: rbac, version: 'v1', plural, kind, namespaced: !kind.startsWith('Cluster') }),
  ]),
);

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}
interface Document extends KubeObject {
  readonly kind: string;
  readonly rules?: readonly Rule[];
  readonly subjects?: readonly object[];
}

async function documentsOf(file: string): Promise<Document[]> {
  const path = fileURLToPath(new URL(`../../deploy/rbac/${file}`, import.meta.url));
  return parseAllDocuments(await readFile(path, 'utf8')).map((document) => document.toJSON());
}

/** Applies a file with the user of the test as the only subject. */
async function apply(client: KubeClient, file: string, namespace?: string): Promise<void> {
  for (const { kind, subjects, apiVersion: _, ...object } of (await documentsOf(file)) as (Document & {
    apiVersion: string;
  })[]) {
    const resource = kinds.get(kind);
    if (resource === undefined) throw new Error(`${file} has a ${kind}`);
    const metadata = { ...(resource.namespaced && { namespace }), ...object.metadata };
    const bound = subjects && { subjects: [{ apiGroup: rbac, kind: 'User', name: user }] };
    await client.create(resource, { ...object, ...bound, metadata } as NewObject<KubeObject>);
  }
}

/** What the rules of a file allow, one line each: `verb group/resource`. */
async function allowedBy(file: string): Promise<Set<string>> {
  const rules = (await documentsOf(file)).flatMap((document) => document.rules ?? []);
  const all = rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.flatMap((resource) => verbs.map((verb) => `${verb} ${group}/${resource}`))),
  );
  return new Set(all);
}

interface AuditEvent {
  readonly verb: string;
  readonly impersonatedUser?: { readonly username: string };
  readonly objectRef?: { readonly apiGroup?: string; readonly resource: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code: number };
}

/** What the user has asked of a cluster: what was answered, and what was refused. */
async function askedOf(auditLog: string | undefined) {
  const events = (await readFile(auditLog ?? '', 'utf8')).trimEnd().split('\n');
  const own = events
    .filter((line) => line.includes(user))
    .map((line): AuditEvent => JSON.parse(line))
    .filter(({ impersonatedUser, objectRef }) => impersonatedUser?.username === user && objectRef !== undefined);
  const lineOf = ({ verb, objectRef: { apiGroup = '', resource, subresource } = { resource: '' } }: AuditEvent) =>
    `${verb} ${apiGroup}/${resource}${subresource === undefined ? '' : `/${subresource}`}`;
  const refused = own.filter(({ responseStatus }) => responseStatus?.code === 403);
  return { used: new Set(own.map(lineOf)), refused: [...new Set(refused.map(lineOf))] };
}

let stack: Stack;
/** Kubeconfig of the user of the test. */
const limitedTo = (cluster: string) => join(stack.dir, `${cluster}.limited`);
let millwright: Installation;
let limited: MillwrightProcess;
beforeAll(async () => {
  stack = await startStack({ clusters: 2, isAudited: true });
  const [control, target] = stack.clusters;
  const { temporalAddress } = stack;
  const targetKubeconfig = target?.kubeconfig ?? '';
  millwright = await startInstallation({
    ...{ kubeconfig: control.kubeconfig, targetKubeconfig, temporalAddress, isStopped: true },
    cloud: { maxGraceMs: 100 },
  });
  const { namespace } = millwright;
  await apply(millwright.control, 'control.yaml', namespace);
  await apply(millwright.target, 'target.yaml');
  const limit = async (kubeconfig: string, name: string) => {
    const config = parse(await readFile(kubeconfig, 'utf8'));
    for (const each of config.users) each.user.as = user;
    await writeFile(limitedTo(name), stringify(config));
    return limitedTo(name);
  };
  limited = await startMillwright({
    ...{ namespace, temporalAddress, kubeconfig: await limit(control.kubeconfig, 'control') },
    targetKubeconfig: await limit(targetKubeconfig, 'target'),
  });
});
afterAll(async () => {
  await limited?.stop();
  await millwright?.stop();
  await stack?.stop();
});

it('the roles of deploy/rbac are enough for the life of machines, and have nothing that is not used', async () => {
  const { namespace, control, target } = millwright;
  const key = { namespace, name: 'pool' };
  await millwright.putSecret('pool', { userData: '#!/bin/sh\njoin <<BOOTSTRAP_TOKEN>>' });
  await millwright.createDeployment('pool', 3, { revisionHistoryLimit: 0 });
  const all = await millwright.untilMachines(3, 'Running');
  const [guarded, stateful, forced] = all.map(({ metadata: { name, uid } }) => ({
    ...{ namespace, name, uid },
    dialect: 'gardener',
  }));
  const [guardedNode = '', statefulNode = '', forcedNode = ''] = all.map(({ metadata }) => metadata.labels?.['node']);
  if (guarded === undefined || stateful === undefined || forced === undefined) throw new Error('there are three');
  await target.create(namespaces, { metadata: { name: namespace } });

  // A Node that is read live, and a drain with one budget in its way, and with two.
  await millwright.handleOf(guarded).signal('refresh');
  const allow = await guardNode(target, namespace, guardedNode);
  const second = { namespace, name: 'second' };
  await control.delete(machines, guarded);
  const isBlocked = (by: RegExp) => async () => by.test((await millwright.describe(guarded)).waitingFor ?? '');
  await until('the budget blocks it', isBlocked(/guarded/));
  const selector = { matchLabels: { app: 'guarded' } };
  await target.create(podDisruptionBudgets, { metadata: second, spec: { selector, minAvailable: 1 } });
  await until('two budgets block it', isBlocked(/second/));
  await target.delete(podDisruptionBudgets, second);
  await allow();
  await millwright.untilGone(guarded);

  // A drain with a volume to move.
  const volumes = startVolumes(target, namespace, forcedNode);
  await volumes.setRoom(1);
  await volumes.create('data', statefulNode);
  await target.create(pods, {
    metadata: { namespace, name: 'stateful' },
    spec: {
      nodeName: statefulNode,
      containers: [{ name: 'app', image: 'app' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
    },
  });
  await control.delete(machines, stateful);
  await millwright.untilGone(stateful);

  // A forced deletion, with a pod and a volume on the Node.
  await target.create(pods, {
    metadata: { namespace, name: 'left' },
    spec: { nodeName: forcedNode, containers: [{ name: 'app', image: 'app' }] },
  });
  await control.patch(machines, forced, mergePatch({ metadata: { labels: { 'force-deletion': 'True' } } }));
  await control.delete(machines, forced);
  await millwright.untilGone(forced);

  // A rollout, after which the old set is deleted, and a refusal that repeats.
  const template = { metadata: { labels: { name: 'pool', round: '2' } } };
  await millwright.untilMachines(3, 'Running');
  await control.patch(machineDeployments, key, mergePatch({ spec: { template } }));
  await until('it is rolled out', async (see) => {
    const found = see(await millwright.machines());
    return found.length === 3 && found.every(({ metadata }) => metadata.labels?.['round'] === '2');
  });
  await millwright.untilMachines(3, 'Running');
  await until(
    'the old set is gone',
    async (see) => see(await control.list(machineSets, { namespace })).items.length === 1,
  );
  await millwright.cloud.setFaults({ kind: 'capacity' });
  await millwright.scale('pool', 4);
  const refused = await until('one is refused', async (see) =>
    see(await millwright.machines()).find(({ status }) => status?.currentStatus?.phase === 'CrashLoopBackOff'),
  );
  const refusedRef = { dialect: 'gardener', namespace, name: refused.metadata.name, uid: refused.metadata.uid };
  for (let i = 0; i < 3; i++) {
    await millwright.handleOf(refusedRef).signal('retryNow');
    await until(
      'it was tried again',
      async (see) => (see(await millwright.describe(refusedRef)).lastError?.times ?? 0) > i + 1,
    );
  }
  await millwright.scale('pool', 0);
  await until('all are gone', async (see) => see(await millwright.machines()).length === 0);
  await volumes.stop();
  const { exited, logs } = startProcess([
    ...['doctor', '-n', namespace, '--temporal-address', stack.temporalAddress],
    ...['--control-kubeconfig', limitedTo('control'), '--target-kubeconfig', limitedTo('target')],
  ]);
  await exited;
  expect(logs().match(/^. rights in .*$/gm)).toEqual([
    expect.stringMatching(/^✓ rights in the control cluster/),
    expect.stringMatching(/^✓ rights in the target cluster/),
  ]);
  await limited.stop();

  const [inControl, inTarget] = await Promise.all(stack.clusters.map(({ auditLog }) => askedOf(auditLog)));
  expect([inControl?.refused, inTarget?.refused]).toEqual([[], []]);
  // Only an admission plugin asks for these, and in no request of its own.
  const ofAdmission = ['machinedeployments/finalizers', 'machinesets/finalizers'];
  const isOfAdmission = (line: string) => ofAdmission.some((resource) => line.endsWith(resource));
  const unused = async (file: string, used: ReadonlySet<string> = new Set()) =>
    [...(await allowedBy(file))].filter((line) => !used.has(line) && !isOfAdmission(line));
  expect(await unused('control.yaml', inControl?.used)).toEqual([]);
  expect(await unused('target.yaml', inTarget?.used)).toEqual([]);
});
