import type { Instance } from './instances.ts';
import type { Elements } from './wire.ts';

/** Why an interrupted instance ends. */
export const interruption = {
  code: 'Server.SpotInstanceTermination',
  message: 'Server.SpotInstanceTermination: Spot instance termination',
};

/** The request that a spot instance was made for. */
export function toSpotRequest(instance: Instance): Elements {
  const { id, machineType, spotRequestId, createdAt, interruptedAt, deletedAt, endedAt, zone } = instance;
  const code = statusOf(instance);
  return {
    spotInstanceRequestId: spotRequestId,
    state: deletedAt === undefined ? 'active' : 'closed',
    status: { code, updateTime: new Date(endedAt ?? interruptedAt ?? createdAt).toISOString(), message: code },
    type: 'one-time',
    instanceId: id,
    launchSpecification: { instanceType: machineType },
    launchedAvailabilityZone: zone,
    createTime: new Date(createdAt).toISOString(),
  };
}

function statusOf({ endedAt, interruptedAt }: Instance): string {
  if (interruptedAt === undefined) return endedAt === undefined ? 'fulfilled' : 'instance-terminated-by-user';
  return endedAt === undefined ? 'marked-for-termination' : 'instance-terminated-no-capacity';
}
