/** What the provider asks of OpenStack, and what the answers become. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { DeleteVmRequest } from '../../../api/provider.ts';
import { hurried } from '../../../test/support/hurried.ts';
import { inActivity } from '../../../test/support/in-activity.ts';
import {
  openstackCreation,
  openstackScope,
  ownershipTags,
  ownMetadata,
  port,
  server,
  uid,
  volume,
} from '../../../test/support/openstack.ts';
import { type RecordingOpenstack, startRecordingOpenstack } from '../../../test/support/recording-openstack.ts';
import { refusal } from '../../../test/support/refusal.ts';
import { createMask } from '../kit/masks.ts';
import { createProvider } from '../kit/provider.ts';
import type { CallContext, Provider } from '../provider.ts';
import { openstackCloud } from './index.ts';

let cloud: RecordingOpenstack;
let provider: Provider;
let userData: string;

beforeAll(async () => {
  cloud = await startRecordingOpenstack();
});
afterAll(() => cloud?.stop());
beforeEach(() => {
  userData = '#!/bin/sh';
  const keys = { authURL: cloud.authUrl, applicationCredentialID: 'ac', applicationCredentialSecret: 'canary' };
  provider = createProvider(hurried(openstackCloud, 100), {
    readSecret: async ({ name }) => (name === 'cloud' ? keys : { userData }),
  });
});

const call = (overrides: Partial<CallContext> = {}): CallContext => ({
  ...{ attempt: 1, signal: new AbortController().signal, heartbeat: () => {} },
  ...overrides,
});

/** A cloud with nothing in it but what a class names; each list may be replaced. */
const empty = {
  'GET compute/servers/detail': { servers: [] },
  'GET compute/flavors': { flavors: [{ id: 'flavor-1', name: 'small' }] },
  'GET network/ports': { ports: [] },
  'GET volumev3/volumes/detail': { volumes: [] },
  'POST network/ports': { port: port('port-1', { tags: [] }) },
  'POST compute/servers': { server: { id: 'server-1' } },
  'GET compute/servers/server-1': {
    server: server('server-1', { status: 'BUILD', 'OS-EXT-STS:task_state': 'spawning' }),
  },
};
const refused = (status: number, code: string, message: string) => ({
  status,
  body: { [code]: { code: status, message } },
});

const deletion = (changes: Partial<DeleteVmRequest> = {}): DeleteVmRequest => {
  const { providerSpec, credentials, machine, origin } = openstackCreation();
  return { providerSpec, credentials, machine, outcomeUnknown: false, ...(origin && { origin }), ...changes };
};
const whats = () => cloud.requests().map(({ what }) => what);
const sent = (what: string) => cloud.requests(what).map(({ json }) => json);

it('[invariant 8 partly] a refusal that quotes the token hides it, also for a call that did not fetch it', async () => {
  const quote = (header: unknown) => refused(403, 'forbidden', `no role for ${header}`);
  cloud.answer({ ...empty, 'GET compute/servers/detail': ({ headers }) => quote(headers['x-auth-token']) });
  const listing = () =>
    inActivity({}, async () => {
      const { message } = await refusal(provider.listVms(openstackScope(), call()));
      return createMask()(message);
    });

  for (const message of [await listing(), await listing()]) {
    expect(message).toBe('the cloud answered 403: forbidden: compute: no role for (hidden)');
  }
  expect(cloud.logins()).toHaveLength(1);
});

