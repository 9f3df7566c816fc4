/** The rights of Millwright in both clusters. deploy/rbac is made from them, and `millwright doctor` asks for them. */
import type { Kinds } from './dialect.ts';

/** A rule of RBAC. */
export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Why it is there, where that is not plain. */
  readonly comment?: string;
}

/** In the cluster of the Machines, in the watched namespace. */
export function controlRules({ machine, set, deployment, source }: Kinds): readonly Rule[] {
  const apiGroups = [machine.group];
  return [
    {
      apiGroups,
      resources: [machine.plural, set.plural],
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    },
    {
      apiGroups,
      resources: [deployment.plural, ...(source === undefined ? [] : [source.plural])],
      verbs: ['get', 'list', 'watch', 'patch'],
    },
    { apiGroups, resources: [machine, set, deployment].map(({ plural }) => `${plural}/status`), verbs: ['patch'] },
    {
      comment:
        'Where the admission plugin OwnerReferencesPermissionEnforcement is on. Without it nothing asks for these.',
      apiGroups,
      resources: [deployment, set].map(({ plural }) => `${plural}/finalizers`),
      verbs: ['update'],
    },
    {
      comment: 'Lists and watches ask for the metadata only.',
      apiGroups: [''],
      resources: ['secrets'],
      verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'patch'] },
    {
      comment: 'The namespace itself, whose UID tells clusters apart.',
      apiGroups: [''],
      resources: ['namespaces'],
      verbs: ['get'],
    },
  ];
}

/** In the cluster of the Nodes. */
export const targetRules: readonly Rule[] = [
  { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch', 'patch', 'delete'] },
  { apiGroups: [''], resources: ['nodes/status'], verbs: ['patch'] },
  { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch', 'delete'] },
  { apiGroups: [''], resources: ['pods/eviction'], verbs: ['create'] },
  { apiGroups: ['policy'], resources: ['poddisruptionbudgets'], verbs: ['get', 'list'] },
  { apiGroups: [''], resources: ['persistentvolumeclaims', 'persistentvolumes'], verbs: ['get'] },
  { apiGroups: ['storage.k8s.io'], resources: ['volumeattachments'], verbs: ['list', 'watch', 'delete'] },
  { apiGroups: ['storage.k8s.io'], resources: ['csinodes'], verbs: ['list', 'watch'] },
  {
    comment: 'kube-system, whose UID tells clusters apart.',
    apiGroups: [''],
    resources: ['namespaces'],
    verbs: ['get'],
  },
];

/** Namespace of bootstrap tokens, in the cluster of the Nodes. */
export const tokenNamespace = 'kube-system';

/** In the namespace of bootstrap tokens, if user data has the placeholder for one. */
export const tokenRules: readonly Rule[] = [
  { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch', 'delete'] },
];
