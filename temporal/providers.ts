/** The providers that a worker of ours can serve. */
import { providers } from '../activities/providers/registry.ts';

/** Names of the providers that ship with Millwright. */
export const providerNames: readonly string[] = [...providers.keys()];
