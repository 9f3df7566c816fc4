import { z } from 'zod';
import { ageColumn, type KindDefinition } from '../../crds.ts';
import { maxProviderLength, names } from '../../names.ts';
import type { CustomResource } from '../../objects.ts';
import { ResourceList } from '../../schema.ts';
import { resources } from '../names.ts';

/** `corev1.SecretReference`. */
const SecretReference = z
  .object({
    name: z.string().optional().describe('Name of the Secret.'),
    namespace: z.string().optional().describe('Namespace of the Secret: that of the class, or empty.'),
  })
  .meta({ 'x-kubernetes-map-type': 'atomic' });

/** What a node of a class will look like, for the autoscaler to scale up from zero. */
export const ClassNodeTemplate = z.looseObject({
  capacity: ResourceList.describe(
    'Capacity of the node. Without `cpu`, `gpu` and `memory` the class makes no machines.',
  ),
  virtualCapacity: ResourceList.optional().describe('Extended resources that are written to the capacity of the Node.'),
  instanceType: z.string().describe('Instance type. Must not be empty.'),
  region: z.string().describe('Region. Must not be empty.'),
  zone: z.string().describe('Zone. Must not be empty.'),
  architecture: z.string().optional().describe('CPU architecture.'),
});
export type ClassNodeTemplate = z.infer<typeof ClassNodeTemplate>;

/** How VMs are made. Has neither spec nor status: its fields are at the top. */
export const MachineClass = z
  .object({
    nodeTemplate: ClassNodeTemplate.optional().describe(
      'What a node of this class will look like, for the autoscaler to scale up from zero.',
    ),
    credentialsSecretRef: SecretReference.optional().describe('Secret whose keys win over those of secretRef.'),
    secretRef: SecretReference.optional().describe(
      'Secret with user data in the key `userData`, credentials in the keys of the provider, or both. A missing one is skipped.',
    ),
    provider: z.string().max(maxProviderLength).optional().describe('Provider that makes the VMs, such as `AWS`.'),
    providerSpec: z.looseObject({}).describe('What the provider needs to know, in its own words.'),
  })
  .describe('How VMs are made: provider, its specification, and the Secrets.');
export type MachineClass = CustomResource<z.infer<typeof MachineClass>>;

export const machineClassDefinition: KindDefinition = {
  resource: resources.machineClasses,
  shortNames: ['mcc'],
  schema: MachineClass,
  subresources: [],
  columns: [
    { name: 'Provider', type: 'string', jsonPath: '.provider', description: 'Provider that makes the VMs.' },
    {
      name: 'Accepted',
      type: 'string',
      jsonPath: `.metadata.annotations.${names.accepted.replaceAll('.', '\\.')}`,
      description:
        'Whether the last check has accepted it, of this version of the class and its Secrets or an earlier one.',
    },
    ageColumn,
  ],
};