describe('ensureVm', () => {
  it('answers the server with the name and UID of the Machine, and makes none', async () => {
    cloud.answer({ ...empty, 'GET compute/servers/detail': { servers: [server('server-1')] } });

    expect(await provider.ensureVm(openstackCreation(), call())).toEqual({
      state: 'running',
      providerID: 'openstack:///one/server-1',
      nodeName: 'workers-1',
      addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
      tags: ownershipTags,
    });
    expect(cloud.requests().map(({ what, query }) => [what, query])).toEqual([
      ['GET compute/servers/detail', { name: '^workers-1$' }],
    ]);
  });

  it.each([
    ['BUILD', 'creating'],
    ['ACTIVE', 'running'],
    ['REBOOT', 'running'],
    ['SHUTOFF', 'failed'],
    ['PAUSED', 'failed'],
  ])('answers a server that is %s as %s', async (status, expected) => {
    cloud.answer({ ...empty, 'GET compute/servers/detail': { servers: [server('server-1', { status })] } });

    expect(await provider.ensureVm(openstackCreation(), call())).toMatchObject({ state: expected });
  });

  it('asks as often as docs/providers/openstack.md says', async () => {
    cloud.answer(empty);

    expect(await provider.ensureVm(openstackCreation(), call())).toMatchObject({ state: 'creating' });

    expect(whats()).toEqual([
      'GET compute/servers/detail',
      'GET network/ports',
      'GET volumev3/volumes/detail',
      'GET compute/flavors',
      'POST network/ports',
      'PUT network/ports/port-1/tags',
      'POST compute/servers',
      'GET compute/servers/server-1',
    ]);
  });

  it('[mcm 108 partly] makes a port of the Machine first, with all ranges of the pods, and the server with this port alone', async () => {
    cloud.answer({
      ...empty,
      'GET network/security-groups': { security_groups: [{ id: 'sg-1', name: 'nodes' }] },
    });
    const more = { podNetworkCIDRs: ['10.96.0.0/11', 'fd00::/48'], podNetworkCidr: '10.0.0.0/16' };
    const spec = {
      ...more,
      subnetIDs: ['s-1', 's-2'],
      securityGroups: ['nodes'],
      useConfigDrive: true,
      serverGroupID: 'g-1',
    };

    await provider.ensureVm(openstackCreation(spec), call());

    expect(sent('POST network/ports')).toEqual([
      {
        port: {
          name: 'workers-1',
          description: `millwright.dev/machine-uid=${uid}`,
          network_id: 'net-1',
          fixed_ips: [{ subnet_id: 's-1' }, { subnet_id: 's-2' }],
          security_groups: ['sg-1'],
          allowed_address_pairs: ['10.0.0.0/16', '10.96.0.0/11', 'fd00::/48'].map((ip_address) => ({ ip_address })),
        },
      },
    ]);
    expect(sent('PUT network/ports/port-1/tags')).toEqual([{ tags: Object.keys(ownershipTags) }]);
    expect(sent('POST compute/servers')).toEqual([
      {
        server: {
          name: 'workers-1',
          flavorRef: 'flavor-1',
          imageRef: 'image-1',
          key_name: 'key',
          availability_zone: 'a',
          config_drive: true,
          user_data: Buffer.from('#!/bin/sh').toString('base64'),
          metadata: ownMetadata,
          networks: [{ port: 'port-1' }],
        },
        'os:scheduler_hints': { group: 'g-1' },
      },
    ]);
  });

  it('makes a port in each network, and lets pods through only where they are', async () => {
    cloud.answer({ ...empty, 'GET network/networks': { networks: [{ id: 'net-2', name: 'pods' }] } });
    const networks = [{ id: 'net-1' }, { name: 'pods', podNetwork: true }];

    await provider.ensureVm(openstackCreation({ networkID: undefined, networks }), call());

    expect(sent('POST network/ports')).toMatchObject([
      { port: { name: 'workers-1', network_id: 'net-1' } },
      { port: { name: 'workers-1-1', network_id: 'net-2', allowed_address_pairs: [{ ip_address: '10.96.0.0/11' }] } },
    ]);
    expect(sent('POST network/ports')[0]).not.toHaveProperty('port.allowed_address_pairs');
  });

  it('boots from a volume in the zone of the server, or in any where cinder has no such zone', async () => {
    cloud.answer({
      ...empty,
      'POST volumev3/volumes': ({ json }) =>
        JSON.stringify(json).includes('availability_zone')
          ? refused(400, 'badRequest', "Availability zone 'a' is invalid.")
          : { volume: volume('volume-1') },
      'GET volumev3/volumes/volume-1': { volume: volume('volume-1') },
    });

    await provider.ensureVm(openstackCreation({ rootDiskSize: 20, rootDiskType: 'fast' }), call());

    const wanted = { name: 'workers-1', size: 20, imageRef: 'image-1', volume_type: 'fast', metadata: ownMetadata };
    expect(sent('POST volumev3/volumes')).toEqual([
      { volume: { ...wanted, availability_zone: 'a' } },
      { volume: wanted },
    ]);
    expect(sent('POST compute/servers')).toMatchObject([
      {
        server: {
          block_device_mapping_v2: [
            {
              ...{ boot_index: 0, uuid: 'volume-1', source_type: 'volume', destination_type: 'volume' },
              delete_on_termination: true,
            },
          ],
        },
      },
    ]);
    expect(sent('POST compute/servers')[0]).not.toHaveProperty('server.imageRef');
  });

  it('gives up a volume that cinder cannot make', async () => {
    cloud.answer({
      ...empty,
      'POST volumev3/volumes': { volume: volume('volume-1', { status: 'creating' }) },
      'GET volumev3/volumes/volume-1': { volume: volume('volume-1', { status: 'error' }) },
    });

    expect(await refusal(provider.ensureVm(openstackCreation({ rootDiskSize: 20 }), call()))).toMatchObject({
      code: 'ResourceExhausted',
      cloudCode: 'VolumeFailed',
    });
    expect(whats()).toContain('DELETE volumev3/volumes/volume-1');
    expect(whats()).not.toContain('POST compute/servers');
  });

  it('[invariant 1] uses the port and the volume of an earlier attempt again', async () => {
    cloud.answer({
      ...empty,
      'GET network/ports': { ports: [port('port-7')] },
      'GET volumev3/volumes/detail': { volumes: [volume('volume-7')] },
      'GET volumev3/volumes/volume-7': { volume: volume('volume-7') },
    });

    await provider.ensureVm({ ...openstackCreation({ rootDiskSize: 20 }), outcomeUnknown: true }, call());

    expect(sent('POST network/ports')).toEqual([]);
    expect(sent('POST volumev3/volumes')).toEqual([]);
    expect(sent('POST compute/servers')).toMatchObject([{ server: { networks: [{ port: 'port-7' }] } }]);
  });

  it('[invariant 1] answers the server that has the port already', async () => {
    let isListed = false;
    cloud.answer({
      ...empty,
      'GET compute/servers/detail': () => ({ servers: isListed ? [server('server-7')] : [] }),
      'POST compute/servers': () => {
        isListed = true;
        return refused(409, 'conflictingRequest', 'Port port-1 is still in use.');
      },
      'GET network/ports/port-1': { port: port('port-1', { device_id: 'server-7' }) },
      'GET compute/servers/server-7': { server: server('server-7') },
    });

    const answer = await provider.ensureVm(openstackCreation(), call());

    expect(answer).toMatchObject({ providerID: 'openstack:///one/server-7', state: 'running' });
  });

  it('[invariant 1] finds a server that was renamed by its port', async () => {
    cloud.answer({
      ...empty,
      'GET network/ports': { ports: [port('port-1', { device_id: 'server-7' })] },
      'GET compute/servers/server-7': { server: server('server-7', { name: 'renamed' }) },
    });

    expect(await provider.ensureVm(openstackCreation(), call())).toMatchObject({
      providerID: 'openstack:///one/server-7',
    });
    expect(whats().filter((what) => !what.startsWith('GET'))).toEqual([]);
  });

  it('fails where the port is in use by a server that is not the Machine’s', async () => {
    cloud.answer({
      ...empty,
      'POST compute/servers': refused(409, 'conflictingRequest', 'Port port-1 is still in use.'),
      'GET network/ports/port-1': { port: port('port-1', { device_id: 'server-7' }) },
      'GET compute/servers/server-7': { server: server('server-7', { metadata: {} }) },
    });

    expect(await refusal(provider.ensureVm(openstackCreation(), call()))).toMatchObject({
      code: 'Aborted',
      cloudCode: 'PortInUse',
      requestId: 'req-1',
    });
  });

  it('[mcm 108 partly] takes over a server with the name and tags of the Machine that has no UID', async () => {
    const others = [
      server('server-mcm', { metadata: ownershipTags }),
      server('server-foreign', { metadata: { ...ownershipTags, 'kubernetes.io-cluster-prod': '2' } }),
      server('server-other', { metadata: { ...ownMetadata, 'millwright.dev-machine-uid': 'other' } }),
    ];
    cloud.answer({ ...empty, 'GET compute/servers/detail': { servers: others } });

    expect(await provider.ensureVm({ ...openstackCreation(), outcomeUnknown: true }, call())).toMatchObject({
      providerID: 'openstack:///one/server-mcm',
    });
    expect(sent('POST compute/servers')).toEqual([]);
  });

  it('names the field for user data that is too long, and makes nothing', async () => {
    userData = 'x'.repeat(50_000);
    cloud.answer(empty);

    expect(await refusal(provider.ensureVm(openstackCreation(), call()))).toMatchObject({
      code: 'InvalidArgument',
      message: 'userData has 66668 bytes in base64: shorten it to 65535, the most that nova takes',
    });
    expect(whats().filter((what) => !what.startsWith('GET'))).toEqual([]);
  });

  it('remembers the IDs of names for a while, but not after one was wrong', async () => {
    cloud.answer({ ...empty, 'GET image/images': { images: [{ id: 'image-9', name: 'debian' }] } });
    const creation = openstackCreation({ imageID: '', imageName: 'debian' });
    await provider.ensureVm(creation, call());
    await provider.ensureVm(creation, call());
    expect(cloud.requests('GET image/images')).toHaveLength(1);

    cloud.answer({ ...empty, 'POST network/ports': refused(404, 'NetworkNotFound', 'no') });
    await refusal(provider.ensureVm(creation, call()));
    cloud.answer({ ...empty, 'GET image/images': { images: [{ id: 'image-10', name: 'debian' }] } });
    await provider.ensureVm(creation, call());
    expect(sent('POST compute/servers')).toMatchObject([{ server: { imageRef: 'image-10' } }]);
  });

  it.each([
    ['imageName', 'GET image/images', 'images'],
    ['securityGroups', 'GET network/security-groups', 'security_groups'],
  ])('refuses a name in %s that nothing or several have', async (field, what, key) => {
    const spec = {
      imageID: field === 'imageName' ? '' : 'image-1',
      imageName: 'x',
      ...(field === 'securityGroups' && { securityGroups: ['x'] }),
    };
    const message = async (found: object[]) => {
      cloud.answer({ ...empty, [what]: { [key]: found } });
      const { code, message: words } = await refusal(provider.ensureVm(openstackCreation(spec), call()));
      return [code, words];
    };

    const project_id = 'project-1';
    expect(await message([])).toEqual([
      'InvalidArgument',
      `providerSpec.spec.${field} is "x": nothing in one has this name`,
    ]);
    expect(
      await message([
        { id: 'a', project_id },
        { id: 'b', project_id },
      ]),
    ).toEqual(['InvalidArgument', `providerSpec.spec.${field} is "x": a, b have this name, give an ID`]);
    expect(whats().filter((each) => !each.startsWith('GET'))).toEqual([]);
  });
});

