/** Signs the places that Machines of release 0.1.0 say, so that their source may be changed. */
import { asyncLocalStorage } from '@temporalio/activity';
import { dialectOf } from '../api/dialects.ts';
import type { ObjectRef } from '../api/model/ref.ts';
import { names } from '../api/names.ts';
import { signableBy } from '../api/places.ts';
import { isRefused } from '../kube/errors.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import { createPlaceRecords, type PlacesDeps } from './machine/places.ts';
import { ProviderError } from './providers/provider.ts';

export type SigningActivities = ReturnType<typeof createSigningActivities>;

export function createSigningActivities(deps: PlacesDeps) {
  const { control, findSigner } = deps;
  const { listSources } = createPlaceRecords(deps);

  return {
    /**
     * Signs the places of the Machines of a source, where no signature is on them and sources say the same now. One
     * that is changed meanwhile is left to the next call. One that the API server refuses keeps no other from it.
     * @throws {ProviderError} FailedPrecondition: what the API server has refused
     */
    async signPlaces(ref: ObjectRef): Promise<void> {
      const { kinds, source } = dialectOf(ref.dialect);
      const { namespace } = ref;
      const options = { signal: asyncLocalStorage.getStore()?.cancellationSignal };
      const signer = await findSigner(namespace);
      const sources = await listSources(ref);
      const { items } = await control.list(kinds.machine, { namespace, ...options });
      const isSignable = signableBy(sources);
      const refused: string[] = [];
      for (const { metadata } of items.filter((each) => source.nameOf(each) === ref.name && isSignable(each))) {
        const { name, resourceVersion, annotations } = metadata;
        const signature = signer.sign({ namespace, name }, names.places, annotations?.[names.places] ?? '');
        const signed = mergePatch({
          metadata: { resourceVersion, annotations: { [names.placesSignature]: signature } },
        });
        try {
          await ignoreGoneOrChanged(() => control.patch(kinds.machine, { namespace, name }, signed, options));
        } catch (error) {
          if (!isRefused(error)) throw error;
          refused.push(`${name}: ${error.message}`);
        }
      }
      const [first] = refused;
      if (first === undefined) return;
      const message = `the API server refuses the signature of ${refused.length} of the Machines, first of ${first}`;
      throw new ProviderError('FailedPrecondition', message);
    },
  };
}
