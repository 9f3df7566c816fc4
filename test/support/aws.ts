/** Requests of the contract for the provider AWS, and answers of EC2. */
import type { EnsureVmRequest } from '../../api/provider.ts';

export const ownershipTags = { 'kubernetes.io/cluster/prod': '1', 'kubernetes.io/role/node': '1' };
export const uid = '0a1b2c3d-0000-4000-8000-000000000001';

export const networkInterface = { subnetID: 'subnet-1', securityGroupIDs: ['sg-1'] };

/** What all requests have: a class whose Secret is garden/cloud. */
export function awsScope(endpoint: string, spec: object = {}) {
  return {
    origin: { kind: 'MachineClass', namespace: 'garden', name: 'pool', generation: 1 },
    providerSpec: {
      region: 'eu-west-1',
      endpoint,
      ami: 'ami-1',
      machineType: 'm5.large',
      iam: { name: 'nodes' },
      blockDevices: [{ ebs: { volumeSize: 20 } }],
      networkInterfaces: [networkInterface],
      tags: ownershipTags,
      ...spec,
    },
    credentials: [{ namespace: 'garden', name: 'cloud' }],
  };
}

/** Request for the VM of the Machine workers-1, with the user data in garden/node. */
export function awsCreation(endpoint: string, spec: object = {}): EnsureVmRequest {
  return {
    ...awsScope(endpoint, spec),
    machine: { uid, namespace: 'garden', name: 'workers-1' },
    userData: { namespace: 'garden', name: 'node', key: 'userData' },
    token: `${uid}-0`,
    outcomeUnknown: false,
  };
}

/** Answer to DescribeImages. */
export const image =
  '<imagesSet><item><imageId>ami-1</imageId><rootDeviceName>/dev/xvda</rootDeviceName></item></imagesSet>';

/** An instance as RunInstances and DescribeInstances show it. `more`: further XML. */
export function instance(
  id: string,
  { state = 'running', tags = {}, more = '', launchTime = '2026-01-01T00:00:00Z' } = {},
): string {
  return (
    `<item><instanceId>${id}</instanceId><instanceState><name>${state}</name></instanceState>` +
    `<privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><privateIpAddress>10.0.0.1</privateIpAddress>` +
    `<launchTime>${launchTime}</launchTime>${tagSet(tags)}${more}</item>`
  );
}

/** Answer to RunInstances. */
export function launched(...items: string[]): string {
  return `<instancesSet>${items.join('')}</instancesSet>`;
}

/** Answer to DescribeInstances. */
export function reservations(...items: string[]): string {
  return `<reservationSet><item><instancesSet>${items.join('')}</instancesSet></item></reservationSet>`;
}

export function tagSet(tags: Readonly<Record<string, string>>): string {
  const items = Object.entries(tags).map(([key, value]) => `<item><key>${key}</key><value>${value}</value></item>`);
  return `<tagSet>${items.join('')}</tagSet>`;
}
