import { z } from 'zod';
import { ageColumn, type KindDefinition, type ValidationRule, withValue } from '../../crds.ts';
import type { CustomResource } from '../../objects.ts';
import { IntOrString, Time } from '../../schema.ts';
import { machineDeploymentConditionTypes, orchestrationTypes, resources, strategies } from '../names.ts';
import { MachineSummary, oneOf, ownerRules, ownerSpec, specRule } from './common.ts';
import { MachineTemplate } from './machine.ts';

const updateConfiguration = {
  maxUnavailable: IntOrString.optional().describe(
    'Machines that may be missing during the update: a number, or a percentage of the replicas, rounded down. Mandatory.',
  ),
  maxSurge: IntOrString.optional().describe(
    'Machines that may exist above the replicas: a number, or a percentage of the replicas, rounded up. Mandatory.',
  ),
};

/** As MCM, which looks at the block of the chosen type alone. */
const strategyRules: ValidationRule[] = [
  withValue(
    {
      rule: `has(self.type) && self.type in ${list(strategies)}`,
      fieldPath: '.type',
      message: `must be one of ${Object.keys(strategies).join(', ')}`,
    },
    "(has(self.type) ? self.type : '')",
  ),
  ...blockRules('RollingUpdate', 'rollingUpdate'),
  ...blockRules('InPlaceUpdate', 'inPlaceUpdate'),
  blockRule('InPlaceUpdate', 'inPlaceUpdate.orchestrationType', (value) => ({
    isValid: `${value} in ${list(orchestrationTypes)}`,
    text: value,
    message: `must be one of ${Object.keys(orchestrationTypes).join(', ')}`,
  })),
];

function blockRules(type: string, block: string): ValidationRule[] {
  return ['maxUnavailable', 'maxSurge'].map((field) =>
    blockRule(type, `${block}.${field}`, (value) => ({
      isValid: `(type(${value}) == int ? ${value} >= 0 : ${value}.matches('^[0-9]+%$'))`,
      text: `string(${value})`,
      message: "must be a number of 0 or more, or a percentage such as '25%'",
    })),
  );
}

/** A rule for a field of the block that a strategy type needs. */
function blockRule(
  type: string,
  path: string,
  field: (value: string) => { isValid: string; text: string; message: string },
): ValidationRule {
  const { isValid, text, message } = field(`self.${path}`);
  const [block] = path.split('.');
  const exists = `has(self.${block}) && has(self.${path})`;
  return withValue(
    {
      rule: `!has(self.type) || self.type != '${type}' || ${exists} && ${isValid}`,
      fieldPath: `.${path}`,
      message: `${message} (for type ${type})`,
    },
    `(${exists} ? ${text} : '')`,
  );
}

function list(names: object): string {
  return JSON.stringify(Object.keys(names)); // a list of strings in JSON is one in CEL, too
}

export const MachineDeploymentStrategy = z
  .object({
    type: z
      .string()
      .optional()
      .describe(`${oneOf(strategies)}. Mandatory.`),
    rollingUpdate: z.object(updateConfiguration).optional().describe('Bounds, for type RollingUpdate.'),
    inPlaceUpdate: z
      .object({
        ...updateConfiguration,
        orchestrationType: z
          .string()
          .optional()
          .describe('`Auto` selects the nodes, `Manual` leaves that to a user. Mandatory.'),
      })
      .optional()
      .describe('Bounds and mode, for type InPlaceUpdate.'),
  })
  .meta({ 'x-kubernetes-validations': strategyRules });
export type MachineDeploymentStrategy = z.infer<typeof MachineDeploymentStrategy>;

