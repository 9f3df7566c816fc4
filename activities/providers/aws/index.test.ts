/** What the provider asks of EC2, and what the answers become. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { DeleteVmRequest } from '../../../api/provider.ts';
import {
  awsCreation,
  awsScope,
  image,
  instance,
  launched,
  networkInterface,
  ownershipTags,
  reservations,
  tagSet,
  uid,
} from '../../../test/support/aws.ts';
import { hurried } from '../../../test/support/hurried.ts';
import { inActivity } from '../../../test/support/in-activity.ts';
import { type RecordingEc2, startRecordingEc2 } from '../../../test/support/recording-ec2.ts';
import { refusal } from '../../../test/support/refusal.ts';
import { createMask } from '../kit/masks.ts';
import { createProvider } from '../kit/provider.ts';
import type { CallContext, Provider, ProviderDeps } from '../provider.ts';
import { awsCloud } from './index.ts';

const own = { ...ownershipTags, Name: 'workers-1', 'millwright.dev/machine-uid': uid };
const { 'millwright.dev/machine-uid': _, ...ofMcm } = own;

let ec2: RecordingEc2;
let provider: Provider;
let secrets: Record<string, Record<string, string>>;

beforeAll(async () => {
  ec2 = await startRecordingEc2();
});
afterAll(() => ec2?.stop());
beforeEach(() => {
  secrets = { cloud: { accessKeyID: 'AKIDONE', secretAccessKey: 'secret-1' }, node: { userData: '#!/bin/sh' } };
  provider = makeProvider();
});

function makeProvider(deps: Partial<ProviderDeps> = {}): Provider {
  return createProvider(hurried(awsCloud, 100), { readSecret: async ({ name }) => secrets[name], ...deps });
}

function call(overrides: Partial<CallContext> = {}): CallContext {
  return { attempt: 1, signal: new AbortController().signal, heartbeat: () => {}, ...overrides };
}

const creation = (spec: object = {}) => awsCreation(ec2.url, spec);

function deletion(changes: Partial<DeleteVmRequest> = {}): DeleteVmRequest {
  const { providerSpec, credentials, machine } = creation();
  return { providerSpec, credentials, machine, outcomeUnknown: false, origin: creation().origin, ...changes };
}

/** Filters of a request: names with values. */
function filtersOf(params: Readonly<Record<string, string>>): Record<string, string | undefined> {
  const names = Object.entries(params).filter(([name]) => /^Filter\.\d+\.Name$/.test(name));
  return Object.fromEntries(names.map(([name, filter]) => [filter, params[name.replace('Name', 'Value.1')]]));
}

