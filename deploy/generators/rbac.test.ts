import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { parseAllDocuments } from 'yaml';
import { defineResource, type KubeObject, type NewObject } from '../../api/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import { newNamespace, testClient } from '../../test/support/kube.ts';
import { rbacFiles } from './rbac.ts';

const group = 'rbac.authorization.k8s.io';
const clusterRoles = defineResource<KubeObject>({
  ...{ group, version: 'v1', plural: 'clusterroles', kind: 'ClusterRole', namespaced: false },
});
const roleBindings = defineResource<KubeObject>({
  ...{ group, version: 'v1', plural: 'rolebindings', kind: 'RoleBinding', namespaced: true },
});
const reviews = defineResource<KubeObject & { spec: object; status?: { allowed: boolean } }>({
  group: 'authorization.k8s.io',
  ...{ version: 'v1', plural: 'subjectaccessreviews', kind: 'SubjectAccessReview', namespaced: false },
});
const people = ['view', 'edit', 'admin'] as const;

let client: KubeClient;
let namespace: string;
const nameOf = (role: string) => `${role}-of-${namespace}`;
beforeAll(async () => {
  client = testClient();
  namespace = await newNamespace(client);
  const documents = parseAllDocuments(rbacFiles()['deploy/rbac/people.yaml'] ?? '').map((each) => each.toJSON());
  for (const [i, role] of people.entries()) {
    const { metadata, rules } = documents[i];
    expect(metadata.labels).toEqual({ [`rbac.authorization.k8s.io/aggregate-to-${role}`]: 'true' });
    await client.create(clusterRoles, { metadata: { name: nameOf(role) }, rules } as NewObject<KubeObject>);
    // Kubernetes adds the rules of view to edit, and those of both to admin.
    const users = people.slice(i).map((each) => ({ apiGroup: group, kind: 'User', name: nameOf(each) }));
    await client.create(roleBindings, {
      metadata: { namespace, name: role },
      roleRef: { apiGroup: group, kind: 'ClusterRole', name: nameOf(role) },
      subjects: users,
    } as NewObject<KubeObject>);
  }
});
afterAll(async () => {
  for (const role of people) await client?.delete(clusterRoles, { name: nameOf(role) });
  await client?.close();
});

async function mayOf(verb: string, resource: string): Promise<string[]> {
  const [plural, subresource] = resource.split('/');
  const answers = people.map(async (role) => {
    const resourceAttributes = { group: 'machine.sapcloud.io', resource: plural, subresource, verb, namespace };
    // A question has no name: the API server refuses one.
    const metadata = {} as { name: string };
    const review = { metadata, spec: { user: nameOf(role), resourceAttributes } };
    const { status } = await client.create(reviews, review);
    return status?.allowed === true ? [role] : [];
  });
  return (await Promise.all(answers)).flat();
}

it.each([
  ['get', 'machines', ['view', 'edit', 'admin']],
  ['list', 'machinesets', ['view', 'edit', 'admin']],
  ['watch', 'machinedeployments', ['view', 'edit', 'admin']],
  ['get', 'machineclasses', ['view', 'edit', 'admin']],
  ['create', 'machinedeployments', ['edit', 'admin']],
  ['patch', 'machinedeployments', ['edit', 'admin']],
  ['delete', 'machinedeployments', ['edit', 'admin']],
  ['patch', 'machinedeployments/scale', ['edit', 'admin']],
  ['create', 'machines', ['admin']],
  ['patch', 'machines', ['admin']],
  ['delete', 'machines', ['admin']],
  ['patch', 'machinesets', ['admin']],
  ['patch', 'machinesets/scale', ['admin']],
  ['patch', 'machineclasses', ['admin']],
  ['patch', 'machines/status', []],
  ['patch', 'machinedeployments/status', []],
])('of people, %s on %s is for %j', async (verb, resource, roles) => {
  expect(await mayOf(verb, resource)).toEqual(roles);
});