describe('a refusal of OpenStack', () => {
  const answers = async (what: string, answer: object) => {
    cloud.answer({ ...empty, [what]: answer });
    return refusal(provider.ensureVm(openstackCreation(), call()));
  };
  it('[mcm 109 partly] says what was asked for where there is none left', async () => {
    const message = "Quota exceeded for resources: ['port'].";
    const body = { NeutronError: { type: 'OverQuota', message, detail: '' } };

    expect(await answers('POST network/ports', { status: 409, body })).toMatchObject({
      code: 'ResourceExhausted',
      message: `the cloud answered 409: QuotaExceeded: network: ${message} (asked for small in a)`,
    });
  });

  it('[mcm 109 partly] is ResourceExhausted for a flavor that is missing', async () => {
    expect(await answers('GET compute/flavors', { flavors: [] })).toMatchObject({
      code: 'ResourceExhausted',
      cloudCode: 'FlavorNotFound',
      message: expect.stringContaining('providerSpec.spec.flavorName is "small": no flavor of one has this name'),
    });
  });

  it('names the field of the class, with its value', async () => {
    const message = 'Network net-1 could not be found.';
    const body = { NeutronError: { type: 'NetworkNotFound', message, detail: '' } };

    expect(await answers('POST network/ports', { status: 404, body })).toMatchObject({
      code: 'InvalidArgument',
      message: `the cloud answered 404: NetworkNotFound: network: ${message} (providerSpec.spec.networkID is "net-1")`,
    });
  });

  it('names region and services where the catalogue lacks one', async () => {
    cloud.answer(empty);
    const { code, message } = await refusal(provider.ensureVm(openstackCreation({ region: 'three' }), call()));

    expect(code).toBe('InvalidArgument');
    expect(message).toContain('no compute in the region three: it is in one, two: correct providerSpec.spec.region');
  });

  it('names the service that cannot be reached', async () => {
    cloud.answer(empty);
    expect(await refusal(provider.ensureVm(openstackCreation({ region: 'two' }), call()))).toMatchObject({
      code: 'Unavailable',
      message: expect.stringMatching(/^compute at http:\/\/two.invalid cannot be reached/),
    });
  });

  it('is Unavailable for throttling, with the pause that nova asks for', async () => {
    const answer = { ...refused(413, 'overLimit', 'This request was rate-limited.'), headers: { 'retry-after': '40' } };
    expect(await answers('GET compute/servers/detail', answer)).toMatchObject({
      code: 'Unavailable',
      retryAfterMs: 40_000,
    });
  });

  describe('after it has accepted the server', () => {
    it('[mcm 109 partly] is ResourceExhausted where no host has room, and all that was made goes', async () => {
      const message = 'No valid host was found. There are not enough hosts available.';
      const left = new Set(['server-1', 'port-1']);
      const gone = (id: string) => () => {
        left.delete(id);
        return { status: 204 };
      };
      const failed = server('server-1', { status: 'ERROR', fault: { code: 500, message } });
      let isMade = false;
      cloud.answer({
        ...empty,
        'GET compute/servers/detail': () => ({ servers: isMade && left.has('server-1') ? [failed] : [] }),
        'GET network/ports': () => ({ ports: isMade && left.has('port-1') ? [port('port-1')] : [] }),
        'POST compute/servers': () => {
          isMade = true;
          return { server: { id: 'server-1' } };
        },
        'GET compute/servers/server-1': { server: failed },
        'DELETE compute/servers/server-1': gone('server-1'),
        'DELETE network/ports/port-1': gone('port-1'),
      });

      expect(await refusal(provider.ensureVm(openstackCreation(), call()))).toMatchObject({
        code: 'ResourceExhausted',
        cloudCode: 'NoValidHost',
        message: `the cloud had accepted the VM and could not make it: NoValidHost: ${message} (asked for small in a)`,
      });
      expect([...left]).toEqual([]);
    });

    it.each([
      ['Binding failed for port port-1, please check neutron logs for more information.', 'PortBindingFailed'],
      ['Build of instance x aborted: driver', 'BuildFailed'],
    ])('answers failed for "%s"', async (message, code) => {
      const failed = server('server-1', { status: 'ERROR', fault: { code: 500, message } });
      cloud.answer({ ...empty, 'GET compute/servers/server-1': { server: failed } });

      expect(await provider.ensureVm(openstackCreation(), call())).toMatchObject({
        state: 'failed',
        message: expect.stringContaining(`${code}: ${message}`),
      });
    });
  });
});

