/** `millwright rollout history`: the revisions of a deployment. */
import type { OwnerDeployment, OwnerSet } from '../../../api/owner/objects.ts';
import { revisionOf } from '../../../api/owner/revision.ts';
import { newSetAmong } from '../../../api/owner/view.ts';
import { columns } from '../../columns.ts';
import { dialect } from '../../dialect.ts';

/** The revisions of a deployment as a table. @param sets those of the deployment, in the order of the rows */
export function toHistory(deployment: OwnerDeployment, sets: readonly OwnerSet[]): string {
  if (sets.length === 0) return 'there are no revisions yet';
  const current = newSetAmong(dialect, deployment, sets);
  const rows = sets.map((set) => [
    `${revisionOf(dialect, set)}${set === current ? ' (current)' : ''}`,
    set.metadata.name,
    String(set.spec?.replicas ?? 0),
    dialect.source.nameOf(set) ?? '',
    Object.entries(set.spec?.template?.metadata?.annotations ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(' '),
  ]);
  const note = current === undefined ? ['the current template has no revision yet'] : [];
  return [...columns([['REVISION', 'SET', 'REPLICAS', 'CLASS', 'ANNOTATIONS'], ...rows]), ...note].join('\n');
}
