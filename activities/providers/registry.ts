import type { Provider, ProviderDeps } from './provider.ts';

/** Loads a provider with its SDK: only a worker that serves it needs that. */
type LoadProvider = () => Promise<(deps: ProviderDeps) => Provider>;

/** The providers that ship with Millwright, by name. */
export const providers: ReadonlyMap<string, LoadProvider> = new Map([
  ['simulated', async () => (await import('./simulated/index.ts')).createSimulatedProvider],
]);