describe('deleteVm', () => {
  it('deletes the server, and then the ports and volumes that stayed', async () => {
    const left = new Set(['server-1', 'port-1', 'volume-1']);
    cloud.answer({
      'GET compute/servers/detail': () => ({ servers: left.has('server-1') ? [server('server-1')] : [] }),
      'GET network/ports': ({ query }) => ({
        ports: query['description'] && left.has('port-1') ? [port('port-1')] : [],
      }),
      'GET volumev3/volumes/detail': ({ query }) => ({
        volumes: query['metadata']?.includes(uid) && left.has('volume-1') ? [volume('volume-1')] : [],
      }),
      ...Object.fromEntries(
        ['compute/servers/server-1', 'network/ports/port-1', 'volumev3/volumes/volume-1'].map((path) => [
          `DELETE ${path}`,
          () => {
            left.delete(path.slice(path.lastIndexOf('/') + 1));
            return { status: 204 };
          },
        ]),
      ),
      'GET compute/servers/server-1': refused(404, 'itemNotFound', 'gone'),
    });

    expect(await provider.deleteVm(deletion({ providerID: 'openstack:///one/server-1' }), call())).toEqual({
      state: 'gone',
      nodeNames: ['workers-1'],
    });
    expect([...left]).toEqual([]);
    expect(whats().filter((what) => what.startsWith('DELETE'))).toEqual([
      'DELETE compute/servers/server-1',
      'DELETE network/ports/port-1',
      'DELETE volumev3/volumes/volume-1',
    ]);
  });

  it.each([
    ['is gone', 'reserved', refused(404, 'itemNotFound', 'gone'), true],
    ['is DELETED', 'reserved', { server: server('server-1', { status: 'DELETED' }) }, true],
    ['is still there', 'reserved', { server: server('server-1') }, false],
    ['is gone, but has it attached', 'attached', refused(404, 'itemNotFound', 'gone'), false],
  ])('deletes a volume that a server has reserved if that server %s', async (_, status, shown, isTaken) => {
    let isReserved = true;
    let isLeft = true;
    cloud.answer({
      ...empty,
      'GET volumev3/volumes/detail': () => ({ volumes: isLeft ? [volume('volume-1')] : [] }),
      'GET volumev3/volumes/volume-1': { volume: volume('volume-1', { status: 'reserved' }) },
      'GET volumev3/attachments': ({ query }) => ({
        attachments: query['volume_id'] === 'volume-1' ? [{ id: 'attachment-1', instance: 'server-1', status }] : [],
      }),
      'GET compute/servers/server-1': shown,
      'DELETE volumev3/attachments/attachment-1': () => {
        isReserved = false;
        return { attachments: [] };
      },
      'DELETE volumev3/volumes/volume-1': () => {
        if (isReserved) return refused(400, 'badRequest', 'Invalid volume: Volume status must be available or error');
        isLeft = false;
        return { status: 202 };
      },
    });

    const answer = provider.deleteVm(deletion(), call());
    if (isTaken) expect(await answer).toMatchObject({ state: 'gone' });
    else await expect(answer).rejects.toMatchObject({ code: 'Aborted', cloudCode: 'VolumeNotReady' });
    expect(isLeft).toBe(!isTaken);
  });

  it('asks as often as docs/providers/openstack.md says', async () => {
    let isDeleted = false;
    cloud.answer({
      ...empty,
      'GET compute/servers/detail': () => ({ servers: isDeleted ? [] : [server('server-1')] }),
      'GET compute/servers/server-1': refused(404, 'itemNotFound', 'gone'),
      'DELETE compute/servers/server-1': () => {
        isDeleted = true;
        return { status: 204 };
      },
    });

    await provider.deleteVm(deletion({ providerID: 'openstack:///one/server-1' }), call());

    expect(whats()).toEqual([
      'GET compute/servers/detail',
      'DELETE compute/servers/server-1',
      'GET compute/servers/detail',
      'GET network/ports',
      'GET volumev3/volumes/detail',
      'GET compute/servers/server-1',
      'GET volumev3/volumes/detail',
      'GET network/ports',
    ]);
  });

  it.each([
    ['does not show it any more', refused(404, 'itemNotFound', 'gone')],
    ['shows it as DELETED', { server: server('server-mcm', { metadata: ownershipTags, status: 'DELETED' }) }],
  ])(
    '[mcm 108 partly] links the port and the volume of a server of machine-controller-manager to it, and finds them when nova %s',
    async (_, shown) => {
      const links = new Set<string>();
      const left = new Set(['server-mcm', 'port-mcm', 'volume-mcm']);
      const gone = (id: string) => () => {
        left.delete(id);
        return { status: 204 };
      };
      const attached = () => (left.has('server-mcm') ? 'server-mcm' : '');
      const ports = () => [
        port('port-mcm', {
          description: '',
          device_id: attached(),
          tags: links.has('port-mcm') ? ['millwright.dev-server=server-mcm'] : [],
        }),
        port('port-nova', { name: '', description: '', device_id: attached() }),
      ];
      const disks = () => [
        volume('volume-mcm', {
          metadata: { ...ownershipTags, ...(links.has('volume-mcm') && { 'millwright.dev-server': 'server-mcm' }) },
          attachments: attached() ? [{ server_id: 'server-mcm' }] : [],
        }),
        volume('volume-of-pod', { name: 'pvc-1', attachments: [{ server_id: 'server-mcm' }] }),
      ];
      cloud.answer({
        ...empty,
        'GET compute/servers/server-mcm': () =>
          left.has('server-mcm') ? { server: server('server-mcm', { metadata: ownershipTags }) } : shown,
        'GET network/ports': ({ query }) => ({
          ports: query['device_id']
            ? ports()
            : query['tags'] === 'millwright.dev-server=server-mcm' && links.has('port-mcm') && left.has('port-mcm')
              ? [ports()[0]]
              : [],
        }),
        'GET volumev3/volumes/detail': ({ query }) => ({
          volumes:
            query['name'] === 'workers-1'
              ? disks().slice(0, 1)
              : query['metadata'] === '{"millwright.dev-server":"server-mcm"}' &&
                  links.has('volume-mcm') &&
                  left.has('volume-mcm')
                ? [disks()[0]]
                : [],
        }),
        'PUT network/ports/port-mcm/tags/millwright.dev-server%3Dserver-mcm': () => {
          links.add('port-mcm');
          return { status: 201 };
        },
        'POST volumev3/volumes/volume-mcm/metadata': ({ json }) => {
          expect(json).toEqual({ metadata: { 'millwright.dev-server': 'server-mcm' } });
          links.add('volume-mcm');
          return {};
        },
        'DELETE compute/servers/server-mcm': gone('server-mcm'),
        'DELETE network/ports/port-mcm': gone('port-mcm'),
        'DELETE volumev3/volumes/volume-mcm': gone('volume-mcm'),
      });

      const request = deletion({ providerID: 'openstack:///one/server-mcm' });
      expect(await provider.deleteVm(request, call())).toMatchObject({ state: 'gone' });
      expect([...left]).toEqual([]);
      expect(whats().filter((what) => what.startsWith('DELETE'))).toHaveLength(3);
    },
  );

  it.each(['BUILD', 'ERROR'])(
    'for the sweep of a server in %s deletes its ports, too, though nova has not attached them',
    async (status) => {
      const left = new Set(['server-1', 'port-1', 'port-2']);
      const gone = (id: string) => () => {
        left.delete(id);
        return { status: 204 };
      };
      const tags = new Set<string>();
      const ports = () => [
        port('port-1', { device_id: '', tags: [...Object.keys(ownershipTags), ...tags] }),
        port('port-2', { device_id: 'server-2' }),
      ];
      cloud.answer({
        ...empty,
        'GET compute/servers/server-1': () =>
          left.has('server-1') ? { server: server('server-1', { status }) } : refused(404, 'itemNotFound', 'gone'),
        'GET network/ports': ({ query }) => {
          const asked = query['description'] ?? query['device_id'] ?? query['tags'];
          return {
            ports: ports().filter(
              (each) =>
                left.has(each.id) && [each.description, each.device_id, ...each.tags].some((of) => of === asked),
            ),
          };
        },
        'PUT network/ports/port-1/tags/millwright.dev-server%3Dserver-1': () => {
          tags.add('millwright.dev-server=server-1');
          return { status: 201 };
        },
        'DELETE compute/servers/server-1': gone('server-1'),
        'DELETE network/ports/port-1': gone('port-1'),
        'DELETE network/ports/port-2': gone('port-2'),
      });

      const only = { kind: 'vm', id: 'openstack:///one/server-1', uid } as const;
      const answers = [];
      for (let i = 0; i < 3; i++) answers.push((await provider.deleteVm(deletion({ only }), call())).state);

      expect(answers).toEqual(['deleting', 'deleting', 'gone']);
      expect([...left]).toEqual(['port-2']);
    },
  );

  it('deletes nothing of others where neutron and cinder ignore what they are asked for', async () => {
    const foreign = { 'millwright.dev-machine-uid': 'other' };
    cloud.answer({
      ...empty,
      'GET compute/servers/server-1': refused(404, 'itemNotFound', 'gone'),
      'GET network/ports': {
        ports: [
          port('port-of-other', { description: 'millwright.dev/machine-uid=other' }),
          port('port-of-user', { description: '', tags: [] }),
        ],
      },
      'GET volumev3/volumes/detail': {
        volumes: [volume('volume-of-pod', { metadata: {} }), volume('volume-of-other', { metadata: foreign })],
      },
    });

    const request = deletion({ providerID: 'openstack:///one/server-1' });
    expect(await provider.deleteVm(request, call())).toMatchObject({ state: 'gone' });
    expect(whats().filter((what) => what.startsWith('DELETE'))).toEqual([]);
  });

  it('[invariant 2] deletes no port of a server that nova cannot show', async () => {
    cloud.answer({
      ...empty,
      'GET network/ports': { ports: [port('port-1', { device_id: 'server-7' })] },
      'GET compute/servers/server-7': refused(500, 'computeFault', 'Cell one is not responding'),
    });

    expect((await refusal(provider.deleteVm(deletion(), call()))).code).toBe('Unavailable');
    expect(whats().filter((what) => what.startsWith('DELETE'))).toEqual([]);
  });

  it('deletes nothing by its name, and answers what has it where another system has begun the creation', async () => {
    cloud.answer({
      ...empty,
      'GET compute/servers/detail': { servers: [server('server-mcm', { metadata: ownershipTags })] },
    });

    expect(await provider.deleteVm(deletion(), call())).toMatchObject({ state: 'gone' });
    expect(await provider.deleteVm(deletion({ mayBeUntagged: true }), call())).toMatchObject({
      untaggedVm: { providerID: 'openstack:///one/server-mcm' },
    });
    expect(whats().filter((what) => what.startsWith('DELETE'))).toEqual([]);
  });

  it.each([
    ['deleting', 'gone'],
    ['in-use', 'Aborted'],
  ])('of a volume that is %s ends with %s', async (status, expected) => {
    let looks = 0;
    cloud.answer({
      ...empty,
      'GET volumev3/volumes/detail': () => ({ volumes: looks++ === 0 ? [volume('volume-1', { status })] : [] }),
      'DELETE volumev3/volumes/volume-1': refused(
        400,
        'badRequest',
        'Invalid volume: Volume status must be available or error',
      ),
      'GET volumev3/volumes/volume-1': { volume: volume('volume-1', { status }) },
    });

    const outcome = await provider.deleteVm(deletion(), call()).then(
      ({ state }) => state,
      ({ code }) => code,
    );
    expect(outcome).toBe(expected);
  });

  it('needs no cinder', async () => {
    cloud.answer(empty, { types: ['compute', 'network', 'image'] });

    expect(await provider.deleteVm(deletion(), call())).toMatchObject({ state: 'gone' });
  });
});

