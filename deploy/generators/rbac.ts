/** deploy/rbac and the roles of the chart, from the one list of rights. */
import { stringify } from 'yaml';
import { controlRules, type Rule, targetRules, tokenNamespace, tokenRules } from '../../api/rights.ts';
import { dialect } from '../../cli/dialect.ts';

const generated = '# Made from api/rights.ts by `npm run generate`. Do not edit.\n';
/** In the namespace of docs/how-to/install.md. docs/how-to/rights.md replaces it in the texts. */
const account = { kind: 'ServiceAccount', name: 'millwright', namespace: 'millwright' };

/** Content by path from the root. */
export function rbacFiles(): Record<string, string> {
  const { kinds } = dialect;
  return {
    'deploy/chart/rights/control.yaml': rulesText(controlRules(kinds)),
    'deploy/chart/rights/target.yaml': rulesText(targetRules),
    'deploy/chart/rights/tokens.yaml': rulesText(tokenRules),
    'deploy/rbac/control.yaml': `${generated}# Rights of Millwright in the cluster of the Machines, in the namespace that it watches:
#   kubectl apply -n <namespace> -f deploy/rbac/control.yaml
# Correct the subject where Millwright runs in another namespace or logs in as somebody else.
${roleAndBinding('Role', { name: 'millwright' }, controlRules(kinds), account)}`,
    'deploy/rbac/target.yaml': `${generated}# Rights of Millwright in the cluster of the Nodes:
#   kubectl apply -f deploy/rbac/target.yaml
# Correct the subjects where Millwright runs in another namespace or logs in as somebody else.
${roleAndBinding('ClusterRole', { name: 'millwright-nodes' }, targetRules, account)}---
# For bootstrap tokens, if user data has the placeholder for one.
${roleAndBinding('Role', { name: 'millwright-bootstrap-tokens', namespace: tokenNamespace }, tokenRules, account)}`,
  };
}

function roleAndBinding(
  kind: 'Role' | 'ClusterRole',
  metadata: { readonly name: string; readonly namespace?: string },
  rules: readonly Rule[],
  subject: object,
): string {
  const apiGroup = 'rbac.authorization.k8s.io';
  const apiVersion = `${apiGroup}/v1`;
  const roleRef = { apiGroup, kind, name: metadata.name };
  const head = stringify({ apiVersion, kind, metadata });
  const binding = stringify({ apiVersion, kind: `${kind}Binding`, metadata, roleRef, subjects: [subject] });
  return `${head}rules:\n${rulesText(rules).replace(/^(?=.)/gm, '  ')}---\n${binding}`;
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
