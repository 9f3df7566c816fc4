/**
 * Where a VM comes from: provider, providerSpec, credentials and user data. Plain types: the values are in histories.
 */
import type { Origin, SecretRef } from '../provider.ts';

/** Where VMs of a Machine are: all that a provider needs to look for them there, and to delete them. */
export interface Place {
  readonly provider: string;
  readonly origin?: Origin;
  readonly providerSpec: unknown;
  readonly credentials: readonly SecretRef[];
}

/**
 * The source of a Machine and its Secrets, as far as they concern the creation and deletion of a VM. No secret is in
 * it.
 */
export interface SourceSnapshot {
  /** Differs whenever the source or one of its Secrets was changed, created or deleted. */
  readonly version: string;
  /** Left out where the source does not exist, or does not say where its VMs are. */
  readonly cloud?: Place;
  /** Where the user data comes from. Personal: it has placeholders and has to be rendered for each machine. */
  readonly userData?: SecretRef & { readonly key: string; readonly personal: boolean };
  /** Why no VM can be created from it: names the object, the field and the fix. */
  readonly problem?: string;
  /** What the verdict on this version of it says, if that is a refusal: names the object and its problems. */
  readonly refusal?: string;
}