describe('listVms', () => {
  it('[mcm 108 partly] lists servers, ports and volumes with the tags of the class, page by page, and no others', async () => {
    const foreign = { 'kubernetes.io-cluster-prod': '2', 'kubernetes.io-role-node': '1' };
    cloud.answer({
      'GET compute/servers/detail': ({ query }) =>
        query['marker'] === 's'
          ? { servers: [server('server-2', { status: 'SHUTOFF', metadata: ownershipTags })] }
          : {
              servers: [server('server-1'), server('server-x', { metadata: foreign })],
              servers_links: [{ rel: 'next', href: 'http://elsewhere/servers?marker=s' }],
            },
      'GET network/ports': { ports: [port('port-1'), port('port-2', { description: 'by hand' })] },
      'GET volumev3/volumes/detail': { volumes: [volume('volume-1')] },
    });

    const items = [];
    for (let page: string | undefined = ''; page !== undefined; ) {
      const answer = await provider.listVms({ ...openstackScope(), ...(page && { page }) }, call());
      items.push(...answer.items);
      page = answer.nextPage;
    }

    expect(items.map(({ kind, id, uid: of, alive }) => [kind, id, of, alive])).toEqual([
      ['vm', 'openstack:///one/server-1', uid, true],
      ['vm', 'openstack:///one/server-2', undefined, false],
      ['port', 'port-1', uid, undefined],
      ['port', 'port-2', undefined, undefined],
      ['disk', 'volume-1', uid, undefined],
    ]);
    expect(cloud.requests('GET network/ports')[0]?.query['tags']).toBe(
      'kubernetes.io-cluster-prod,kubernetes.io-role-node',
    );
    expect(items.every(({ createdAt }) => !Number.isNaN(Date.parse(createdAt)) && createdAt.endsWith('Z'))).toBe(true);
  });

  it('spells a tag of a port with its value where that is not 1', async () => {
    const tags = { 'kubernetes.io-cluster-prod': 'owned', 'kubernetes.io-role-node': '1' };
    cloud.answer({
      'GET network/ports': {
        ports: [port('port-1', { tags: ['kubernetes.io-cluster-prod=owned', 'kubernetes.io-role-node'] })],
      },
    });

    const { items } = await provider.listVms({ ...openstackScope({ tags }), page: 'port:' }, call());

    expect(items).toMatchObject([{ id: 'port-1', tags }]);
    expect(cloud.requests()[0]?.query['tags']).toBe('kubernetes.io-cluster-prod=owned,kubernetes.io-role-node');
  });
});