describe('ensureVm', () => {
  it('answers the instance that has the UID tag, and makes none', async () => {
    ec2.answer({ DescribeInstances: reservations(instance('i-1', { tags: own })) });

    expect(await provider.ensureVm(creation(), call())).toEqual({
      state: 'running',
      providerID: 'aws:///eu-west-1/i-1',
      nodeName: 'ip-10-0-0-1.ec2.internal',
      addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
      tags: ownershipTags,
    });
    expect(ec2.requests().map(({ action }) => action)).toEqual(['DescribeInstances']);
    expect(filtersOf(ec2.requests()[0]?.params ?? {})).toEqual({ 'tag:millwright.dev/machine-uid': uid });
  });

  it.each([
    ['pending', 'creating'],
    ['running', 'running'],
    ['stopping', 'failed'],
    ['stopped', 'failed'],
  ])('answers an instance that is %s as %s', async (state, expected) => {
    ec2.answer({ DescribeInstances: reservations(instance('i-1', { state, tags: own })) });

    expect(await provider.ensureVm(creation(), call())).toMatchObject({ state: expected });
  });

  it('makes another instance where the one with the UID tag is terminated', async () => {
    ec2.answer({
      DescribeInstances: reservations(instance('i-1', { state: 'terminated', tags: own })),
      DescribeImages: image,
      RunInstances: launched(instance('i-2', { state: 'pending' })),
    });

    expect(await provider.ensureVm(creation(), call())).toMatchObject({ providerID: 'aws:///eu-west-1/i-2' });
  });

  it('asks as often as docs/providers/aws.md says', async () => {
    ec2.answer({ DescribeImages: image, RunInstances: launched(instance('i-1')) });

    await provider.ensureVm(creation(), call());

    expect(ec2.requests().map(({ action }) => action)).toEqual([
      'DescribeInstances',
      'DescribeVolumes',
      'DescribeNetworkInterfaces',
      'DescribeImages',
      'RunInstances',
    ]);
  });

  it('takes over an instance with the name and tags of the Machine that has no UID tag', async () => {
    ec2.answer({
      DescribeInstances: (params) =>
        filtersOf(params)['tag:Name'] === undefined ? '' : reservations(instance('i-mcm', { tags: ofMcm })),
    });

    expect(await provider.ensureVm({ ...creation(), outcomeUnknown: true }, call())).toMatchObject({
      providerID: 'aws:///eu-west-1/i-mcm',
    });
    expect(ec2.requests('RunInstances')).toEqual([]);
    expect(filtersOf(ec2.requests('DescribeInstances').at(-1)?.params ?? {})).toEqual({
      'tag:kubernetes.io/cluster/prod': '1',
      'tag:kubernetes.io/role/node': '1',
      'tag:Name': 'workers-1',
    });
  });

  it('takes over none where several have the name and tags of the Machine', async () => {
    const [one, other] = ['i-1', 'i-2'].map((id) => instance(id, { tags: ofMcm }));
    ec2.answer({
      DescribeInstances: (params) =>
        filtersOf(params)['tag:Name'] === undefined ? '' : reservations(one ?? '', other ?? ''),
    });

    expect(await refusal(provider.ensureVm({ ...creation(), outcomeUnknown: true }, call()))).toMatchObject({
      code: 'OutOfRange',
    });
    expect(ec2.requests('TerminateInstances')).toEqual([]);
    expect(ec2.requests('RunInstances')).toEqual([]);
  });

  it('answers failed for the instance of its token that is terminated', async () => {
    ec2.answer({
      DescribeInstances: reservations(instance('i-1', { state: 'terminated', tags: own })),
      DescribeImages: image,
      RunInstances: { code: 'IdempotentInstanceTerminated' },
    });

    expect(await provider.ensureVm(creation(), call())).toMatchObject({
      state: 'failed',
      providerID: 'aws:///eu-west-1/i-1',
    });
  });

  it('leaves alone an instance of the same name that has the UID tag of another Machine', async () => {
    const others = { ...own, 'millwright.dev/machine-uid': 'other' };
    ec2.answer({
      DescribeInstances: (params) =>
        filtersOf(params)['tag:Name'] === undefined ? '' : reservations(instance('i-other', { tags: others })),
      DescribeImages: image,
      RunInstances: launched(instance('i-new')),
    });

    expect(await provider.ensureVm(creation(), call())).toMatchObject({ providerID: 'aws:///eu-west-1/i-new' });
    expect(ec2.requests('TerminateInstances')).toEqual([]);
  });

  it('reads all pages', async () => {
    ec2.answer({
      DescribeInstances: ({ NextToken }) =>
        NextToken === 'two'
          ? reservations(instance('i-1', { tags: own }))
          : '<reservationSet/><nextToken>two</nextToken>',
    });

    expect(await provider.ensureVm(creation(), call())).toMatchObject({ providerID: 'aws:///eu-west-1/i-1' });
  });
});

