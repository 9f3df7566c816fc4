/** deploy/rbac and the roles of the chart, from the one list of rights. */
import { stringify } from 'yaml';
import { clusterRecordName } from '../../api/names.ts';
import {
  controlRules,
  peopleRules,
  type RightsRole,
  type Rule,
  type RulesByRole,
  roles,
  targetRules,
  tokenNamespace,
  tokenRules,
} from '../../api/rights.ts';
import { dialect } from '../../cli/dialect.ts';

const generated = '# Made from api/rights.ts by `npm run generate`. Do not edit.\n';
/** That of docs/how-to/install.md. docs/how-to/rights.md replaces it in the texts. */
const installation = 'millwright';
const subject = (role: RightsRole) => ({ kind: 'ServiceAccount', name: `millwright-${role}`, namespace: 'millwright' });
const correct =
  '# docs/how-to/rights.md says how to correct the subjects, and the name of the installation in a Lease.\n';

/** Content by path from the root. */
export function rbacFiles(): Record<string, string> {
  const { kinds, policy } = dialect;
  const control = (name: string) => controlRules(kinds, { election: policy.leases, record: clusterRecordName(name) });
  // The chart puts the name of the installation in.
  const ofChart = { control: control('<installation>'), target: targetRules };
  const chartFiles = Object.entries(ofChart).flatMap(([cluster, rules]) =>
    roles.map((role) => [`deploy/chart/rights/${cluster}-${role}.yaml`, rulesText(rules[role])]),
  );
  const people = Object.entries(peopleRules(kinds));
  return {
    ...Object.fromEntries(chartFiles),
    'deploy/chart/rights/bootstrap-tokens.yaml': rulesText(tokenRules),
    ...Object.fromEntries(people.map(([name, rules]) => [`deploy/chart/rights/people-${name}.yaml`, rulesText(rules)])),
    'deploy/rbac/control.yaml': `${generated}# Rights of Millwright in the cluster of the Machines, in the namespace that it watches:
#   kubectl apply -n <namespace> -f deploy/rbac/control.yaml
${correct}${byRole('Role', (role) => ({ name: `millwright-${role}` }), control(installation))}`,
    'deploy/rbac/target.yaml': `${generated}# Rights of Millwright in the cluster of the Nodes:
#   kubectl apply -f deploy/rbac/target.yaml
${correct}${byRole('ClusterRole', (role) => ({ name: `millwright-${role}-nodes` }), targetRules)}`,
    'deploy/rbac/bootstrap-tokens.yaml': `${generated}# For bootstrap tokens, in the cluster of the Nodes, if user data has the placeholder for one:
#   kubectl apply -f deploy/rbac/bootstrap-tokens.yaml
${correct}${roleAndBinding('Role', { name: 'millwright-bootstrap-tokens', namespace: tokenNamespace }, tokenRules, 'workers')}`,
    'deploy/rbac/people.yaml': `${generated}# For people who have Kubernetes' ClusterRoles view, edit and admin, in the cluster of the Machines:
#   kubectl apply -f deploy/rbac/people.yaml
${people.map(([name, rules]) => roleOfPeople(name, rules)).join('---\n')}`,
  };
}

/** Kubernetes adds the rules to its own ClusterRole of this name. */
function roleOfPeople(name: string, rules: readonly Rule[]): string {
  const labels = { [`rbac.authorization.k8s.io/aggregate-to-${name}`]: 'true' };
  return roleText('ClusterRole', { name: `millwright-${name}`, labels }, rules);
}

const apiGroup = 'rbac.authorization.k8s.io';
const apiVersion = `${apiGroup}/v1`;

interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

function byRole(kind: 'Role' | 'ClusterRole', metadataOf: (role: RightsRole) => Metadata, rules: RulesByRole): string {
  return roles.map((role) => roleAndBinding(kind, metadataOf(role), rules[role], role)).join('---\n');
}

function roleAndBinding(
  kind: 'Role' | 'ClusterRole',
  metadata: Metadata,
  rules: readonly Rule[],
  role: RightsRole,
): string {
  const roleRef = { apiGroup, kind, name: metadata.name };
  const binding = stringify({ apiVersion, kind: `${kind}Binding`, metadata, roleRef, subjects: [subject(role)] });
  return `${roleText(kind, metadata, rules)}---\n${binding}`;
}

function roleText(kind: 'Role' | 'ClusterRole', metadata: Metadata, rules: readonly Rule[]): string {
  return `${stringify({ apiVersion, kind, metadata })}rules:\n${rulesText(rules).replace(/^(?=.)/gm, '  ')}`;
}

/** A list in YAML. */
function rulesText(rules: readonly Rule[]): string {
  const flow = (list: readonly string[]) =>
    stringify(list, { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0 }).trimEnd();
  return rules
    .map(({ comment, ...rule }) => {
      const fields = Object.entries(rule).map(([name, list]) => `${name}: ${flow(list)}\n`);
      return `${comment === undefined ? '' : `# ${comment}\n`}- ${fields.join('  ')}`;
    })
    .join('');
}
