/** References to objects, and what holds for each kind of them. */

/** Name of an API of machines, as in api/dialects.ts. It is in histories, so it never changes. */
export type DialectName = string;

/** A Machine, MachineSet or MachineDeployment, or a source of machines. In the input of its workflow. */
export interface ObjectRef {
  readonly dialect: DialectName;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Which control cluster it is in: the UID of the watched namespace, where that is known. No other serves it. */
  readonly cluster?: string;
}

/** Kinds of objects that have a workflow for as long as they exist, with their names in a dialect. */
export const workflowObjects = { Machine: 'machine', MachineSet: 'set', MachineDeployment: 'deployment' } as const;

/** Whether resourceVersion a is newer than b. They are decimal numbers of any length (Kubernetes 1.35, KEP-5504). */
export function isNewer(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}

/** A run of a workflow that has failed, as the one says that has taken over from it. */
export interface FailedRun {
  /** RFC 3339. */
  readonly at: string;
  /** `NonDeterminism`: its code was changed by an upgrade. Else the type of the failure. */
  readonly reason: string;
  /** At most 300 characters. */
  readonly message: string;
}
