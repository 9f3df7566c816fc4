/** Makes a server, and before it its ports and its root volume, so that a repeated request finds them in use. */
import { setTimeout as sleep } from 'node:timers/promises';
import { names } from '../../../api/names.ts';
import { temporalNowMs } from '../../boundary.ts';
import type { CloudVm, Session, VmOrder } from '../kit/cloud.ts';
import { ProviderError } from '../provider.ts';
import type { NewPort, NewServer, NewVolume, Volume } from './client/index.ts';
import { all, type Connection, call, find, read } from './connection.ts';
import { culpritOf } from './errors.ts';
import { toDescription, toPort, toPortTags, toVm } from './items.ts';
import { findIds, forgetIds, type Ids } from './lookups.ts';
import { toPorts, toServer, toUserData, toVolume } from './requests.ts';
import type { OpenstackProviderSpec } from './schema.ts';

type Order = VmOrder<OpenstackProviderSpec>;

/** How long a call waits until nova has found a host, or none, for a server that it has accepted, ms. */
const verdictMs = 20_000;
/** How long a call waits until cinder has copied the image to the volume, ms. After that another call goes on. */
const volumeMs = 200_000;
const firstPollMs = 500;
const longestPollMs = 4_000;

/** `create` of the cloud. */
export async function createServer(session: Session<Connection>, order: Order): Promise<CloudVm> {
  toUserData(order);
  try {
    const ids = await findIds(session, order.spec);
    return await createWith(session, order, ids);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    const { code, message, cloudCode, requestId, retryAfterMs } = error;
    const details = { cloudCode, requestId, retryAfterMs, cause: error };
    // What does not exist here is what the class names.
    const isOfClass = code === 'NotFound' || code === 'InvalidArgument';
    if (isOfClass || code === 'ResourceExhausted') forgetIds(session);
    if (!isOfClass) throw error;
    throw new ProviderError('InvalidArgument', `${message}${culpritOf(message, order.spec)}`, details);
  }
}

async function createWith(session: Session<Connection>, order: Order, ids: Ids): Promise<CloudVm> {
  const ports = await ensurePorts(session, order, ids);
  const wanted = toVolume(order, ids);
  const volume = wanted && (await ensureVolume(session, order, wanted));
  const server = toServer(order, ids, { ports, volume });
  try {
    const { serverGroupID } = order.spec;
    const { id } = await call(session, ({ compute }, signal) => compute.createServer(server, serverGroupID, signal));
    return await untilHosted(session, id, server);
  } catch (error) {
    const isInUse = error instanceof ProviderError && error.cloudCode === 'PortInUse';
    const holder = isInUse ? await findHolder(session, order, ports) : undefined;
    if (holder !== undefined) return holder;
    throw error;
  }
}

/** IDs of the ports. Those of an earlier attempt are used again, so that one of both servers gets none. */
async function ensurePorts(session: Session<Connection>, { parts, machine, tags, ...order }: Order, ids: Ids) {
  const query = { description: toDescription(machine.uid) };
  const isThere = parts.some(({ kind }) => kind === 'port');
  const there = isThere ? await all(session, query, ({ network }, next, signal) => network.ports(next, signal)) : [];
  const ports: string[] = [];
  for (const wanted of toPorts({ ...order, machine }, ids)) {
    const known = there.find(
      ({ name, network_id, description }) =>
        name === wanted.name && network_id === wanted.network_id && description === wanted.description,
    );
    const port = known ?? (await createPort(session, wanted));
    const wantedTags = toPortTags(tags);
    if (wantedTags.some((tag) => !port.tags?.includes(tag))) {
      await call(session, ({ network }, signal) => network.setTags(port.id, wantedTags, signal));
    }
    ports.push(port.id);
  }
  return ports;
}

function createPort(session: Session<Connection>, port: NewPort) {
  return call(session, ({ network }, signal) => network.createPort(port, signal));
}

/** ID of the root volume, once a server can boot from it. */
async function ensureVolume(session: Session<Connection>, { parts }: Order, wanted: NewVolume): Promise<string> {
  const known = parts.find(({ kind, name }) => kind === 'disk' && name === wanted.name);
  const id = known?.id ?? (await createVolume(session, wanted)).id;
  const untilMs = performance.now() + volumeMs;
  for (let pauseMs = firstPollMs; ; pauseMs = Math.min(longestPollMs, pauseMs * 1.5)) {
    const { status } = await read(session, ({ volume }, signal) => volume.volume(id, signal));
    if (status === 'available') return id;
    if (status.startsWith('error')) throw await failedVolume(session, id, status);
    if (status !== 'creating' && status !== 'downloading') {
      throw new ProviderError('Aborted', `the volume ${id} is ${status}`, { cloudCode: status });
    }
    if (performance.now() > untilMs) {
      throw new ProviderError('Unavailable', `cinder has not yet made the volume ${id}: it is ${status}`);
    }
    await sleep(pauseMs, undefined, { signal: session.signal });
  }
}

/** In the zone of the server. Where cinder does not know that, in its own, as nova does. */
async function createVolume(session: Session<Connection>, wanted: NewVolume): Promise<Volume> {
  try {
    return await call(session, ({ volume }, signal) => volume.createVolume(wanted, signal));
  } catch (error) {
    if (!(error instanceof ProviderError) || !/availability zone/i.test(error.message)) throw error;
    const { availability_zone: _, ...anywhere } = wanted;
    return call(session, ({ volume }, signal) => volume.createVolume(anywhere, signal));
  }
}

/** It never becomes usable, so it is deleted: the next attempt must not find it. */
async function failedVolume(session: Session<Connection>, id: string, status: string): Promise<ProviderError> {
  await call(session, ({ volume }, signal) => volume.deleteVolume(id, signal));
  const message = `cinder could not make the volume ${id} (status ${status}): most often no backend has room for it`;
  return new ProviderError('ResourceExhausted', message, { cloudCode: 'VolumeFailed' });
}

/** The server once a host makes it or none can, or after a while as it is then. */
async function untilHosted(session: Session<Connection>, id: string, { name, metadata }: NewServer): Promise<CloudVm> {
  const untilMs = performance.now() + verdictMs;
  const { region } = session.client;
  for (let pauseMs = firstPollMs; ; pauseMs = Math.min(longestPollMs, pauseMs * 1.5)) {
    await sleep(pauseMs, undefined, { signal: session.signal });
    const server = await find(session, ({ compute }, signal) => compute.server(id, signal));
    if (server === undefined) {
      return toVm({ id, name, metadata, created: new Date(temporalNowMs()).toISOString(), status: 'DELETED' }, region);
    }
    const isHosted = server['OS-EXT-STS:task_state'] === 'spawning';
    if (server.status !== 'BUILD' || isHosted || performance.now() > untilMs) return toVm(server, region);
  }
}

/** The server of an earlier request, where it has our ports. */
async function findHolder(session: Session<Connection>, { machine }: Order, ports: readonly string[]) {
  for (const id of ports) {
    const port = await find(session, ({ network }, signal) => network.port(id, signal));
    const holder = port && toPort(port).attachedTo;
    const server = holder && (await find(session, ({ compute }, signal) => compute.server(holder, signal)));
    const vm = server ? toVm(server, session.client.region) : undefined;
    if (vm?.tags[names.machineUid] === machine.uid && vm.state !== 'deleting') return vm;
  }
  return undefined;
}
