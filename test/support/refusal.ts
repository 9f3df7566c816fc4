import { ProviderError } from '../../activities/providers/provider.ts';

/** Waits for a call of a provider and answers with the ProviderError that it throws. Throws where it does not. */
export async function refusal(act: Promise<unknown>): Promise<ProviderError> {
  const outcome = await act.then(
    () => 'no error',
    (error: unknown) => error,
  );
  if (!(outcome instanceof ProviderError)) throw new Error(`expected a ProviderError, got ${String(outcome)}`);
  return outcome;
}
