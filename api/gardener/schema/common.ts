/** What the kinds of the group `machine.sapcloud.io` share. */
import { z } from 'zod';
import type { ValidationRule } from '../../crds.ts';
import { Duration, LabelSelector, Time } from '../../schema.ts';
import { operationStates, operationTypes } from '../names.ts';

/** The names of an object of names.ts in a sentence: '`A`, `B` or `C`'. */
export function oneOf(names: object): string {
  const quoted = Object.keys(names)
    .filter((name) => name !== '')
    .map((name) => `\`${name}\``);
  return `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

export const ClassSpec = z.object({
  apiGroup: z.string().optional().describe('API group of the class, `machine.sapcloud.io`.'),
  kind: z.string().optional().describe('Kind of the class. Mandatory; `MachineClass`.'),
  name: z.string().optional().describe('Name of the class, in the namespace of the object. Mandatory.'),
});
export type ClassSpec = z.infer<typeof ClassSpec>;

/** Metadata inside another object. What it holds besides these fields is kept as it is. */
export const TemplateMetadata = z.looseObject({
  labels: z.record(z.string(), z.string()).optional().describe('Labels of the object that is made from the template.'),
  annotations: z.record(z.string(), z.string()).optional().describe('Annotations of that object.'),
});
export type TemplateMetadata = z.infer<typeof TemplateMetadata>;

export const Taint = z.object({
  key: z.string().describe('Key of the taint.'),
  value: z.string().optional().describe('Value of the taint.'),
  effect: z.string().describe('`NoSchedule`, `PreferNoSchedule` or `NoExecute`.'),
  timeAdded: Time.optional().describe('Time at which the taint was added; for `NoExecute` only.'),
});
export type Taint = z.infer<typeof Taint>;

/** `corev1.NodeSpec`. */
const NodeSpec = z.object({
  taints: z.array(Taint).optional().describe('Taints that the Node gets and keeps.'),
  podCIDR: z.string().optional().describe('Kept and not used.'),
  podCIDRs: z.array(z.string()).optional().describe('Kept and not used.'),
  providerID: z.string().optional().describe('Kept and not used.'),
  unschedulable: z.boolean().optional().describe('Kept and not used.'),
  externalID: z.string().optional().describe('Kept and not used.'),
  configSource: z
    .object({
      configMap: z
        .object({
          name: z.string().describe('Kept and not used.'),
          namespace: z.string().describe('Kept and not used.'),
          kubeletConfigKey: z.string().describe('Kept and not used.'),
          uid: z.string().optional().describe('Kept and not used.'),
          resourceVersion: z.string().optional().describe('Kept and not used.'),
        })
        .optional()
        .describe('Kept and not used.'),
    })
    .optional()
    .describe('Kept and not used.'),
});

export const NodeTemplate = z.object({
  metadata: z
    .looseObject({
      labels: z.record(z.string(), z.string()).optional().describe('Labels that the Node gets and keeps.'),
      annotations: z.record(z.string(), z.string()).optional().describe('Annotations that the Node gets and keeps.'),
    })
    .optional()
    .describe('Labels and annotations for the Node; everything else in it is kept and not used.'),
  spec: NodeSpec.optional().describe('NodeSpec of which the taints are used.'),
});
export type NodeTemplate = z.infer<typeof NodeTemplate>;

/** The knobs of a Machine, which sit directly in its spec. Where one is left out, a flag decides. */
export const machineConfiguration = {
  drainTimeout: Duration.optional().describe(
    'How long a drain may take, counted from the deletion. After that the pods are deleted. Default: 2h.',
  ),
  healthTimeout: Duration.optional().describe(
    'How long a Machine may be Unknown until it asks to be replaced. Default: 10m.',
  ),
  creationTimeout: Duration.optional().describe(
    'From the creation on, without a healthy node for longer makes it Failed. Default: 20m.',
  ),
  inPlaceUpdateTimeout: Duration.optional().describe(
    'InPlaceUpdating for longer makes it InPlaceUpdateFailed. Default: 20m.',
  ),
  machinePreserveTimeout: Duration.optional().describe('How long it is preserved. Default: 96h.'),
  disableHealthTimeout: z.boolean().optional().describe('Unknown never becomes Failed. Default: false.'),
  maxEvictRetries: z.int32().optional().describe('Evictions of a pod before it is deleted outright. Default: 360.'),
  nodeConditions: z
    .string()
    .optional()
    .describe(
      'Comma list of node condition types that make the machine unhealthy unless they are False. ' +
        'Default: KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable.',
    ),
};

export const LastOperation = z.object({
  description: z
    .string()
    .optional()
    .describe('What is done, and why it failed. MCM keeps the step of a deletion here.'),
  errorCode: z
    .string()
    .optional()
    .describe('Code of a failed creation, such as `ResourceExhausted`. The autoscaler reads it.'),
  lastUpdateTime: Time.optional().describe('When the operation was written.'),
  state: z
    .string()
    .optional()
    .describe(`${oneOf(operationStates)}.`),
  type: z
    .string()
    .optional()
    .describe(`${oneOf(operationTypes)}.`),
});
export type LastOperation = z.infer<typeof LastOperation>;

/** A machine that has failed, in the status of its owners. */
export const MachineSummary = z.object({
  name: z.string().optional().describe('Name of the Machine.'),
  providerID: z.string().optional().describe('Its provider ID.'),
  lastOperation: LastOperation.optional().describe('Its last operation.'),
  ownerRef: z.string().optional().describe('Name of the MachineSet that owns it.'),
});
export type MachineSummary = z.infer<typeof MachineSummary>;

/** What the spec of a MachineSet and of a MachineDeployment have in common, without the template. */
export const ownerSpec = {
  replicas: z.int32().optional().describe('Desired number of machines, 0 or more. Default: 0.'),
  selector: LabelSelector.optional().describe(
    'Selects the machines. Mandatory; matchLabels must be among the labels of the template.',
  ),
  minReadySeconds: z
    .int32()
    .optional()
    .describe(
      'How long a machine has to be ready before it is available. Kept, and not enforced unless the annotation millwright.dev/enforce-min-ready-seconds asks for it.',
    ),
  autoPreserveFailedMachineMax: z
    .int32()
    .optional()
    .describe('How many Failed machines are preserved instead of replaced. Default: 0.'),
};

/**
 * What MCM's controllers refuse in the spec of a MachineSet or MachineDeployment, by a line in their log alone (a
 * missing selector makes them panic). Negative replicas are not among these rules: the server refuses them because of
 * `scale`.
 */
export const ownerRules: ValidationRule[] = [
  {
    rule: 'has(self.selector)',
    fieldPath: '.selector',
    reason: 'FieldValueRequired',
    message: 'set selector.matchLabels to labels that template.metadata.labels has',
  },
  {
    rule:
      '!has(self.selector) || !has(self.selector.matchLabels) || self.selector.matchLabels.all(key, has(self.template)' +
      ' && has(self.template.metadata) && has(self.template.metadata.labels) && key in self.template.metadata.labels' +
      ' && self.template.metadata.labels[key] == self.selector.matchLabels[key])',
    fieldPath: '.selector.matchLabels',
    message: 'must be among template.metadata.labels: give the template the same labels',
  },
  classRule('kind', 'set it to `MachineClass`'),
  classRule('name', 'set it to the name of a MachineClass in the same namespace'),
];

function classRule(field: 'kind' | 'name', message: string): ValidationRule {
  const path = `template.spec.class.${field}`;
  return {
    rule:
      'has(self.template) && has(self.template.spec) && has(self.template.spec.class)' +
      ` && has(self.${path}) && size(self.${path}) > 0`,
    fieldPath: `.${path}`,
    reason: 'FieldValueRequired',
    message,
  };
}

/** For the root of such a kind: MCM panics on an object without spec, too. */
export const specRule: ValidationRule = {
  rule: 'has(self.spec)',
  fieldPath: '.spec',
  reason: 'FieldValueRequired',
  message: 'set spec.selector, spec.template and spec.replicas',
};