describe('updateVm', () => {
  const tags = { ...ownershipTags, team: 'b', note: 'a, b', long: 'x'.repeat(60) };
  const update = (providerID?: string) =>
    provider.updateVm?.(
      {
        ...openstackCreation(),
        ...(providerID && { providerID }),
        tags,
        removedTags: ['old', 'millwright.dev/machine-uid'],
      },
      call(),
    );

  it('sets and removes metadata and tags, and leaves those of others', async () => {
    const metadata = { ...ownMetadata, team: 'a', old: '1', theirs: '1' };
    const tagged = port('port-1', { tags: [...Object.keys(ownershipTags), 'team=a', 'old', 'theirs'] });
    cloud.answer({
      ...empty,
      'GET compute/servers/detail': { servers: [server('server-1', { metadata })] },
      'GET network/ports': { ports: [tagged] },
      'GET network/ports/port-1': { port: tagged },
      'GET volumev3/volumes/detail': { volumes: [volume('volume-1', { metadata })] },
    });

    await update();

    const changed = { metadata: { team: 'b', note: 'a, b', long: 'x'.repeat(60) } };
    expect(cloud.requests().flatMap(({ what, json }) => (what.startsWith('GET') ? [] : [[what, json]]))).toEqual([
      ['POST compute/servers/server-1/metadata', changed],
      ['DELETE compute/servers/server-1/metadata/old', undefined],
      ['PUT network/ports/port-1/tags', { tags: [...Object.keys(ownershipTags), 'theirs', 'team=b'] }],
      ['POST volumev3/volumes/volume-1/metadata', changed],
      ['DELETE volumev3/volumes/volume-1/metadata/old', undefined],
    ]);
  });

  it('asks for nothing where all is so already', async () => {
    const metadata = { ...ownMetadata, ...tags };
    cloud.answer({
      ...empty,
      'GET compute/servers/detail': { servers: [server('server-1', { metadata })] },
      'GET network/ports': { ports: [port('port-1', { tags: [...Object.keys(ownershipTags), 'team=b'] })] },
      'GET volumev3/volumes/detail': { volumes: [volume('volume-1', { metadata })] },
    });

    await update();

    expect(whats()).toEqual(['GET compute/servers/detail', 'GET network/ports', 'GET volumev3/volumes/detail']);
  });
});

describe('volumeIds', () => {
  it('knows volumes of cinder, in the tree and of its CSI driver', async () => {
    const volumes = [
      { name: 'csi', spec: { csi: { driver: 'cinder.csi.openstack.org', volumeHandle: 'vol-1' } } },
      { name: 'in-tree', spec: { cinder: { volumeID: 'vol-2' } } },
      { name: 'manila', spec: { csi: { driver: 'nfs.manila.csi.openstack.org', volumeHandle: 'share-1' } } },
    ];

    expect(await provider.volumeIds({ volumes }, call())).toEqual({ ids: { csi: 'vol-1', 'in-tree': 'vol-2' } });
  });
});
