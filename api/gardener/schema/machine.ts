import { z } from 'zod';
import { ageColumn, type KindDefinition } from '../../crds.ts';
import type { CustomResource } from '../../objects.ts';
import { Time } from '../../schema.ts';
import { phases, resources } from '../names.ts';
import { ClassSpec, LastOperation, machineConfiguration, NodeTemplate, oneOf, TemplateMetadata } from './common.ts';

export const MachineSpec = z.object({
  class: ClassSpec.optional().describe('The class that says how the VM is made. Mandatory.'),
  providerID: z.string().optional().describe('Cloud identity of the VM. Set once, when the VM is known.'),
  nodeTemplate: NodeTemplate.optional().describe(
    'Labels, annotations and taints for the Node, also after it has joined.',
  ),
  ...machineConfiguration,
});
export type MachineSpec = z.infer<typeof MachineSpec>;

/** What the machines of a MachineSet are made from. */
export const MachineTemplate = z.object({
  metadata: TemplateMetadata.optional().describe('Labels, annotations and finalizers for the machines.'),
  spec: MachineSpec.optional().describe('Spec of the machines.'),
});
export type MachineTemplate = z.infer<typeof MachineTemplate>;

/** `corev1.NodeCondition`. */
const NodeCondition = z.object({
  type: z.string().describe('Type of the condition.'),
  status: z.string().describe('`True`, `False` or `Unknown`.'),
  reason: z.string().optional().describe('Reason of the last transition, in one word.'),
  message: z.string().optional().describe('Reason of the last transition, for people.'),
  lastHeartbeatTime: Time.optional().describe('When the kubelet last reported it.'),
  lastTransitionTime: Time.optional().describe('When the status last changed.'),
});

export const MachineStatus = z.object({
  addresses: z
    .array(
      z.object({
        type: z.string().describe('`Hostname`, `InternalIP`, `ExternalDNS` ...'),
        address: z.string().describe('The address.'),
      }),
    )
    .optional()
    .describe('Addresses of the VM, without a target cluster only.'),
  conditions: z.array(NodeCondition).optional().describe('Copy of the conditions of the Node.'),
  lastOperation: LastOperation.optional().describe('What is being done, or was done last.'),
  currentStatus: z
    .object({
      phase: z
        .string()
        .optional()
        .describe(`Empty at first, then ${oneOf(phases)}.`),
      timeoutActive: z.boolean().optional().describe('A timeout runs that may make it Failed.'),
      lastUpdateTime: Time.optional().describe('When the phase was written.'),
      preserveExpiryTime: Time.optional().describe('Until when it is preserved.'),
    })
    .optional()
    .describe('Where it is in its life.'),
  lastKnownState: z.string().optional().describe('What the provider wants to be given with its next call. Opaque.'),
});
export type MachineStatus = z.infer<typeof MachineStatus>;

/** A VM and the Node that it becomes. Whoever makes one may leave out anything: what is wrong shows in its status. */
export const Machine = z
  .object({
    spec: MachineSpec.optional().describe('What the machine shall be.'),
    status: MachineStatus.optional().describe('What it is.'),
  })
  .describe('A VM and the Node that it becomes.');
export type Machine = CustomResource<z.infer<typeof Machine>>;

export const machineDefinition: KindDefinition = {
  resource: resources.machines,
  shortNames: ['mc'],
  schema: Machine,
  subresources: ['status'],
  columns: [
    { name: 'Status', type: 'string', jsonPath: '.status.currentStatus.phase', description: 'Phase of the machine.' },
    ageColumn,
    { name: 'Node', type: 'string', jsonPath: '.metadata.labels.node', description: 'Node of the machine.' },
    {
      name: 'ProviderID',
      type: 'string',
      jsonPath: '.spec.providerID',
      priority: 1,
      description: 'Cloud identity of the VM.',
    },
  ],
};
