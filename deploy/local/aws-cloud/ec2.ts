/** The actions of EC2 that moto does not have as EC2 has them. All others are moto's. */
import { isDeepStrictEqual } from 'node:util';
import {
  type DescribedInstance,
  type DescribedInterface,
  type DescribedReservation,
  NetworkInterfaces,
  Reservations,
  Volumes,
} from './described.ts';
import { type Instance, type Instances, stateCodes, stateOf } from './instances.ts';
import { createLaunch } from './launch.ts';
import type { Moto } from './moto.ts';
import { createPages } from './pages.ts';
import type { Ec2Request } from './request.ts';
import { interruption, toSpotRequest } from './spot.ts';
import {
  type Elements,
  type Filter,
  filtersOf,
  type Params,
  Refusal,
  toFilterParams,
  toParams,
  valuesOf,
} from './wire.ts';

interface Ec2Deps {
  readonly moto: Moto;
  readonly instances: Instances;
  /** The most resources in a page of a list. */
  readonly pageSize: number;
  /** Called for each instance that was created. */
  readonly onCreated: (instance: Instance) => void;
}

/** Makes the function that answers a request, or throws a Refusal. */
export function createEc2({ moto, instances, pageSize, onCreated }: Ec2Deps) {
  const launch = createLaunch({ moto, instances, onCreated });
  const pageOfInstances = createPages<DescribedReservation>('InstanceId', pageSize);
  const pageOfVolumes = createPages<Elements>('VolumeId', pageSize);
  const pageOfInterfaces = createPages<Elements>('NetworkInterfaceId', pageSize);
  const runs = new Map<string, { parameters: Params; ids: Promise<string[]> }>();

  const actions: Record<string, (request: Ec2Request) => Promise<Elements>> = {
    RunInstances: runInstances,
    TerminateInstances: terminateInstances,
    DescribeInstances: describeInstances,
    DescribeVolumes: describeVolumes,
    DescribeNetworkInterfaces: describeNetworkInterfaces,
    DeleteNetworkInterface: deleteNetworkInterface,
    DescribeSpotInstanceRequests: describeSpotInstanceRequests,
  };

  /** A token stands for what its first request has made, and is refused when that is terminated. */
  async function runInstances(request: Ec2Request): Promise<Elements> {
    const { ClientToken: token, ...parameters } = request.params;
    const known = token === undefined ? undefined : runs.get(token);
    if (known !== undefined && !isDeepStrictEqual(known.parameters, parameters)) {
      const message =
        'Arguments on this idempotent request are inconsistent with arguments used in previous request(s).';
      throw new Refusal(400, 'IdempotentParameterMismatch', message);
    }
    if (known !== undefined && (await known.ids).some((id) => instances.get(id)?.endedAt !== undefined)) {
      const message = 'The instances of an earlier request with this client token are terminated.';
      throw new Refusal(400, 'IdempotentInstanceTerminated', message);
    }
    if (known !== undefined) {
      const { reservationSet } = await describe({
        params: toParams('InstanceId', await known.ids),
        region: request.region,
        seesAll: true,
      });
      return reservationSet[0] ?? {};
    }
    const launched = launch(request);
    if (token !== undefined) {
      const ids = launched.then(({ instancesSet }) => instancesSet.map(({ instanceId }) => instanceId));
      runs.set(token, { parameters, ids });
      ids.catch(() => runs.delete(token));
    }
    const reservation = await launched;
    return { ...reservation, instancesSet: reservation.instancesSet.map(withTime) };
  }

  async function terminateInstances({ params, region, seesAll }: Ec2Request): Promise<Elements> {
    const ids = valuesOf(params, 'InstanceId');
    const isThere = (id: string) => instances.get(id)?.region === region && (seesAll || isListed(id));
    refuseUnknown(ids.filter((id) => !isThere(id)));
    const ending = ids.flatMap((id) => instances.get(id) ?? []);
    const before = ending.map(toState);
    instances.terminate(ending);
    const instancesSet = ending.map((instance, i) => ({
      instanceId: instance.id,
      currentState: toState(instance),
      previousState: before[i],
    }));
    return { instancesSet };
  }

  async function describeInstances(request: Ec2Request): Promise<Elements> {
    const { items, nextToken } = await pageOfInstances(request.params, async () => {
      const { reservationSet } = await describe(request);
      return reservationSet.flatMap((each) => each.instancesSet.map((one) => ({ ...each, instancesSet: [one] })));
    });
    const reservations = new Map<unknown, DescribedReservation>();
    for (const one of items) {
      const others = reservations.get(one.reservationId)?.instancesSet ?? [];
      reservations.set(one.reservationId, { ...one, instancesSet: [...others, ...one.instancesSet] });
    }
    return { reservationSet: [...reservations.values()], nextToken };
  }

  async function describe({ params, region, seesAll }: Pick<Ec2Request, 'params' | 'region' | 'seesAll'>) {
    const filters = filtersOf(params);
    const asked = {
      ...toParams('InstanceId', valuesOf(params, 'InstanceId')),
      ...toFilterParams(filters.flatMap(toMotoFilter)),
    };
    const { reservationSet } = Reservations.parse(await moto.call('DescribeInstances', asked, { in: region }));
    const existing = keep(reservationSet, ({ instanceId }) => seesAll || isListed(instanceId));
    const found = new Set(existing.flatMap(({ instancesSet }) => instancesSet.map(({ instanceId }) => instanceId)));
    const missing = valuesOf(params, 'InstanceId').filter((id) => !found.has(id));
    if (filters.length === 0) refuseUnknown(missing);
    const described = existing.map((each) => ({ ...each, instancesSet: each.instancesSet.map(withTime) }));
    return { reservationSet: keep(described, (instance) => matches(instance, filters)) };
  }

  /** An instance as moto describes it, with the state that it has by now. */
  function withTime(described: DescribedInstance): DescribedInstance {
    const instance = instances.get(described.instanceId);
    if (instance === undefined) return described;
    const { interruptedAt, spotRequestId } = instance;
    const state = stateOf(instance);
    return {
      ...described,
      ...(state === 'terminated' && nothingLeft),
      // A running instance may also be stopped, which is up to moto.
      ...(state !== 'running' && { instanceState: toState(instance) }),
      ...(spotRequestId !== undefined && { spotInstanceRequestId: spotRequestId }),
      ...(interruptedAt !== undefined && state !== 'running' && { stateReason: interruption }),
    };
  }

  function isListed(id = ''): boolean {
    const instance = instances.get(id);
    return instance === undefined || (Date.now() >= instance.visibleAt && !instances.isForgotten(instance));
  }

  async function describeVolumes({ params, region, seesAll }: Ec2Request): Promise<Elements> {
    const { items, nextToken } = await pageOfVolumes(params, async () => {
      const { volumeSet } = Volumes.parse(await moto.call('DescribeVolumes', withoutPaging(params), { in: region }));
      return volumeSet.filter(
        ({ attachmentSet }) => seesAll || attachmentSet.every(({ instanceId }) => isListed(instanceId)),
      );
    });
    return { volumeSet: items, nextToken };
  }

  async function describeNetworkInterfaces({ params, region, seesAll }: Ec2Request): Promise<Elements> {
    const { items, nextToken } = await pageOfInterfaces(params, async () => {
      const interfaces = await readInterfaces(withoutPaging(params), region);
      const wanted = filtersOf(params).filter(({ name }) => name === 'attachment.instance-id');
      return interfaces.filter((each) => {
        const instance = instanceOf(each);
        if (!seesAll && !isListed(instance)) return false;
        return wanted.every(({ values }) => instance !== undefined && values.includes(instance));
      });
    });
    return { networkInterfaceSet: items, nextToken };
  }

  async function deleteNetworkInterface({ action, params, region }: Ec2Request): Promise<Elements> {
    const id = params['NetworkInterfaceId'] ?? '';
    const [found] = await readInterfaces({ 'NetworkInterfaceId.1': id }, region);
    if (found && instanceOf(found) !== undefined) {
      throw new Refusal(400, 'InvalidParameterValue', `Network interface '${id}' is currently in use.`);
    }
    return moto.call(action, params, { in: region });
  }

  /** moto leaves interfaces that outlive their instance attached to it. */
  async function readInterfaces(params: Params, region: string): Promise<DescribedInterface[]> {
    const answer = await moto.call('DescribeNetworkInterfaces', params, { in: region });
    return NetworkInterfaces.parse(answer).networkInterfaceSet.map((each) => {
      const isFree = instances.get(instanceOf(each) ?? '')?.endedAt !== undefined;
      return isFree ? { ...each, attachment: undefined, status: 'available' } : each;
    });
  }

  async function describeSpotInstanceRequests({ params, seesAll }: Ec2Request): Promise<Elements> {
    const ids = valuesOf(params, 'SpotInstanceRequestId');
    const filters = filtersOf(params);
    const requests = instances
      .all()
      .filter(({ id, spotRequestId }) => spotRequestId !== undefined && (seesAll || isListed(id)))
      .filter(({ spotRequestId }) => ids.length === 0 || ids.includes(spotRequestId ?? ''))
      .filter(({ id }) => filters.every(({ name, values }) => name !== 'instance-id' || values.includes(id)));
    return { spotInstanceRequestSet: requests.map(toSpotRequest) };
  }

  return async function answer(request: Ec2Request): Promise<Elements> {
    const { action, params, region } = request;
    const own = params['DryRun'] === 'true' ? undefined : actions[action];
    return own ? own(request) : moto.call(action, params, { in: region });
  };
}

