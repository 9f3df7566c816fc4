/** The identity of the VM that backs a Machine, as MCM stores it. */
import type { MachineIdentityChange } from '../../dialect.ts';
import type { MachineSnapshot } from '../../model/machine.ts';
import { annotations, labels, priorities } from '../names.ts';

/**
 * Merge patch of a Machine: the Node's name is a label, the provider ID a field of the spec. A Machine without a
 * deletion priority gets the default with it.
 */
export function toIdentityPatch(
  { hasPriority }: Pick<MachineSnapshot, 'hasPriority'>,
  { providerID, nodeName }: MachineIdentityChange,
): { metadata: object; spec: object } {
  return {
    metadata: {
      ...(nodeName !== undefined && { labels: { [labels.node]: nodeName } }),
      ...(!hasPriority && { annotations: { [annotations.priority]: priorities.default } }),
    },
    spec: { providerID },
  };
}
