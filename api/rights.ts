/** The rights of Millwright in both clusters. deploy/rbac is made from them, and `millwright doctor` asks for them. */
import type { Kinds } from './dialect.ts';

/** A rule of RBAC. */
export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  /** Names of the objects; left out: all. */
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
  /** Why it is there, where that is not plain. */
  readonly comment?: string;
}

/** The processes that have an account of their own. `millwright run` is both. */
export const roles = ['controllers', 'workers'] as const;
export type RightsRole = (typeof roles)[number];

/** What each process needs. */
export type RulesByRole = Readonly<Record<RightsRole, readonly Rule[]>>;

/** The Leases of an installation. */
export interface LeaseNames {
  /** Those of the election. */
  readonly election: readonly string[];
  /** The one that remembers the cluster of the Nodes. */
  readonly record: string;
}

const read = ['get', 'list', 'watch'];

/** In the cluster of the Machines, in the watched namespace. */
export function controlRules(
  { machine, set, deployment, source }: Kinds,
  { election, record }: LeaseNames,
): RulesByRole {
  const apiGroups = [machine.group];
  const sources = source === undefined ? [] : [source.plural];
  const inCore = { apiGroups: [''] };
  const inLeases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
  const events = { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] };
  const namespace = {
    comment: 'The namespace itself, whose UID tells clusters apart.',
    ...{ ...inCore, resources: ['namespaces'], verbs: ['get'] },
  };
  const createLeases = { comment: 'RBAC cannot limit names of new objects.', ...inLeases, verbs: ['create'] };
  return {
    controllers: [
      { apiGroups, resources: [machine.plural], verbs: read },
      { apiGroups, resources: [set.plural, deployment.plural], verbs: [...read, 'patch'] },
      ...(source === undefined ? [] : [{ apiGroups, resources: sources, verbs: ['list', 'watch', 'patch'] }]),
      { apiGroups, resources: [set, deployment].map(({ plural }) => `${plural}/status`), verbs: ['patch'] },
      {
        comment: 'Lists and watches ask for the metadata only, and patches are those of a finalizer.',
        ...{ ...inCore, resources: ['secrets'], verbs: ['list', 'watch', 'patch'] },
      },
      events,
      { ...inLeases, resourceNames: election, verbs: ['get', 'patch'] },
      { ...inLeases, resourceNames: [record], verbs: ['get'] },
      createLeases,
      namespace,
    ],
    workers: [
      { apiGroups, resources: [machine.plural, set.plural], verbs: ['get', 'list', 'create', 'patch', 'delete'] },
      { apiGroups, resources: [deployment.plural, ...sources], verbs: ['get', 'list', 'patch'] },
      { apiGroups, resources: [machine, set, deployment].map(({ plural }) => `${plural}/status`), verbs: ['patch'] },
      {
        comment:
          'Where the admission plugin OwnerReferencesPermissionEnforcement is on. Without it nothing asks for these.',
        apiGroups,
        resources: [deployment, set].map(({ plural }) => `${plural}/finalizers`),
        verbs: ['update'],
      },
      { ...inCore, resources: ['secrets'], verbs: ['get', 'create', 'patch', 'delete'] },
      events,
      { ...inLeases, resourceNames: [...election, record], verbs: ['get'] },
      createLeases,
      namespace,
    ],
  };
}

const systemNamespace: Rule = {
  comment: 'Its UID tells clusters apart.',
  ...{ apiGroups: [''], resources: ['namespaces'], resourceNames: ['kube-system'], verbs: ['get'] },
};

/** In the cluster of the Nodes. */
export const targetRules: RulesByRole = {
  controllers: [{ apiGroups: [''], resources: ['nodes'], verbs: ['list', 'watch', 'patch'] }, systemNamespace],
  workers: [
    { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch', 'patch', 'delete'] },
    { apiGroups: [''], resources: ['nodes/status'], verbs: ['patch'] },
    { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch', 'delete'] },
    { apiGroups: [''], resources: ['pods/eviction'], verbs: ['create'] },
    { apiGroups: ['policy'], resources: ['poddisruptionbudgets'], verbs: ['get', 'list'] },
    { apiGroups: [''], resources: ['persistentvolumeclaims', 'persistentvolumes'], verbs: ['get'] },
    { apiGroups: ['storage.k8s.io'], resources: ['volumeattachments'], verbs: ['list', 'watch', 'delete'] },
    { apiGroups: ['storage.k8s.io'], resources: ['csinodes'], verbs: ['list', 'watch'] },
    systemNamespace,
  ],
};

/** Namespace of bootstrap tokens, in the cluster of the Nodes. */
export const tokenNamespace = 'kube-system';

/** Of the workers in the namespace of bootstrap tokens, if user data has the placeholder for one. */
export const tokenRules: readonly Rule[] = [
  { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch', 'delete'] },
];

/** What people get with Kubernetes' own ClusterRoles of these names. Each has also what the ones before it have. */
export function peopleRules({ machine, set, deployment, source }: Kinds): Readonly<Record<string, readonly Rule[]>> {
  const apiGroups = [machine.group];
  const write = ['create', 'update', 'patch', 'delete', 'deletecollection'];
  const kinds = [machine, set, deployment, ...(source === undefined ? [] : [source])];
  const scales = [set, deployment].map(({ plural }) => `${plural}/scale`);
  return {
    view: [{ apiGroups, resources: [...kinds.map(({ plural }) => plural), ...scales], verbs: read }],
    edit: [
      { apiGroups, resources: [deployment.plural], verbs: write },
      { apiGroups, resources: [`${deployment.plural}/scale`], verbs: ['update', 'patch'] },
    ],
    admin: [
      {
        comment:
          'Who may write these can have the VMs and Nodes of all Machines of the namespace deleted, and writers of classes can read their Secrets.',
        apiGroups,
        resources: kinds.filter((kind) => kind !== deployment).map(({ plural }) => plural),
        verbs: write,
      },
      { apiGroups, resources: [`${set.plural}/scale`], verbs: ['update', 'patch'] },
    ],
  };
}
