/** Images of the marketplace may have a plan, whose terms a subscription accepts once. */
import { z } from 'zod';
import type { Session } from '../kit/cloud.ts';
import { ProviderError } from '../provider.ts';
import { type Arm, find, type Plan, read, request } from './client.ts';
import type { AzureProviderSpec, ImageReference } from './schema.ts';
import { readUrn } from './virtual-machine.ts';

/** Plan of an image; undefined where it has none. Accepts its terms, unless the class says that somebody else does. */
export async function findPlan(
  session: Session<Arm>,
  { location }: AzureProviderSpec,
  { urn, skipMarketplaceAgreement }: ImageReference,
): Promise<Plan | undefined> {
  if (urn === undefined) return undefined;
  const { plans } = session.client;
  const known = `${urn} ${location} ${skipMarketplaceAgreement}`;
  if (plans.has(known)) return plans.get(known);
  const plan = await readPlan(session, location, urn);
  if (plan !== undefined && !skipMarketplaceAgreement) await acceptTerms(session, plan);
  plans.set(known, plan);
  return plan;
}

async function readPlan(session: Session<Arm>, location: string, urn: string): Promise<Plan | undefined> {
  const { virtualMachineImages: images } = session.client.compute;
  const { publisher, offer, sku, version: wanted } = readUrn(urn);
  const [newest] =
    wanted === 'latest'
      ? ((await find(session, () => images.list(location, publisher, offer, sku, { top: 1, orderby: 'name desc' }))) ??
        [])
      : [];
  const version = wanted === 'latest' ? newest?.name : wanted;
  const image = version && (await find(session, () => images.get(location, publisher, offer, sku, version)));
  if (!image) {
    const message = `providerSpec.properties.storageProfile.imageReference.urn is "${urn}": give an image that exists in ${location}`;
    throw new ProviderError('InvalidArgument', message);
  }
  const { name, publisher: of, product } = image.plan ?? {};
  return name && of && product ? { name, publisher: of, product } : undefined;
}

const Agreement = z.looseObject({ properties: z.looseObject({ accepted: z.boolean().optional() }) });

/** That it is sent makes no VM and no part of one, so it counts as a read. */
async function acceptTerms(session: Session<Arm>, { name, publisher, product }: Plan): Promise<void> {
  const { endpoint, subscriptionId } = session.client;
  const url =
    `${endpoint}/subscriptions/${subscriptionId}/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine` +
    `/publishers/${publisher}/offers/${product}/plans/${name}/agreements/current?api-version=2021-01-01`;
  const agreement = Agreement.parse(await read(session, () => request(session.client, 'GET', url)));
  if (agreement.properties.accepted) return;
  const accepted = { ...agreement, properties: { ...agreement.properties, accepted: true } };
  await read(session, () => request(session.client, 'PUT', url, accepted));
}