describe('set-up after creation', () => {
  const spec = {
    srcAndDstChecksEnabled: false,
    networkInterfaces: [{ ...networkInterface, ipv6PrefixCount: 2 }, networkInterface],
  };

  function nic(id: string, index: number, more = ''): string {
    return `<item><networkInterfaceId>${id}</networkInterfaceId><interfaceType>interface</interfaceType>
      <sourceDestCheck>true</sourceDestCheck>
      <attachment><deviceIndex>${index}</deviceIndex><networkCardIndex>0</networkCardIndex></attachment>${more}</item>`;
  }
  const nics = (...items: string[]) => `<networkInterfaceSet>${items.join('')}</networkInterfaceSet>`;
  const vm = reservations(instance('i-1', { tags: own }));

  it('[mcm 105 partly] switches the check off and assigns the prefixes that are missing', async () => {
    const prefix = '<ipv6PrefixSet><item><ipv6Prefix>a::/80</ipv6Prefix></item></ipv6PrefixSet>';
    ec2.answer({ DescribeInstances: vm, DescribeNetworkInterfaces: nics(nic('eni-0', 0, prefix), nic('eni-1', 1)) });

    expect(await provider.ensureVm(creation(spec), call())).toMatchObject({ state: 'running' });

    expect(ec2.requests('ModifyNetworkInterfaceAttribute').map(({ params }) => params)).toMatchObject([
      { NetworkInterfaceId: 'eni-0', 'SourceDestCheck.Value': 'false' },
      { NetworkInterfaceId: 'eni-1', 'SourceDestCheck.Value': 'false' },
    ]);
    expect(ec2.requests('AssignIpv6Addresses').map(({ params }) => params)).toMatchObject([
      { NetworkInterfaceId: 'eni-0', Ipv6PrefixCount: '1' },
    ]);
  });

  it('leaves the check of EFA interfaces as it is', async () => {
    const efa = nic('eni-0', 0).replace('>interface<', '>efa<');
    ec2.answer({ DescribeInstances: vm, DescribeNetworkInterfaces: nics(efa) });

    await provider.ensureVm(creation({ srcAndDstChecksEnabled: false }), call());

    expect(ec2.requests('ModifyNetworkInterfaceAttribute')).toEqual([]);
  });

  it('changes nothing where all is set', async () => {
    const done = nic('eni-0', 0).replace('>true<', '>false<');
    ec2.answer({ DescribeInstances: vm, DescribeNetworkInterfaces: nics(done) });

    expect(await provider.ensureVm(creation({ srcAndDstChecksEnabled: false }), call())).toMatchObject({
      state: 'running',
    });
    expect(ec2.requests('ModifyNetworkInterfaceAttribute')).toEqual([]);
  });

  it('asks for no interfaces where the class needs no set-up', async () => {
    ec2.answer({ DescribeInstances: vm });

    await provider.ensureVm(creation(), call());

    expect(ec2.requests('DescribeNetworkInterfaces')).toEqual([]);
  });

  it('[mcm 105 partly] answers uninitialized with the reason while a request is refused', async () => {
    ec2.answer({
      DescribeInstances: vm,
      DescribeNetworkInterfaces: nics(nic('eni-0', 0)),
      ModifyNetworkInterfaceAttribute: { code: 'InternalError', status: 500 },
    });

    expect(await provider.ensureVm(creation({ srcAndDstChecksEnabled: false }), call())).toMatchObject({
      state: 'uninitialized',
      message: expect.stringContaining('InternalError'),
    });
  });

  it('answers uninitialized while an interface is not there yet, with the reason only of an instance that is not new', async () => {
    ec2.answer({ DescribeInstances: vm, DescribeNetworkInterfaces: nics(nic('eni-0', 0)) });

    const message = 'EC2 shows 1 of 2 network interfaces';
    expect(await provider.ensureVm(creation(spec), call())).toMatchObject({ state: 'uninitialized', message });

    const launchTime = new Date(Date.now() + 60_000).toISOString(); // new, however long the test takes
    const launched = reservations(instance('i-1', { tags: own, launchTime }));
    ec2.answer({ DescribeInstances: launched, DescribeNetworkInterfaces: nics(nic('eni-0', 0)) });
    const answer = await provider.ensureVm(creation(spec), call());
    expect(answer.state).toBe('uninitialized');
    expect(answer).not.toHaveProperty('message');
  });
});

