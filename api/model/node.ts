/** What the engine knows of a Node. Plain types: the values are in signals and histories. */

/** Condition type to its status (`True`, `False`, `Unknown`). */
export type ConditionStatuses = Readonly<Record<string, string>>;

/**
 * What speaks against writing to a Node that a Machine names: who may edit Machines and no Nodes can write any Node into
 * a Machine. `standingOf` in api/node.ts judges it.
 */
export interface NodeFacts {
  /** Neither its annotation nor its label names the Machine. */
  readonly isUnnamed?: true;
  /** It is older than the Machine, by more than clocks may differ. */
  readonly isOlder?: true;
  /** The label that says that it belongs to the control plane. Left out, too, with --control-plane-nodes. */
  readonly controlPlaneLabel?: string;
}

/** What decisions about a machine need of its Node. */
export interface NodeSnapshot extends NodeFacts {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly name: string;
  readonly deleting: boolean;
  /** It is being deleted, and was not ready then, or had just become so. Left out: it was ready, or nobody deletes it. */
  readonly deletedUnready?: true;
  /** Whether it carries our finalizer and the back reference to its Machine. */
  readonly managed: boolean;
  /** spec.providerID. Left out: it has none. */
  readonly providerID?: string;
  readonly conditions: ConditionStatuses;
  /** A taint says that its critical components are not ready: it does not count as joined. */
  readonly startingUp: boolean;
  /** It says that its machine is being deleted. Left out: it does not. */
  readonly isTerminating?: true;
  /** What on it says that its VM is about to be taken away, for people: `the taint <key>`. Left out: nothing does. */
  readonly interruption?: string;
  /** It does not have what its Machine wants it to have. Left out: it has, or nobody has looked. */
  readonly outdated?: true;
}

/**
 * A Node as far as somebody can tell. `unknown`: the cache has not synced or the API server does not answer. That is
 * never the same as `absent`.
 */
export type NodeView =
  | { readonly state: 'unknown' }
  | {
      readonly state: 'absent';
      /**
       * Why the Node of its name is not that of the Machine, for people: `node x is older than the Machine`. Left out:
       * there is none.
       */
      readonly notOwn?: string;
    }
  | ({ readonly state: 'present' } & NodeSnapshot);
