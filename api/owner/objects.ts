/**
 * Sets and deployments as the owner engine reads them: what all descendants of Kubernetes' Deployment have in common.
 * An object of any API of machines fits; the engine reads the rest, and all of a machine, through the dialect.
 */
import type { KubeObject } from '../objects.ts';

/** What machines are made from. */
export interface OwnerTemplate {
  readonly metadata?:
    | {
        readonly labels?: Readonly<Record<string, string>> | undefined;
        readonly annotations?: Readonly<Record<string, string>> | undefined;
        readonly [field: string]: unknown;
      }
    | undefined;
  readonly spec?: object | undefined;
}

/** One condition of a status. */
export interface OwnerCondition {
  readonly type: string;
  readonly status: string;
  readonly lastUpdateTime?: string | undefined;
  readonly lastTransitionTime?: string | undefined;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
}

/** A MachineSet: a number of machines of one template. */
export interface OwnerSet extends KubeObject {
  readonly spec?:
    | {
        readonly replicas?: number | undefined;
        readonly selector?: LabelSelector | undefined;
        readonly template?: OwnerTemplate | undefined;
        readonly minReadySeconds?: number | undefined;
      }
    | undefined;
  readonly status?: { readonly observedGeneration?: number | undefined } | undefined;
}

/** A MachineDeployment: machines of a template that may change, in one set for each template. */
export interface OwnerDeployment extends KubeObject {
  readonly spec?:
    | (OwnerSet['spec'] & {
        readonly strategy?: OwnerStrategy | undefined;
        readonly paused?: boolean | undefined;
        readonly revisionHistoryLimit?: number | undefined;
        readonly rollbackTo?: { readonly revision?: number | undefined } | null | undefined;
        readonly progressDeadlineSeconds?: number | undefined;
      })
    | undefined;
  readonly status?:
    | (OwnerSet['status'] & {
        readonly conditions?: readonly OwnerCondition[] | undefined;
        readonly collisionCount?: number | undefined;
      })
    | undefined;
}

/** How a deployment replaces machines. The bounds are in a block that the dialect names for each type. */
export interface OwnerStrategy {
  readonly type?: string | undefined;
}

/** Bounds as a manifest has them: numbers, or percentages of the replicas such as '25%'. */
export interface StrategyBounds {
  readonly maxSurge?: number | string | undefined;
  readonly maxUnavailable?: number | string | undefined;
}

/** `metav1.LabelSelector`. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>> | undefined;
  readonly matchExpressions?: readonly LabelExpression[] | undefined;
}

interface LabelExpression {
  readonly key?: string | undefined;
  readonly operator?: string | undefined;
  readonly values?: readonly string[] | undefined;
}
