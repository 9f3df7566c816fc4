/** The identity of the VM that backs a Machine, as MCM stores it. */
import type { MachineIdentityChange } from '../../dialect.ts';
import { annotations, labels, priorities } from '../names.ts';
import type { Machine } from '../schema/machine.ts';

/**
 * Merge patch of a Machine: the Node's name is a label, the provider ID a field of the spec. A Machine without a deletion
 * priority gets the default with it.
 */
export function toIdentityPatch(
  { metadata }: Pick<Machine, 'metadata'>,
  { providerID, nodeName }: MachineIdentityChange,
): object {
  const hasPriority = metadata.annotations?.[annotations.priority] !== undefined;
  return {
    metadata: {
      ...(nodeName !== undefined && { labels: { [labels.node]: nodeName } }),
      ...(!hasPriority && { annotations: { [annotations.priority]: priorities.default } }),
    },
    spec: { providerID },
  };
}
