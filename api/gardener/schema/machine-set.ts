import { z } from 'zod';
import { ageColumn, type KindDefinition } from '../../crds.ts';
import type { CustomResource } from '../../objects.ts';
import { Time } from '../../schema.ts';
import { machineSetConditionTypes, resources } from '../names.ts';
import { ClassSpec, LastOperation, MachineSummary, oneOf, ownerRules, ownerSpec, specRule } from './common.ts';
import { MachineTemplate } from './machine.ts';

export const MachineSetSpec = z
  .object({
    ...ownerSpec,
    template: MachineTemplate.optional().describe('What the machines are made from.'),
    machineClass: ClassSpec.optional().describe('Of old; shows in a metric only.'),
  })
  .meta({ 'x-kubernetes-validations': ownerRules });
export type MachineSetSpec = z.infer<typeof MachineSetSpec>;

export const MachineSetCondition = z.object({
  type: z.string().describe(`${oneOf(machineSetConditionTypes)}.`),
  status: z.string().describe('`True`, `False` or `Unknown`.'),
  lastTransitionTime: Time.optional().describe('When the status last changed.'),
  reason: z.string().optional().describe('Reason of the last transition, in one word.'),
  message: z.string().optional().describe('Reason of the last transition, for people.'),
});
export type MachineSetCondition = z.infer<typeof MachineSetCondition>;

export const MachineSetStatus = z.object({
  replicas: z.int32().optional().describe('Machines that it owns, those that are being deleted included.'),
  fullyLabeledReplicas: z.int32().optional().describe('Of these, those with all labels of the template.'),
  readyReplicas: z.int32().optional().describe('Of these, those that are Running.'),
  availableReplicas: z.int32().optional().describe('Of these, those that are Running or Available.'),
  preservedFailedReplicas: z.int32().optional().describe('Of these, those that are Failed and preserved.'),
  autoPreserveFailedMachineCount: z.int32().optional().describe('Of these, those that were preserved automatically.'),
  observedGeneration: z.int().optional().describe('metadata.generation that was last acted upon.'),
  machineSetCondition: z.array(MachineSetCondition).optional().describe('Conditions, one of a type.'),
  lastOperation: LastOperation.optional().describe('Of which only lastUpdateTime is written.'),
  failedMachines: z.array(MachineSummary).optional().describe('Machines whose last operation failed.'),
});
export type MachineSetStatus = z.infer<typeof MachineSetStatus>;

/** A number of machines of one template. */
export const MachineSet = z
  .object({
    spec: MachineSetSpec.optional().describe('Desired state. Mandatory.'),
    status: MachineSetStatus.optional().describe('What is.'),
  })
  .meta({ 'x-kubernetes-validations': [specRule] })
  .describe('A number of machines of one template.');
export type MachineSet = CustomResource<z.infer<typeof MachineSet>>;

export const machineSetDefinition: KindDefinition = {
  resource: resources.machineSets,
  shortNames: ['mcs'],
  schema: MachineSet,
  subresources: ['status', 'scale'],
  columns: [
    { name: 'Desired', type: 'integer', jsonPath: '.spec.replicas', description: 'Desired number of machines.' },
    { name: 'Current', type: 'integer', jsonPath: '.status.replicas', description: 'Machines that exist.' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas', description: 'Machines that are Running.' },
    ageColumn,
  ],
};
