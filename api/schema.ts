/** Schemas of what Kubernetes defines and resources of any dialect have. */
import { z } from 'zod';
import { withValue } from './crds.ts';
import { durationPattern } from './duration.ts';

/** RFC 3339 time. */
export const Time = z.iso.datetime({ offset: true });

/** `metav1.Duration`, see `parseDuration`. */
export const Duration = z
  .string()
  .max(100)
  .meta({
    'x-kubernetes-validations': [
      withValue(
        { rule: `self.matches('${durationPattern}')`, message: 'must be a Go duration such as 90s, 20m or 1h30m' },
        'self',
      ),
    ],
  });

/** A number, or a percentage such as '25%'. */
export const IntOrString = z.union([z.int32(), z.string()]).meta({ 'x-kubernetes-int-or-string': true });
export type IntOrString = z.infer<typeof IntOrString>;

/** `resource.Quantity`: 4, '4', '500m', '16Gi'. */
export const Quantity = z.union([z.int(), z.string()]).meta({
  'x-kubernetes-int-or-string': true,
  pattern:
    '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$',
});

/** `corev1.ResourceList`. */
export const ResourceList = z.record(z.string(), Quantity);

/** `metav1.LabelSelector`. `{}` selects everything. */
export const LabelSelector = z
  .object({
    matchLabels: z
      // A CEL rule over a map needs bounds. No label value is longer, and no object has that many labels.
      .record(z.string(), z.string().max(63))
      .meta({ maxProperties: 1000 })
      .optional()
      .describe('Labels that an object must carry, all of them.'),
    matchExpressions: z
      .array(
        z.object({
          key: z.string().describe('Label key.'),
          operator: z.string().describe('`In`, `NotIn`, `Exists` or `DoesNotExist`.'),
          values: z.array(z.string()).optional().describe('Values for `In` and `NotIn`, else empty.'),
        }),
      )
      .optional()
      .describe('Requirements on labels, all of which must hold.'),
  })
  .meta({ 'x-kubernetes-map-type': 'atomic' });
export type LabelSelector = z.infer<typeof LabelSelector>;
