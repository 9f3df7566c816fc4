/** Names of the providers that a worker of ours can serve. */
export { providerNames } from '../activities/providers/registry.ts';