describe('deleteVm', () => {
  it('terminates the instance, and then deletes the volumes and interfaces that stayed', async () => {
    let isTerminated = false;
    const volume = `<volumeSet><item><volumeId>vol-1</volumeId>${tagSet(own)}</item></volumeSet>`;
    const eni = `<networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId>${tagSet(own)}</item></networkInterfaceSet>`;
    const deleted = new Set<string>();
    ec2.answer({
      DescribeInstances: () =>
        reservations(instance('i-1', { state: isTerminated ? 'terminated' : 'running', tags: own })),
      DescribeVolumes: () => (deleted.has('vol-1') ? '' : volume),
      DescribeNetworkInterfaces: () => (deleted.has('eni-1') ? '' : eni),
      TerminateInstances: () => {
        isTerminated = true;
        return '';
      },
      DeleteVolume: ({ VolumeId = '' }) => {
        deleted.add(VolumeId);
        return '';
      },
      DeleteNetworkInterface: ({ NetworkInterfaceId = '' }) => {
        deleted.add(NetworkInterfaceId);
        return '';
      },
    });

    expect(await provider.deleteVm(deletion(), call())).toEqual({
      state: 'gone',
      nodeNames: ['ip-10-0-0-1.ec2.internal'],
    });
    expect(ec2.requests('TerminateInstances').map(({ params }) => params['InstanceId.1'])).toEqual(['i-1']);
    expect(deleted).toEqual(new Set(['vol-1', 'eni-1']));
  });

  it('asks as often as docs/providers/aws.md says', async () => {
    let isTerminated = false;
    ec2.answer({
      DescribeInstances: () =>
        reservations(instance('i-1', { state: isTerminated ? 'terminated' : 'running', tags: own })),
      TerminateInstances: () => {
        isTerminated = true;
        return '';
      },
    });

    await provider.deleteVm(deletion({ providerID: 'aws:///eu-west-1/i-1' }), call());

    expect(ec2.requests().map(({ action }) => action)).toEqual([
      'DescribeInstances',
      'TerminateInstances',
      'DescribeInstances',
      'DescribeVolumes',
      'DescribeNetworkInterfaces',
    ]);
  });

  it('deletes an instance of machine-controller-manager by its provider ID', async () => {
    let isTerminated = false;
    ec2.answer({
      DescribeInstances: (params) =>
        filtersOf(params)['instance-id'] === 'i-mcm'
          ? reservations(instance('i-mcm', { state: isTerminated ? 'terminated' : 'running', tags: ofMcm }))
          : '',
      TerminateInstances: () => {
        isTerminated = true;
        return '';
      },
    });

    await provider.deleteVm(deletion({ providerID: 'aws:///eu-west-1/i-mcm' }), call());

    expect(ec2.requests('TerminateInstances').map(({ params }) => params['InstanceId.1'])).toEqual(['i-mcm']);
  });

  it('deletes nothing by its name, and answers what has it where another system has begun the creation', async () => {
    ec2.answer({
      DescribeInstances: (params) =>
        filtersOf(params)['tag:Name'] === undefined ? '' : reservations(instance('i-mcm', { tags: ofMcm })),
    });

    expect(await provider.deleteVm(deletion(), call())).toMatchObject({ state: 'gone' });
    expect(await provider.deleteVm(deletion({ mayBeUntagged: true }), call())).toMatchObject({
      untaggedVm: { providerID: 'aws:///eu-west-1/i-mcm' },
    });
    expect(ec2.requests('TerminateInstances')).toEqual([]);
  });

  it('deletes nothing of the VM that stays with one that is surplus', async () => {
    const attachment = '<instanceId>i-stays</instanceId>';
    ec2.answer({
      DescribeInstances: reservations(instance('i-surplus', { state: 'terminated', tags: own })),
      DescribeVolumes: `<volumeSet><item><volumeId>vol-1</volumeId><attachmentSet><item>${attachment}</item></attachmentSet>${tagSet(own)}</item></volumeSet>`,
      DescribeNetworkInterfaces: `<networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId><attachment>${attachment}</attachment>${tagSet(own)}</item></networkInterfaceSet>`,
    });
    const machine = { ...deletion().machine, uid: 'none' };
    const only = { kind: 'vm', id: 'aws:///eu-west-1/i-surplus', uid } as const;

    expect(await provider.deleteVm(deletion({ machine, only }), call())).toMatchObject({ state: 'gone' });
    expect(ec2.requests('DeleteVolume')).toEqual([]);
    expect(ec2.requests('DeleteNetworkInterface')).toEqual([]);
  });

  it('leaves a volume alone that was attached to an instance of machine-controller-manager and is not of it', async () => {
    ec2.answer({
      DescribeInstances: (params) =>
        filtersOf(params)['instance-id'] === 'i-mcm'
          ? reservations(instance('i-mcm', { state: 'terminated', tags: ofMcm }))
          : '',
      DescribeVolumes: (params) =>
        filtersOf(params)['tag:kubernetes.io/role/node'] === undefined
          ? '<volumeSet><item><volumeId>vol-of-a-pod</volumeId></item></volumeSet>'
          : '',
    });

    expect(
      await provider.deleteVm(
        deletion({
          machine: { ...deletion().machine, uid: 'none' },
          only: { kind: 'vm', id: 'aws:///eu-west-1/i-mcm' },
        }),
        call(),
      ),
    ).toMatchObject({ state: 'gone' });
    expect(ec2.requests('DeleteVolume')).toEqual([]);
  });

  it('takes an instance that EC2 does not know for gone', async () => {
    let isKnown = true;
    ec2.answer({
      DescribeInstances: () => (isKnown ? reservations(instance('i-1', { tags: own })) : ''),
      TerminateInstances: () => {
        isKnown = false;
        return { code: 'InvalidInstanceID.NotFound' };
      },
    });

    expect(await provider.deleteVm(deletion(), call())).toMatchObject({ state: 'gone' });
  });
});

it('a deletion that EC2 refuses for now is Aborted, and tried again', async () => {
  const eni = `<networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId>${tagSet(own)}</item></networkInterfaceSet>`;
  ec2.answer({ DescribeNetworkInterfaces: eni, DeleteNetworkInterface: { code: 'InvalidParameterValue' } });

  expect(await refusal(provider.deleteVm(deletion(), call()))).toMatchObject({
    code: 'Aborted',
    cloudCode: 'InvalidParameterValue',
  });
});

