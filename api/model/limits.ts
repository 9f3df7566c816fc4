/** Limits on the machines of a namespace, and how far they are used. Plain types: the values are in histories. */

/** Each is left out where nothing is limited. */
export interface Limits {
  /** Surge machines: those above the replicas of their owners. One that is being deleted counts until it is gone. */
  readonly surge?: number;
  /** Machines that were created and do not run yet. */
  readonly provisioning?: number;
}

export type Limit = keyof Limits;

/** The namespace that a limit holds for. */
export interface LimitScope {
  readonly dialect: string;
  readonly namespace: string;
  /** See ObjectRef. */
  readonly cluster?: string;
}

/** What one owner of machines has of what is limited. */
export interface LimitUse {
  /** Machine: all machines without an owner together. */
  readonly kind: LimitClaim['kind'] | 'Machine';
  readonly name: string;
  readonly uid: string;
  /** Those that it takes part in; left out where there are none. */
  readonly limits?: Limits;
  /** Machines that do not run yet. */
  readonly provisioning: number;
  /** Machines above its replicas; below 0: machines that it lacks. */
  readonly surplus: number;
  /** Machines that its sets lack. */
  readonly wanted: number;
  /** Names of machines that its sets record as being created, and that do not exist. */
  readonly pending: readonly string[];
}

/** How far the limits of a namespace are used, as read live. */
export interface LimitReading {
  /** The lowest of the values that its owners have. */
  readonly limits: Limits;
  /** Without owners that use nothing, want nothing and claim nothing. */
  readonly uses: readonly LimitUse[];
}

/** An owner that wants to create machines. Its sets record their names already. */
export interface LimitClaim {
  readonly kind: 'MachineDeployment' | 'MachineSet';
  readonly name: string;
  readonly uid: string;
  readonly names: readonly string[];
}

/** What came of a claim. */
export interface LimitGrant {
  /** Names of the machines that may be created. */
  readonly granted: readonly string[];
  /** Why it is not all of them; left out if it is. */
  readonly wait?: LimitWait;
}

/** What keeps an owner from creating machines. */
export interface LimitWait {
  readonly limit: Limit;
  readonly most: number;
  readonly used: number;
  /** Who uses it, those that use most first, at most ten. */
  readonly holders: readonly { readonly name: string; readonly count: number }[];
  /** How many owners use it. */
  readonly holderCount: number;
  /** Whether the owner that waits is one of them. */
  readonly isOwn: boolean;
}
