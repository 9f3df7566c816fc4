import { providerKey } from '../../api/names.ts';
import type { Provider, ProviderDeps } from './provider.ts';

/** The providers that ship with Millwright, by the key of their name. One that nobody serves loads nothing. */
const providers = {
  aws: async () => (await import('./aws/index.ts')).createAwsProvider,
  azure: async () => (await import('./azure/index.ts')).createAzureProvider,
  openstack: async () => (await import('./openstack/index.ts')).createOpenstackProvider,
  simulated: async () => (await import('./simulated/index.ts')).createSimulatedProvider,
} satisfies Record<string, () => Promise<(deps: ProviderDeps) => Provider>>;

export const providerNames: readonly string[] = Object.keys(providers);

/** Loads and makes a provider. Throws an Error that names the known ones. */
export async function createProvider(name: string, deps: ProviderDeps): Promise<Provider> {
  const load = new Map(Object.entries(providers)).get(providerKey(name));
  if (load === undefined) throw new Error(`provider '${name}' is not known: there are ${providerNames.join(', ')}`);
  return (await load())(deps);
}