describe('listInterruptions', () => {
  it('lists instances whose spot requests are marked for termination, page by page', async () => {
    const spotRequest = (id: string) => `<item><instanceId>${id}</instanceId></item>`;
    ec2.answer({
      DescribeSpotInstanceRequests: ({ NextToken }) =>
        NextToken === undefined
          ? `<spotInstanceRequestSet>${spotRequest('i-1')}<item/></spotInstanceRequestSet><nextToken>two</nextToken>`
          : `<spotInstanceRequestSet>${spotRequest('i-2')}</spotInstanceRequestSet>`,
    });

    const first = await provider.listInterruptions?.(awsScope(ec2.url), call());
    const second = await provider.listInterruptions?.({ ...awsScope(ec2.url), page: 'two' }, call());

    const reason = 'marked-for-termination';
    expect(first).toEqual({ items: [{ providerID: 'aws:///eu-west-1/i-1', reason }], nextPage: 'two' });
    expect(second).toEqual({ items: [{ providerID: 'aws:///eu-west-1/i-2', reason }] });
    expect(ec2.requests().map(({ params }) => filtersOf(params))).toEqual([
      { 'status-code': reason },
      { 'status-code': reason },
    ]);
    expect(ec2.requests().map(({ params }) => params['NextToken'])).toEqual([undefined, 'two']);
  });

  it.each<[string, object, boolean]>([
    ['on demand', {}, false],
    ['of a capacity block', { instanceMarketOptions: { marketType: 'capacity-block' } }, false],
    ['of the market for spot instances', { instanceMarketOptions: { marketType: 'spot' } }, true],
    ['with a spot price', { spotPrice: '0.03' }, true],
    ['with any spot price', { spotPrice: '' }, true],
  ])('is called for a class %s: %j %s', async (_name, spec, isCalled) => {
    const { problems, interruptible = false } = await provider.validateClass(awsScope(ec2.url, spec), call());
    expect({ problems, interruptible }).toEqual({ problems: [], interruptible: isCalled });
  });
});

describe('listVms', () => {
  it('lists instances, volumes and interfaces with the tags of cluster and role, page by page', async () => {
    const volume = `<volumeSet><item><volumeId>vol-1</volumeId><createTime>2026-01-02T00:00:00Z</createTime>
      <attachmentSet><item><instanceId>i-1</instanceId></item></attachmentSet>${tagSet(own)}</item></volumeSet>`;
    const eni = `<networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId>
      <attachment><attachTime>2026-01-03T00:00:00Z</attachTime></attachment>
      ${tagSet(own)}</item></networkInterfaceSet>`;
    ec2.answer({
      DescribeInstances: ({ NextToken }) =>
        NextToken === undefined
          ? `${reservations(instance('i-1', { tags: own }))}<nextToken>two</nextToken>`
          : reservations(instance('i-2', { state: 'stopped', tags: ofMcm })),
      DescribeVolumes: volume,
      DescribeNetworkInterfaces: eni.replace('tagSet', 'tagSet'),
    });

    const items: object[] = [];
    let page: string | undefined;
    do {
      const answer = await provider.listVms({ ...awsScope(ec2.url), ...(page !== undefined && { page }) }, call());
      items.push(...answer.items);
      page = answer.nextPage;
    } while (page !== undefined);

    expect(items).toMatchObject([
      { kind: 'vm', id: 'aws:///eu-west-1/i-1', uid, alive: true, createdAt: '2026-01-01T00:00:00.000Z' },
      { kind: 'vm', id: 'aws:///eu-west-1/i-2', alive: false },
      { kind: 'disk', id: 'vol-1', uid, attachedTo: 'aws:///i-1', createdAt: '2026-01-02T00:00:00.000Z' },
      { kind: 'nic', id: 'eni-1', uid, createdAt: '2026-01-03T00:00:00.000Z' },
    ]);
    for (const { params } of ec2.requests()) {
      expect(filtersOf(params)).toEqual({
        'tag:kubernetes.io/cluster/prod': '1',
        'tag:kubernetes.io/role/node': '1',
      });
    }
  });
});

it('listVms takes a volume for new where EC2 does not say when it was made, whatever the clock of the worker says', async () => {
  ec2.answer({ DescribeVolumes: `<volumeSet><item><volumeId>vol-1</volumeId>${tagSet(own)}</item></volumeSet>` });
  const nowMs = Date.now() + 7_200_000;

  const list = () => provider.listVms({ ...awsScope(ec2.url), page: 'disk:' }, call());
  const { items } = await inActivity({ currentAttemptScheduledTimestampMs: nowMs }, list);

  expect(items).toMatchObject([{ id: 'vol-1' }]);
  expect(Date.parse(items[0]?.createdAt ?? '')).toBeGreaterThanOrEqual(nowMs);
});

