/** `millwright rollout history`: the revisions of a deployment. */
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import { revisionOf } from '../../../api/owner/revision.ts';
import { currentSetOf } from '../../../api/owner/view.ts';
import { columns } from '../../columns.ts';

/** The revisions of a deployment as a table. @param sets those of the deployment, in the order of the rows */
export function toHistory(deployment: MachineDeployment, sets: readonly MachineSet[]): string {
  if (sets.length === 0) return 'there are no revisions yet';
  const current = currentSetOf(deployment, sets);
  const rows = sets.map((set) => [
    `${revisionOf(set)}${set === current ? ' (current)' : ''}`,
    set.metadata.name,
    String(set.spec?.replicas ?? 0),
    set.spec?.template?.spec?.class?.name ?? '',
    Object.entries(set.spec?.template?.metadata?.annotations ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(' '),
  ]);
  const note = current === undefined ? ['the current template has no revision yet'] : [];
  return [...columns([['REVISION', 'SET', 'REPLICAS', 'CLASS', 'ANNOTATIONS'], ...rows]), ...note].join('\n');
}
