import type { Provider, ProviderDeps } from './provider.ts';
import { createSimulatedProvider } from './simulated/index.ts';

/** The providers that ship with Millwright, by name. */
export const providers: ReadonlyMap<string, (deps: ProviderDeps) => Provider> = new Map([
  ['simulated', createSimulatedProvider],
]);