describe('updateVm', () => {
  const volume = `<volumeSet><item><volumeId>vol-1</volumeId>${tagSet({ ...own, team: 'a' })}</item></volumeSet>`;
  const update = { ...awsScope(''), machine: awsCreation('').machine, removedTags: [] };
  const params = (action: string) => ec2.requests(action).map((request) => request.params);

  beforeEach(() => {
    const old = instance('i-1', { tags: { ...own, cost: '7', team: 'b' } });
    ec2.answer({ DescribeInstances: reservations(old), DescribeVolumes: volume });
  });

  it('sets tags of what lacks them, and removes those that the class has no more', async () => {
    await provider.updateVm?.(
      { ...update, ...awsScope(ec2.url), tags: { ...ownershipTags, team: 'a' }, removedTags: ['cost'] },
      call(),
    );

    expect(params('CreateTags')).toEqual([
      expect.objectContaining({ 'ResourceId.1': 'i-1', 'Tag.3.Key': 'team', 'Tag.3.Value': 'a' }),
    ]);
    expect(params('CreateTags')[0]).not.toHaveProperty('ResourceId.2');
    expect(params('DeleteTags')).toEqual([expect.objectContaining({ 'ResourceId.1': 'i-1', 'Tag.1.Key': 'cost' })]);
  });

  it('leaves the name and the UID tag as they are', async () => {
    await provider.updateVm?.(
      {
        ...update,
        ...awsScope(ec2.url),
        tags: { ...own, Name: 'other', 'millwright.dev/machine-uid': 'other' },
        removedTags: ['Name', 'millwright.dev/machine-uid'],
      },
      call(),
    );

    expect(ec2.requests().filter(({ action }) => action.endsWith('Tags'))).toEqual([]);
  });
});

describe('volumeIds', () => {
  it('knows volumes of EBS, in the tree and of its CSI driver', async () => {
    const volumes = [
      { name: 'csi', spec: { csi: { driver: 'ebs.csi.aws.com', volumeHandle: 'vol-1' } } },
      { name: 'in-tree', spec: { awsElasticBlockStore: { volumeID: 'aws://eu-west-1a/vol-2' } } },
      { name: 'bare', spec: { awsElasticBlockStore: { volumeID: 'vol-3' } } },
      { name: 'efs', spec: { csi: { driver: 'efs.csi.aws.com', volumeHandle: 'fs-1' } } },
    ];

    expect(await provider.volumeIds({ volumes }, call())).toEqual({
      ids: { csi: 'vol-1', 'in-tree': 'vol-2', bare: 'vol-3' },
    });
  });
});

describe('a refusal of EC2', () => {
  const refused = async (answer: { code: string; message?: string; status?: number }) => {
    ec2.answer({ DescribeImages: image, RunInstances: answer });
    return refusal(provider.ensureVm(creation(), call()));
  };

  it.each([
    'InsufficientCapacity',
    'InsufficientAddressCapacity',
    'InsufficientInstanceCapacity',
    'InsufficientVolumeCapacity',
    'InstanceLimitExceeded',
    'VcpuLimitExceeded',
    'VolumeLimitExceeded',
    'MaxIOPSLimitExceeded',
    'RouteLimitExceeded',
    'Unsupported',
    'MaxSpotInstanceCountExceeded',
    'InsufficientFreeAddressesInSubnet',
  ])('[mcm 109 partly] is ResourceExhausted for %s, and names type and subnet', async (code) => {
    const { code: own, message } = await refused({ code, message: 'no m5.large in eu-west-1a' });

    expect(own).toBe('ResourceExhausted');
    expect(message).toBe(`the cloud answered 400: ${code}: no m5.large in eu-west-1a (asked for m5.large in subnet-1)`);
  });

  it.each([
    ['AuthFailure', 401, 'Unauthenticated'],
    ['ExpiredToken', 400, 'Unauthenticated'],
    ['RequestExpired', 400, 'Unauthenticated'],
    ['SignatureDoesNotMatch', 403, 'Unauthenticated'],
    ['OptInRequired', 403, 'PermissionDenied'],
    ['InvalidAMIID.NotFound', 400, 'InvalidArgument'],
    ['InvalidParameterValue', 400, 'InvalidArgument'],
    ['InvalidSubnetID.NotFound', 400, 'InvalidArgument'],
    ['IdempotentParameterMismatch', 400, 'Internal'],
    ['InternalError', 500, 'Unavailable'],
    ['NeverHeardOf', 400, 'FailedPrecondition'],
    ['InvalidGroupId.Malformed', 400, 'InvalidArgument'],
    ['NeverHeardOf', 503, 'Unavailable'],
  ])('%s with status %i is %s', async (code, status, expected) => {
    const failure = await refused({ code, status });

    expect(failure).toMatchObject({ code: expected, cloudCode: code, requestId: 'r-1' });
  });

  it('is Unavailable for throttling, once its turn does not come in time', async () => {
    const controller = new AbortController();
    ec2.answer({ DescribeInstances: { code: 'RequestLimitExceeded', status: 503 } });

    const failing = refusal(provider.ensureVm(creation(), call({ signal: controller.signal })));

    expect(await failing).toMatchObject({ code: 'Unavailable', cloudCode: 'RequestLimitExceeded' });
    expect(ec2.requests('DescribeInstances').length).toBeGreaterThan(1);
  });

  const encoded = 'Encoded authorization failure message: aBc-_123';

  it('names the action that is not allowed, without the encoded message', async () => {
    const failure = await refused({
      code: 'UnauthorizedOperation',
      message: `You are not authorized to perform this operation. ${encoded}`,
      status: 403,
    });

    expect(failure).toMatchObject({ code: 'PermissionDenied', cloudCode: 'UnauthorizedOperation' });
    expect(failure.message).toBe(
      'the cloud answered 403: UnauthorizedOperation: allow the action ec2:RunInstances. ' +
        'You are not authorized to perform this operation.',
    );
  });
});