/** What a terminated instance has lost. */
const nothingLeft = {
  privateDnsName: '',
  privateIpAddress: undefined,
  subnetId: undefined,
  vpcId: undefined,
  networkInterfaceSet: [],
};

function toState(instance: Instance) {
  const name = stateOf(instance);
  return { code: stateCodes[name], name };
}

/** Filters that moto does not have, or that ask for what only we know. */
const ownFilters: Record<string, (instance: DescribedInstance) => string | undefined> = {
  'instance-state-name': ({ instanceState }) => instanceState.name,
  'client-token': ({ clientToken }) => clientToken,
};

/**
 * moto knows of an instance only whether it is terminated; to leave those out makes a list of the others much faster.
 */
function toMotoFilter(filter: Filter): Filter[] {
  const { name, values } = filter;
  if (name !== 'instance-state-name') return Object.hasOwn(ownFilters, name) ? [] : [filter];
  return values.includes('terminated') ? [] : [{ name, values: ['pending', 'running', 'stopping', 'stopped'] }];
}

function refuseUnknown(ids: readonly string[]): void {
  if (ids.length === 0) return;
  throw new Refusal(400, 'InvalidInstanceID.NotFound', `The instance ID '${ids.join(', ')}' does not exist`);
}

function matches(instance: DescribedInstance, filters: readonly Filter[]): boolean {
  return filters.every(({ name, values }) => {
    const read = Object.hasOwn(ownFilters, name) ? ownFilters[name] : undefined;
    return read === undefined || values.includes(read(instance) ?? '');
  });
}

/** The reservations with those instances alone. */
function keep(reservations: readonly DescribedReservation[], isKept: (instance: DescribedInstance) => boolean) {
  return reservations
    .map((each) => ({ ...each, instancesSet: each.instancesSet.filter(isKept) }))
    .filter(({ instancesSet }) => instancesSet.length > 0);
}

function instanceOf({ attachment }: DescribedInterface): string | undefined {
  return attachment ? attachment.instanceId : undefined;
}

function withoutPaging(params: Params): Params {
  const { MaxResults: _, NextToken: __, ...rest } = params;
  return rest;
}
