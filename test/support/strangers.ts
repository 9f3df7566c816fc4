/** What belongs to somebody else: Nodes with pods on them; and users who may edit some kinds of objects alone. */
import { expect } from '@jest/globals';
import { defineResource, type KubeObject, type Resource } from '../../api/objects.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { type KubeconfigAccess, loadKubeconfig } from '../../kube/config.ts';
import { type Node, nodes, pods } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { fromSetup, type Installation } from './installation.ts';
import { until } from './until.ts';

const rbac = { group: 'rbac.authorization.k8s.io', version: 'v1', namespaced: true };
type Bound = KubeObject & { readonly rules?: object[]; readonly roleRef?: object; readonly subjects?: object[] };
const roles = defineResource<Bound>({ ...rbac, plural: 'roles', kind: 'Role' });
const roleBindings = defineResource<Bound>({ ...rbac, plural: 'rolebindings', kind: 'RoleBinding' });

/** The label of Nodes of the control plane. */
export const controlPlane = { 'node-role.kubernetes.io/control-plane': '' };

/** A Node that somebody has, healthy, with a pod on it. */
export async function createStranger(
  { control, target, namespace }: Installation,
  name: string,
  { spec = {}, labels = {} }: { readonly spec?: Node['spec']; readonly labels?: Readonly<Record<string, string>> } = {},
): Promise<Node> {
  const { metadata: made } = await target.create(nodes, { metadata: { name, labels }, spec });
  const lastHeartbeatTime = new Date().toISOString().replace(/\.\d+/, '');
  const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime };
  await target.patch(nodes, made, mergePatch({ status: { conditions: [ready] } }), { subresource: 'status' });
  await control.create(pods, {
    metadata: { namespace, name },
    spec: { nodeName: name, terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: 'pause' }] },
  });
  return target.get(nodes, { name });
}

/** The next whole second: a Machine is younger than a Node only by these. */
export async function untilSecondAfter({ metadata }: Node): Promise<void> {
  const nextMs = Date.parse(metadata.creationTimestamp) + 1_000;
  await until('a second has passed', async () => Date.now() >= nextMs);
}

/** Nobody has changed the Node, deleted its pod, or is about to. */
export async function expectUntouched({ control, target, namespace }: Installation, node: Node): Promise<void> {
  const { name } = node.metadata;
  const essence = ({ metadata: { uid, labels, annotations, finalizers, deletionTimestamp }, spec, status }: Node) => ({
    ...{ uid, labels, annotations, finalizers, deletionTimestamp, spec },
    conditions: status?.conditions?.map(({ type }) => type),
  });
  expect(essence(await target.get(nodes, { name }))).toEqual(essence(node));
  expect((await control.get(pods, { namespace, name })).metadata.deletionTimestamp).toBeUndefined();
}

/** A client for a user who may do everything with the objects of these kinds in the namespace, and nothing else. */
export async function becomeEditor(
  { control, namespace }: Installation,
  ...resources: readonly Resource<KubeObject>[]
): Promise<KubeClient> {
  const name = `editor-of-${resources.map(({ plural }) => plural).join('-')}`;
  const verbs = ['get', 'list', 'create', 'patch', 'update', 'delete'];
  const rules = resources.map(({ group, plural }) => ({ apiGroups: [group], resources: [plural], verbs }));
  await control.create(roles, { metadata: { namespace, name }, rules });
  const apiGroup = rbac.group;
  const roleRef = { apiGroup, kind: 'Role', name };
  const subjects = [{ apiGroup, kind: 'User', name }];
  await control.create(roleBindings, { metadata: { namespace, name }, roleRef, subjects });
  const own = loadKubeconfig(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'));
  const access: KubeconfigAccess = {
    ...own,
    async credentials(options) {
      const { headers, tls } = await own.credentials(options);
      return { headers: { ...headers, 'impersonate-user': name }, tls };
    },
  };
  return createKubeClient({ access, userAgent: name, qps: 500, burst: 1000 });
}