describe('credentials', () => {
  const list = () => provider.listVms(awsScope(ec2.url), call());

  it('may have the names of machine-controller-manager or the older ones', async () => {
    secrets['cloud'] = { providerAccessKeyId: 'AKIDTWO', providerSecretAccessKey: 'secret-2' };
    ec2.answer({});

    await list();

    expect(ec2.requests().map(({ signedBy }) => signedBy)).toEqual(['AKIDTWO']);
  });

  it('are those of the Secret as it is at each call', async () => {
    ec2.answer({});
    await list();
    secrets['cloud'] = { accessKeyID: 'AKIDNEW', secretAccessKey: 'secret-3' };

    await list();

    expect(ec2.requests().map(({ signedBy }) => signedBy)).toEqual(['AKIDONE', 'AKIDNEW']);
  });

  it('that are missing are refused with the keys to add', async () => {
    secrets['cloud'] = { accessKeyID: 'AKIDONE' };
    ec2.answer({});

    expect((await refusal(list())).message).toBe(
      'no Secret has credentials: add the keys providerAccessKeyId and providerSecretAccessKey, or ' +
        'workloadIdentityTokenFile and roleARN (looked in: garden/cloud)',
    );
    expect(ec2.requests()).toEqual([]);
  });

  describe('of the environment', () => {
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = process.env;
    beforeAll(() => {
      Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'AKIDENV', AWS_SECRET_ACCESS_KEY: 'secret-4' });
    });
    afterAll(() => {
      delete process.env.AWS_ACCESS_KEY_ID;
      delete process.env.AWS_SECRET_ACCESS_KEY;
      Object.assign(process.env, {
        ...(AWS_ACCESS_KEY_ID && { AWS_ACCESS_KEY_ID }),
        ...(AWS_SECRET_ACCESS_KEY && { AWS_SECRET_ACCESS_KEY }),
      });
    });

    it('are used where that is allowed and no Secret has any', async () => {
      secrets['cloud'] = {};
      ec2.answer({});

      expect(await refusal(list())).toMatchObject({ code: 'InvalidArgument' });
      await makeProvider({ defaultCredentials: true }).listVms(awsScope(ec2.url), call());

      expect(ec2.requests().map(({ signedBy }) => signedBy)).toEqual(['AKIDENV']);
    });

    it('are not used where a Secret is gone, which may have had those of another account', async () => {
      delete secrets['cloud'];
      ec2.answer({});

      const listing = makeProvider({ defaultCredentials: true }).listVms(awsScope(ec2.url), call());

      expect((await refusal(listing)).message).toContain('garden/cloud, which does not exist');
      expect(ec2.requests()).toEqual([]);
    });

    it('are not used where a Secret has some', async () => {
      ec2.answer({});

      await makeProvider({ defaultCredentials: true }).listVms(awsScope(ec2.url), call());

      expect(ec2.requests().map(({ signedBy }) => signedBy)).toEqual(['AKIDONE']);
    });
  });

  describe('of a role', () => {
    let dir: string;
    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'aws-token-'));
      process.env.AWS_ENDPOINT_URL_STS = ec2.url;
    });
    beforeEach(() => {
      provider = makeProvider({ tokenFolder: dir });
    });
    afterAll(async () => {
      delete process.env.AWS_ENDPOINT_URL_STS;
      await rm(dir, { recursive: true });
    });

    it('are those that STS gives for the token', async () => {
      const workloadIdentityTokenFile = join(dir, 'token');
      await writeFile(workloadIdentityTokenFile, 'a-token');
      secrets['cloud'] = { workloadIdentityTokenFile, roleARN: 'arn:aws:iam::1:role/nodes' };
      ec2.answer({
        AssumeRoleWithWebIdentity: `<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>
          <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
          <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>`,
      });

      await list();

      expect(ec2.requests('AssumeRoleWithWebIdentity').map(({ params }) => params)).toMatchObject([
        { RoleArn: 'arn:aws:iam::1:role/nodes', WebIdentityToken: 'a-token' },
      ]);
      expect(ec2.requests('DescribeInstances').map(({ signedBy }) => signedBy)).toEqual(['ASIAROLE']);
    });

    it('[invariant 8 partly] are hidden in an error that quotes them', async () => {
      const workloadIdentityTokenFile = join(dir, 'token');
      await writeFile(workloadIdentityTokenFile, 'a-token');
      secrets['cloud'] = { workloadIdentityTokenFile, roleARN: 'arn:aws:iam::1:role/quoted' };
      ec2.answer({
        AssumeRoleWithWebIdentity: `<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>
          <SecretAccessKey>secret-of-role</SecretAccessKey><SessionToken>session-of-role</SessionToken>
          <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>`,
        DescribeInstances: { code: 'InvalidParameterValue', message: 'ASIAROLE secret-of-role session-of-role' },
      });

      const message = await inActivity({}, async () => createMask()((await refusal(list())).message));

      expect(message).toBe('the cloud answered 400: InvalidParameterValue: ASIAROLE (hidden) (hidden)');
    });

    it('are refused with the code of STS', async () => {
      const workloadIdentityTokenFile = join(dir, 'token');
      await writeFile(workloadIdentityTokenFile, 'a-token');
      secrets['cloud'] = { workloadIdentityTokenFile, roleARN: 'arn:aws:iam::1:role/others' };
      ec2.answer({ AssumeRoleWithWebIdentity: { code: 'AccessDenied', message: 'not yours', status: 403 } });

      expect(await refusal(list())).toMatchObject({
        code: 'PermissionDenied',
        message: 'the cloud answered 403: AccessDenied: not yours',
      });
    });

    it('whose token file is missing are refused with the path', async () => {
      const workloadIdentityTokenFile = join(dir, 'missing');
      secrets['cloud'] = { workloadIdentityTokenFile, roleARN: 'arn:aws:iam::1:role/nodes' };
      ec2.answer({});

      expect(await refusal(list())).toMatchObject({
        code: 'Unauthenticated',
        message: expect.stringContaining(
          `the token file ${workloadIdentityTokenFile} cannot be read (ENOENT): mount it into the worker`,
        ),
      });
    });

    it.each([
      ['that of IAM roles for service accounts', '/var/run/secrets/eks.amazonaws.com/serviceaccount/token'],
      ['that of the API server', '/var/run/secrets/kubernetes.io/serviceaccount/token'],
    ])(
      'are not those of the worker itself: its token file, %s, is refused before anything is sent',
      async (_, path) => {
        provider = makeProvider({ defaultCredentials: true });
        secrets['cloud'] = { workloadIdentityTokenFile: path, roleARN: 'arn:aws:iam::1:role/worker' };
        ec2.answer({});
        const problem =
          `workloadIdentityTokenFile is "${path}": name a file below /var/run/secrets/gardener.cloud, the folder of ` +
          '--token-folder of the worker (looked in: garden/cloud)';

        expect(await refusal(list())).toMatchObject({ code: 'InvalidArgument', message: problem });
        expect(await provider.validateClass(awsScope(ec2.url), call())).toMatchObject({ problems: [problem] });
        expect(ec2.requests()).toEqual([]);
      },
    );

    it('let the provider say what a policy denies, where STS may decode it', async () => {
      const decoded = JSON.stringify({
        allowed: false,
        explicitDeny: true,
        context: { action: 'ec2:RunInstances', resource: 'arn:aws:ec2:eu-west-1:1:subnet/subnet-1' },
      }).replaceAll('"', '&quot;');
      ec2.answer({
        DescribeImages: image,
        RunInstances: {
          code: 'UnauthorizedOperation',
          message: 'You are not authorized. Encoded authorization failure message: aBc-_123',
          status: 403,
        },
        DecodeAuthorizationMessage: `<DecodeAuthorizationMessageResult><DecodedMessage>${decoded}</DecodedMessage></DecodeAuthorizationMessageResult>`,
      });

      expect((await refusal(provider.ensureVm(creation(), call()))).message).toBe(
        'the cloud answered 403: UnauthorizedOperation: allow the action ec2:RunInstances ' +
          '(ec2:RunInstances on arn:aws:ec2:eu-west-1:1:subnet/subnet-1, denied by a policy). You are not authorized.',
      );
    });
  });
});
