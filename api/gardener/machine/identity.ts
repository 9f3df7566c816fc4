import type { MachineIdentityChange } from '../../dialect.ts';
import { annotations, labels, priorities } from '../names.ts';

/** Merge patch of a Machine: the Node's name is a label, the provider ID a field of the spec. */
export function toIdentityPatch({ providerID, nodeName, prioritize }: MachineIdentityChange): object {
  return {
    metadata: {
      ...(nodeName !== undefined && { labels: { [labels.node]: nodeName } }),
      ...(prioritize && { annotations: { [annotations.priority]: priorities.default } }),
    },
    spec: { providerID },
  };
}
