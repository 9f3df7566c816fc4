/** The roles of deploy/rbac are what Millwright needs, and no more: by the audit logs of both clusters. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { names, signingKeySecret } from '../../api/names.ts';
import { defineResource, type KubeObject, type NewObject } from '../../api/objects.ts';
import { type RightsRole, roles } from '../../api/rights.ts';
import { freePort } from '../../deploy/local/ports.ts';
import { type Stack, startStack } from '../../deploy/local/stack.ts';
import type { KubeClient } from '../../kube/client.ts';
import { namespaces, podDisruptionBudgets, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { guardNode } from '../support/guarded-node.ts';
import { type Installation, startInstallation } from '../support/installation.ts';

import { type MillwrightProcess, startMillwright, startProcess } from '../support/millwright.ts';
import { until } from '../support/until.ts';
import { startVolumes } from '../support/volumes.ts';

const userOf = (role: RightsRole) => `millwright-${role}-under-test`;
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
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}
interface Document extends KubeObject {
  readonly kind: string;
  readonly rules?: readonly Rule[];
  readonly subjects?: readonly { readonly name: string }[];
}

async function documentsOf(file: string): Promise<Document[]> {
  const path = fileURLToPath(new URL(`../../deploy/rbac/${file}`, import.meta.url));
  return parseAllDocuments(await readFile(path, 'utf8')).map((document) => document.toJSON());
}

/** Applies a file with users of the test as the subjects, and with the installation of the test. */
async function apply(client: KubeClient, file: string, namespace: string): Promise<void> {
  for (const { kind, rules, subjects, apiVersion: _, ...object } of (await documentsOf(file)) as (Document & {
    apiVersion: string;
  })[]) {
    const resource = kinds.get(kind);
    if (resource === undefined) throw new Error(`${file} has a ${kind}`);
    const metadata = { ...(resource.namespaced && { namespace }), ...object.metadata };
    const bound = subjects && {
      subjects: subjects.map(({ name }) => ({ apiGroup: rbac, kind: 'User', name: `${name}-under-test` })),
    };
    const ofInstallation = (name: string) => name.replace('millwright-millwright-', `millwright-${namespace}-`);
    const named = rules?.map((rule) => ({ ...rule, resourceNames: rule.resourceNames?.map(ofInstallation) }));
    const body = { ...object, ...(named && { rules: named }), ...bound, metadata };
    await client.create(resource, body as unknown as NewObject<KubeObject>);
  }
}

/** What the rules of a file allow a process, one line each: `verb group/resource`, with a name where that is limited. */
async function allowedBy(file: string, role: RightsRole): Promise<Set<string>> {
  const documents = await documentsOf(file);
  const bound = documents.filter(({ subjects }) => subjects?.some(({ name }) => name === `millwright-${role}`));
  const rules = documents
    .filter(({ metadata }) => bound.some((each) => each.metadata.name === metadata.name))
    .flatMap((document) => document.rules ?? []);
  const all = rules.flatMap(({ apiGroups, resources, resourceNames = [''], verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        resourceNames.flatMap((name) => verbs.map((verb) => `${verb} ${group}/${resource} ${name}`.trimEnd())),
      ),
    ),
  );
  return new Set(all);
}

interface AuditEvent {
  readonly verb: string;
  readonly userAgent?: string;
  readonly impersonatedUser?: { readonly username: string };
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource: string;
    readonly subresource?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code: number };
}

/** What a process has asked of a cluster, also with names, and what was refused. `doctor` as its user does not count. */
async function askedOf(auditLog: string | undefined, role: RightsRole) {
  const events = (await readFile(auditLog ?? '', 'utf8')).trimEnd().split('\n');
  const user = userOf(role);
  const own = events
    .filter((line) => line.includes(user))
    .map((line): AuditEvent => JSON.parse(line))
    .filter(({ impersonatedUser, objectRef }) => impersonatedUser?.username === user && objectRef !== undefined);
  const lineOf = ({ verb, objectRef: { apiGroup = '', resource, subresource } = { resource: '' } }: AuditEvent) =>
    `${verb} ${apiGroup}/${resource}${subresource === undefined ? '' : `/${subresource}`}`;
  const used = own.filter(({ userAgent = '' }) => !userAgent.startsWith('millwright-doctor'));
  const refused = used.filter(({ responseStatus }) => responseStatus?.code === 403);
  return {
    used: new Set(used.flatMap((event) => [lineOf(event), `${lineOf(event)} ${event.objectRef?.name}`])),
    refused: [...new Set(refused.map(lineOf))],
  };
}

