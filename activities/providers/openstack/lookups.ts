/** IDs of the names in a class. Each is remembered for a short while, as many machines of a class are made at once. */
import type { Session } from '../kit/cloud.ts';
import { ProviderError } from '../provider.ts';
import { all, type Connection } from './connection.ts';
import type { OpenstackProviderSpec } from './schema.ts';

/** Names may be moved to other resources, as that of an image, ms. */
const rememberMs = 60_000;
const uuid = /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;

/** What a class names, by ID. */
export interface Ids {
  readonly flavor: string;
  readonly image: string;
  /** In the order of the interfaces. */
  readonly networks: readonly { readonly id: string; readonly isOfPods: boolean }[];
  readonly securityGroups: readonly string[];
}

/** Looks up what a class names. Throws ProviderError for a name that nothing or several have. */
export async function findIds(session: Session<Connection>, spec: OpenstackProviderSpec): Promise<Ids> {
  const { imageID, imageName = '', networkID, networks = [], securityGroups = [] } = spec;
  const [flavor, image, nets, groups] = await Promise.all([
    flavorId(session, spec.flavorName),
    imageID ?? remembered(session, `image ${imageName}`, () => imageId(session, imageName)),
    networkID !== undefined
      ? [{ id: networkID, isOfPods: true }]
      : Promise.all(
          networks.map(async ({ id, name = '', podNetwork }) => ({
            id: id ?? (await remembered(session, `network ${name}`, () => networkId(session, name))),
            isOfPods: podNetwork,
          })),
        ),
    Promise.all(
      securityGroups.map((name) => remembered(session, `group ${name}`, () => securityGroupId(session, name))),
    ),
  ]);
  return { flavor, image, networks: nets, securityGroups: groups };
}

/** The next request asks OpenStack again: a class may name what is not there any more. */
export function forgetIds({ client: { ids } }: Session<Connection>): void {
  ids.clear();
}

function remembered(session: Session<Connection>, key: string, look: () => Promise<string>): Promise<string> {
  const { ids } = session.client;
  const known = ids.get(key);
  if (known !== undefined && performance.now() < known.untilMs) return known.id;
  const id = look();
  ids.set(key, { id, untilMs: performance.now() + rememberMs });
  id.catch(() => ids.delete(key));
  return id;
}

/**
 * A missing flavor is lack of capacity, so that the autoscaler tries another pool, as with machine-controller-manager.
 */
function flavorId(session: Session<Connection>, name: string): Promise<string> {
  return remembered(session, `flavor ${name}`, async () => {
    const flavors = await all(session, {}, (openstack, query, signal) => openstack.compute.flavors(query, signal));
    const found = flavors.filter((each) => each.name === name);
    if (found.length > 1) throw severalHave('flavorName', name, found);
    const [flavor] = found;
    if (flavor !== undefined) return flavor.id;
    const message = `providerSpec.spec.flavorName is "${name}": no flavor of ${session.client.region} has this name`;
    throw new ProviderError('ResourceExhausted', message, { cloudCode: 'FlavorNotFound' });
  });
}

async function imageId(session: Session<Connection>, name: string): Promise<string> {
  const found = await all(session, { name }, (openstack, query, signal) => openstack.image.images(query, signal));
  return onlyOne(session, 'imageName', name, found);
}

async function networkId(session: Session<Connection>, name: string): Promise<string> {
  const query = { name, fields: ['id', 'name'] };
  const found = await all(session, query, (openstack, next, signal) => openstack.network.networks(next, signal));
  return onlyOne(session, 'networks', name, found);
}

/** A group of the project wins over one that others share with it. */
async function securityGroupId(session: Session<Connection>, name: string): Promise<string> {
  if (uuid.test(name)) return name;
  const query = { name, fields: ['id', 'name', 'project_id'] };
  const found = await all(session, query, (openstack, next, signal) => openstack.network.securityGroups(next, signal));
  if (found.length <= 1) return onlyOne(session, 'securityGroups', name, found);
  const projectId = await session.client.openstack.projectId(session.signal);
  return onlyOne(
    session,
    'securityGroups',
    name,
    found.filter((each) => each.project_id === projectId),
  );
}

function onlyOne(
  { client: { region } }: Session<Connection>,
  field: string,
  name: string,
  found: readonly { readonly id: string }[],
): string {
  const [first] = found;
  if (found.length > 1) throw severalHave(field, name, found);
  if (first !== undefined) return first.id;
  throw new ProviderError(
    'InvalidArgument',
    `providerSpec.spec.${field} is "${name}": nothing in ${region} has this name`,
  );
}

function severalHave(field: string, name: string, found: readonly { readonly id: string }[]): ProviderError {
  const ids = found.map(({ id }) => id).join(', ');
  return new ProviderError(
    'InvalidArgument',
    `providerSpec.spec.${field} is "${name}": ${ids} have this name, give an ID`,
  );
}
