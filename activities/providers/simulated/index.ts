/** Provider `simulated`: VMs in the simulated cloud of deploy/local/simulated-cloud. */
import { z } from 'zod';
import { names } from '../../../api/names.ts';
import type { Cloud, CloudItem, CloudPart, CloudVm, Session, Tags } from '../kit/cloud.ts';
import { createProvider } from '../kit/provider.ts';
import type { Provider, ProviderDeps } from '../provider.ts';
import { type CloudAccess, createVm, deleteResource, findPart, listPage } from './client.ts';
import { errors, refusalOf } from './errors.ts';
import {
  type CloudResource,
  type CloudPart as ListedPart,
  type CloudVm as ListedVm,
  partKinds,
  SimulatedProviderSpec,
} from './schema.ts';

const { endpoint, tags } = SimulatedProviderSpec.shape;
const CsiVolume = z.object({
  csi: z.object({ driver: z.literal('csi.simulated.millwright.dev'), volumeHandle: z.string() }),
});

/** The cloud as the kit sees it. */
export const simulatedCloud: Cloud<SimulatedProviderSpec, { endpoint: string }, { token: string }, CloudAccess> = {
  scheme: 'simulated',
  settleSeconds: 2,
  deletionPollMs: 100,
  rateLimit: { perSecond: 1_000, burst: 1_000 },
  providerSpec: SimulatedProviderSpec,
  reach: z.object({ endpoint }),
  tags: z.object({ tags }).transform((spec) => spec.tags),
  credentialKeys: ['token'],
  secretKeys: ['token'],
  credentials: z.object({ token: z.string('no Secret has the key token: add it to one') }),
  errors,
  refusalOf,

  endpointOf: (reach) => new URL(reach.endpoint).origin,
  connect: (reach, { token }) => ({ ...reach, token }),

  async list({ client, signal, send }, wanted, page) {
    const { items, nextPage } = await send(() => listPage(client, { tags: wanted, page }, signal));
    return { items: items.map(toItem), nextPage };
  },
  findOwn: (session, { uid }) => listAll(session, { [names.machineUid]: uid }),
  async findByName(session, name, wanted) {
    const items = await listAll(session, wanted);
    return items.filter((item): item is CloudVm => item.kind === 'vm' && item.name === name);
  },
  async findVm({ client, signal, send }, id) {
    const { items } = await send(() => listPage(client, { vm: id }, signal));
    return items.map(toItem);
  },
  async findPart({ client, signal, send }, kind, id) {
    const partKind = partKinds.find((each) => each === kind);
    const part = partKind && (await send(() => findPart(client, { kind: partKind, id }, signal)));
    return part && toPart(part);
  },
  async create({ client, signal, send }, { spec, machine, tags: all, userData, token }) {
    const { region, machineType, image, labels, taints } = spec;
    const node = { labels, taints };
    const body = { token, name: machine.name, region, machineType, image, tags: all, partTags: all, userData, node };
    return toVm(await send(() => createVm(client, body, signal)));
  },
  async delete({ client, signal, send }, item) {
    await send(() => deleteResource(client, item, signal));
  },
  interruptions: {
    mayHit: ({ spot }) => spot,
    async list({ client, signal, send }, wanted, page) {
      const { items, nextPage } = await send(() => listPage(client, { tags: wanted, interrupted: true, page }, signal));
      const vms = items.map(toItem).filter((item) => item.kind === 'vm');
      const interruptions = vms.map(({ providerID }) => ({ providerID, reason: 'interrupted' }));
      return { items: interruptions, ...(nextPage !== undefined && { nextPage }) };
    },
  },
  volumeId: (spec) => CsiVolume.safeParse(spec).data?.csi.volumeHandle,
};

/** Makes the provider. Credentials: the key `token` of a Secret. */
export function createSimulatedProvider(deps: ProviderDeps): Provider {
  return createProvider(simulatedCloud, deps);
}

async function listAll({ client, signal, send }: Session<CloudAccess>, tags: Tags): Promise<CloudItem[]> {
  const items: CloudItem[] = [];
  let page: string | undefined;
  do {
    const query = { tags, page };
    const answer = await send(() => listPage(client, query, signal));
    items.push(...answer.items.map(toItem));
    page = answer.nextPage;
  } while (page !== undefined);
  return items;
}

function toItem(resource: CloudResource): CloudItem {
  return resource.kind === 'vm' ? toVm(resource) : toPart(resource);
}

function toPart({ vm, ...part }: ListedPart): CloudPart {
  return { ...part, ...(vm !== undefined && { attachedTo: vm }) };
}

function toVm({ state, region, ...vm }: ListedVm): CloudVm {
  return {
    ...vm,
    state: state === 'terminated' ? 'gone' : state,
    providerID: `simulated:///${region}/${vm.id}`,
    nodeName: vm.name,
    lastKnownState: vm.id,
  };
}