let stack: Stack;
/** Kubeconfig of the user of a process. */
const limitedTo = (cluster: string, role: RightsRole) => join(stack.dir, `${cluster}.${role}`);
let millwright: Installation;
let limited: MillwrightProcess[];
let fleetPage: string;
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
  for (const file of ['target.yaml', 'bootstrap-tokens.yaml']) await apply(millwright.target, file, namespace);
  const limit = async (kubeconfig: string, name: string, role: RightsRole) => {
    const config = parse(await readFile(kubeconfig, 'utf8'));
    for (const each of config.users) each.user.as = userOf(role);
    await writeFile(limitedTo(name, role), stringify(config));
    return limitedTo(name, role);
  };
  const fleetPort = await freePort();
  fleetPage = `http://127.0.0.1:${fleetPort}`;
  limited = [];
  // The workers fill it.
  await millwright.putSecret(signingKeySecret, {});
  for (const role of roles) {
    limited.push(
      await startMillwright({
        ...{ namespace, temporalAddress, command: role === 'workers' ? 'worker' : role },
        kubeconfig: await limit(control.kubeconfig, 'control', role),
        targetKubeconfig: await limit(targetKubeconfig, 'target', role),
        flags: role === 'workers' ? ['--orphan-confirm-after', '1s'] : ['--fleet-port', String(fleetPort)],
      }),
    );
  }
});
afterAll(async () => {
  for (const each of limited ?? []) await each.stop();
  await millwright?.stop();
  await stack?.stop();
});

it('the roles of deploy/rbac are enough for the life of machines, and give neither process anything that it does not use', async () => {
  const { namespace, control, target } = millwright;
  const key = { namespace, name: 'pool' };
  await millwright.putSecret('pool', { userData: '#!/bin/sh\njoin <<BOOTSTRAP_TOKEN>>' });
  await millwright.createDeployment('pool', 3, { revisionHistoryLimit: 0 });
  const all = await millwright.untilMachines(3, 'Running');
  // The page shows what a description of the Machine says.
  const shown = await fetch(`${fleetPage}/machines/${all[0]?.metadata.name}`);
  expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining('Running')]);
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

  // A rollout within a limit of the namespace, after which the old set is deleted, and a refusal that repeats.
  const template = { metadata: { labels: { name: 'pool', round: '2' } } };
  await millwright.untilMachines(3, 'Running');
  const limits = { annotations: { [names.maxProvisioning]: '10' } };
  await control.patch(machineDeployments, key, mergePatch({ metadata: limits, spec: { template } }));
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
  const sweep = startProcess([
    ...['sweep', '--dry-run', '-n', namespace, '--temporal-address', stack.temporalAddress],
    ...['--target-kubeconfig', stack.clusters[0].kubeconfig],
  ]);
  expect(await sweep.exited).toMatchObject({ code: 0 });
  await millwright.scale('pool', 0);
  await until('all are gone', async (see) => see(await millwright.machines()).length === 0);
  await volumes.stop();
  for (const role of roles) {
    const { exited, logs } = startProcess([
      ...['doctor', '-n', namespace, '--temporal-address', stack.temporalAddress],
      ...['--control-kubeconfig', limitedTo('control', role), '--target-kubeconfig', limitedTo('target', role)],
    ]);
    await exited;
    // Workers may do more to Nodes than controllers.
    const [inControl, inTarget] = {
      controllers: ['controllers, and not of workers', 'controllers, and not of workers'],
      workers: ['workers, and not of controllers', 'controllers and workers'],
    }[role];
    expect(logs().match(/^. rights in .*$/gm)).toEqual([
      expect.stringMatching(new RegExp(`^✓ rights in the control cluster: .* has all of ${inControl}$`)),
      expect.stringMatching(new RegExp(`^✓ rights in the target cluster: .* has all of ${inTarget}$`)),
    ]);
  }
  for (const each of limited) await each.stop();

  // Only an admission plugin asks for these, and in no request of its own.
  const ofAdmission = ['machinedeployments/finalizers', 'machinesets/finalizers'];
  const isOfAdmission = (line: string) => ofAdmission.some((resource) => line.endsWith(resource));
  // Both processes have the code for these, and here the other one is the first: to remember the cluster of the Nodes, and
  // to have an Event that repeats.
  const ofOther = { controllers: 'patch events.k8s.io/events', workers: 'create coordination.k8s.io/leases' };
  const unused = async (file: string, role: RightsRole, used: ReadonlySet<string> = new Set()) =>
    [...(await allowedBy(file, role))].filter(
      (line) => !used.has(line) && !isOfAdmission(line) && line !== ofOther[role],
    );
  for (const role of roles) {
    const [inControl, inTarget] = await Promise.all(stack.clusters.map(({ auditLog }) => askedOf(auditLog, role)));
    expect([inControl?.refused, inTarget?.refused]).toEqual([[], []]);
    expect(await unused('control.yaml', role, namedAsInFile(inControl?.used, namespace))).toEqual([]);
    expect(await unused('target.yaml', role, inTarget?.used)).toEqual([]);
    expect(await unused('bootstrap-tokens.yaml', role, inTarget?.used)).toEqual([]);
  }
});

/** The files have another installation. */
function namedAsInFile(used: ReadonlySet<string> = new Set(), namespace: string): ReadonlySet<string> {
  return new Set([...used].map((line) => line.replace(`millwright-${namespace}-`, 'millwright-millwright-')));
}