export const MachineDeploymentSpec = z
  .object({
    ...ownerSpec,
    template: MachineTemplate.describe('What the machines are made from. A change of it starts a rollout.'),
    strategy: MachineDeploymentStrategy.optional().describe('How new machines replace old ones. Mandatory.'),
    revisionHistoryLimit: z.int32().optional().describe('Old MachineSets that are kept. Default: all.'),
    paused: z.boolean().optional().describe('Changes of the template wait, scaling goes on. Default: false.'),
    rollbackTo: z
      .object({ revision: z.int().optional().describe('Revision to go back to. Default: 0, the one before.') })
      .optional()
      .describe('Asks for an earlier template, once; removed when it is done. Deprecated.'),
    progressDeadlineSeconds: z
      .int32()
      .optional()
      .describe('Seconds without progress after which Progressing becomes False. 0 and less: never. Default: never.'),
  })
  .meta({
    'x-kubernetes-validations': [
      ...ownerRules,
      {
        rule: 'has(self.strategy)',
        fieldPath: '.strategy',
        reason: 'FieldValueRequired',
        message: `set strategy.type to one of ${Object.keys(strategies).join(', ')}`,
      },
    ],
  });
export type MachineDeploymentSpec = z.infer<typeof MachineDeploymentSpec>;

export const MachineDeploymentCondition = z.object({
  type: z.string().describe(`${oneOf(machineDeploymentConditionTypes)}.`),
  status: z.string().describe('`True`, `False` or `Unknown`.'),
  lastUpdateTime: Time.optional().describe('When it was last confirmed; Progressing: when progress was last seen.'),
  lastTransitionTime: Time.optional().describe('When the status last changed.'),
  reason: z.string().optional().describe('Reason of the last transition, in one word.'),
  message: z.string().optional().describe('Reason of the last transition, for people.'),
});
export type MachineDeploymentCondition = z.infer<typeof MachineDeploymentCondition>;

export const MachineDeploymentStatus = z.object({
  observedGeneration: z.int().optional().describe('metadata.generation that was last acted upon.'),
  replicas: z.int32().optional().describe('Machines of all its sets, those that are being deleted included.'),
  updatedReplicas: z.int32().optional().describe('Of these, those of the present template.'),
  readyReplicas: z.int32().optional().describe('Of these, those that are Running.'),
  availableReplicas: z.int32().optional().describe('Of these, those that are Running or Available.'),
  preservedFailedReplicas: z.int32().optional().describe('Of these, those that are Failed and preserved.'),
  unavailableReplicas: z.int32().optional().describe('Machines that its sets shall have and that are not available.'),
  conditions: z.array(MachineDeploymentCondition).optional().describe('Conditions, one of a type.'),
  collisionCount: z.int32().optional().describe('How often the name of a new set was taken; part of the next name.'),
  failedMachines: z.array(MachineSummary).optional().describe('Machines of all its sets whose last operation failed.'),
});
export type MachineDeploymentStatus = z.infer<typeof MachineDeploymentStatus>;

/** Machines of a template that may change. */
export const MachineDeployment = z
  .object({
    spec: MachineDeploymentSpec.optional().describe('Desired state. Mandatory.'),
    status: MachineDeploymentStatus.optional().describe('What is.'),
  })
  .meta({ 'x-kubernetes-validations': [specRule] })
  .describe('Machines of a template that may change, through one MachineSet for each template.');
export type MachineDeployment = CustomResource<z.infer<typeof MachineDeployment>>;

export const machineDeploymentDefinition: KindDefinition = {
  resource: resources.machineDeployments,
  shortNames: ['mcd'],
  schema: MachineDeployment,
  subresources: ['status', 'scale'],
  columns: [
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas', description: 'Machines that are Running.' },
    { name: 'Desired', type: 'integer', jsonPath: '.spec.replicas', description: 'Desired number of machines.' },
    {
      name: 'Up-to-date',
      type: 'integer',
      jsonPath: '.status.updatedReplicas',
      description: 'Machines of the present template.',
    },
    {
      name: 'Available',
      type: 'integer',
      jsonPath: '.status.availableReplicas',
      description: 'Machines that are Running or Available.',
    },
    ageColumn,
  ],
};
