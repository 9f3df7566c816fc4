/** What the simulated cloud cannot show of the kit: states, refusals and delays of other clouds. */
import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import type { DeleteVmRequest, EnsureVmRequest } from '../../../api/provider.ts';
import { refusal } from '../../../test/support/refusal.ts';
import type { CallContext, SecretData } from '../provider.ts';
import type { Cloud, CloudItem, CloudPart, CloudVm, CreationFailure, Refusal, Session, Tags } from './cloud.ts';
import { createProvider } from './provider.ts';
import type { Allowance } from './request-rate.ts';

const uid = 'uid-1';
const tags = { 'millwright.dev/machine-uid': uid };

class Answer extends Error {
  readonly refusal: Refusal;
  constructor(code: string) {
    super(code);
    this.refusal = { code, message: 'no', status: 400 };
  }
}

interface FakeOptions {
  readonly settleSeconds?: number;
  readonly perSecond?: number;
  /** Whether it can look VMs up by their name. */
  readonly hasNames?: boolean;
  /** Whether an id may end with a wildcard. */
  readonly knowsWildcards?: boolean;
  /** Whether it ignores that it is asked only for what has a UID. */
  readonly listsAll?: boolean;
  /** Throws what each request with this name throws, if it does. */
  readonly onRequest?: (name: string, item?: CloudItem) => void;
  /** Requests before the one that makes the VM, each of which makes this part. */
  readonly partsFirst?: readonly CloudItem[];
  /** Of the VM that it makes. */
  readonly made?: Partial<CloudVm>;
  /** What became of the creation with this `lastKnownState`. */
  readonly failureOf?: Readonly<Record<string, CreationFailure>>;
}

/** A cloud in memory, with the provider that the kit makes of it. */
function startFake({
  settleSeconds = 0,
  perSecond = 1_000,
  hasNames = true,
  knowsWildcards = false,
  listsAll = false,
  onRequest = () => {},
  partsFirst = [],
  made: state,
  failureOf = {},
}: FakeOptions = {}) {
  const items = new Map<string, CloudItem>();
  const requests: string[] = [];
  const clients: string[] = [];
  /** Parts that each creation has got. */
  const given: string[][] = [];
  const secrets: Record<string, SecretData> = { cloud: { key: 'one' }, copy: { key: 'one' }, node: { userData: 'x' } };
  const rates: { credentials: string; state: () => object }[] = [];
  let allow: (allowance: Allowance) => void = () => {};

  const note = async (name: string, item?: CloudItem) => {
    requests.push(name);
    onRequest(name, item);
  };
  const cloud: Cloud<{ tags: Record<string, string> }, object, { key: string }, { key: string }> = {
    scheme: 'fake',
    settleSeconds,
    deletionPollMs: 1,
    rateLimit: { perSecond, burst: perSecond },
    providerSpec: z.object({ tags: z.record(z.string(), z.string()) }),
    reach: z.object({}),
    tags: z.object({ tags: z.record(z.string(), z.string()) }).transform((spec) => spec.tags),
    credentialKeys: ['key'],
    secretKeys: ['key'],
    credentials: z.object({ key: z.string() }),
    errors: { Forbidden: 'PermissionDenied', NoRoom: 'ResourceExhausted', NotFound: 'NotFound', Slow: 'Throttled' },
    refusalOf: (error) => (error instanceof Answer ? error.refusal : undefined),
    endpointOf: () => 'fake',
    connect(_, { key }, { onAllowance }) {
      clients.push(key);
      allow = onAllowance;
      return { key };
    },
    async list({ send }, wanted) {
      await send(() => note('list'));
      const isWanted = (item: CloudItem) => Object.entries(wanted).every(([key, value]) => item.tags[key] === value);
      return { items: [...items.values()].filter(isWanted) };
    },
    async findOwn({ send }, { uid: own }) {
      await send(() => note('list'));
      return [...items.values()].filter((item) => listsAll || item.tags['millwright.dev/machine-uid'] === own);
    },
    ...(hasNames && {
      async findByName({ send }: Session<{ key: string }>, name: string, wanted: Tags) {
        await send(() => note(`find ${name}`));
        const isWanted = ({ tags }: CloudVm) => Object.entries(wanted).every(([key, value]) => tags[key] === value);
        return [...items.values()]
          .filter((item) => item.kind === 'vm')
          .filter((vm) => vm.name === name && isWanted(vm));
      },
    }),
    async findVm({ send }, id) {
      await send(() => note(`find ${id}`));
      const isMeant = (item: CloudItem) => knowsWildcards && id.endsWith('*') && item.id.startsWith(id.slice(0, -1));
      const isPartOf = (item: CloudItem) => item.kind !== 'vm' && item.attachedTo === id;
      return [...items.values()].filter((item) => item.id === id || isMeant(item) || isPartOf(item));
    },
    async findPart({ send }, _, id) {
      await send(() => note(`find ${id}`));
      const item = items.get(id);
      return item?.kind === 'vm' ? undefined : item;
    },
    async create({ send }, { parts }) {
      given.push(parts.map(({ id }) => id));
      for (const part of partsFirst) {
        await send(() => note(`create ${part.id}`));
        items.set(part.id, part);
      }
      await send(() => note('create vm'));
      const made = vm('made', state);
      items.set(made.id, made);
      return made;
    },
    async failureOf({ send }, lastKnownState) {
      await send(() => note(`ask ${lastKnownState}`));
      return failureOf[lastKnownState];
    },
    async delete({ send }, item) {
      await send(() => note(`delete ${item.id}`, item));
      items.delete(item.id);
    },
    interruptions: {
      mayHit: ({ tags: { spot } }) => spot !== undefined,
      async list({ send }, _tags, page = 'first') {
        await send(() => note('interruptions'));
        const items = [{ providerID: `fake:///a/${page}`, reason: 'soon' }];
        return { items, ...(page === 'first' && { nextPage: 'two' }) };
      },
    },
    async setTags({ send }, changed) {
      for (const { id } of changed) await send(() => note(`tag ${id}`));
    },
    volumeId: () => undefined,
  };
  const provider = createProvider(cloud, {
    readSecret: async ({ name }) => secrets[name],
    onRequestRate: ({ credentials }, rate) => rates.push({ credentials, state: () => rate.state }),
  });
  const put = (...given: CloudItem[]) => {
    for (const item of given) items.set(item.id, item);
  };
  const left = () => [...items.keys()];
  return { provider, put, requests, clients, given, secrets, rates, left, allow: (given: Allowance) => allow(given) };
}

function vm(id: string, more: Partial<CloudVm> = {}): CloudVm {
  const createdAt = '2026-01-01T00:00:00Z';
  return {
    kind: 'vm',
    id,
    name: id,
    createdAt,
    tags,
    state: 'running',
    providerID: `fake:///a/${id}`,
    addresses: [],
    ...more,
  };
}

function nic(id: string, more: Partial<CloudPart> = {}): CloudPart {
  return { kind: 'nic', id, name: '', createdAt: '2026-01-01T00:00:00Z', tags, ...more };
}

const context: CallContext = { attempt: 1, signal: new AbortController().signal, heartbeat: () => {} };
const scope = { providerSpec: { tags: { cluster: 'a' } }, credentials: [{ namespace: 'garden', name: 'cloud' }] };
const machine = { uid, namespace: 'garden', name: 'machine-1' };
const userData = { namespace: 'garden', name: 'node', key: 'userData' };
const creation: EnsureVmRequest = { ...scope, machine, userData, token: 'uid-1-0', outcomeUnknown: false };
const deletion: DeleteVmRequest = { ...scope, machine, outcomeUnknown: false };

/** Throws this answer at each request with this name. */
const refusing = (refused: string, code: string) => (name: string) => {
  if (name === refused) throw new Answer(code);
};

describe('ensureVm', () => {
  it('[invariant 1] makes no second VM beside one that is stopped, and says that it failed', async () => {
    const { provider, put, left } = startFake();
    put(vm('stopped', { state: 'stopped' }));

    expect(await provider.ensureVm(creation, context)).toMatchObject({
      state: 'failed',
      providerID: 'fake:///a/stopped',
      message: 'the VM stopped was stopped in the cloud',
    });
    expect(left()).toEqual(['stopped']);
  });

  it('prefers a VM that runs to an older one that is stopped', async () => {
    const { provider, put, left } = startFake();
    put(vm('old', { state: 'stopped', createdAt: '2025-01-01T00:00:00Z' }), vm('new'));

    expect(await provider.ensureVm(creation, context)).toMatchObject({ state: 'running', providerID: 'fake:///a/new' });
    expect(left()).toEqual(['new']);
  });

  it('[invariant 1] chooses the same of two VMs of the same second, in whatever order they are listed', async () => {
    for (const order of [
      ['a', 'b'],
      ['b', 'a'],
    ]) {
      const { provider, put, left } = startFake();
      put(...order.map((id) => vm(id)));

      expect(await provider.ensureVm(creation, context)).toMatchObject({ providerID: 'fake:///a/a' });
      expect(left()).toEqual(['a']);
    }
  });

  it('says which tags of its class the VM has, and no others', async () => {
    const { provider, put } = startFake();
    put(vm('made-before', { tags: { ...tags, cluster: 'old', own: '1' } }));
    const providerSpec = { tags: { cluster: 'a', added: '1' } };

    expect(await provider.ensureVm({ ...creation, providerSpec }, context)).toMatchObject({ tags: { cluster: 'old' } });
  });

  it('creates a VM where the cloud still shows one that is gone', async () => {
    const { provider, put } = startFake();
    put(vm('gone', { state: 'gone' }));

    expect(await provider.ensureVm(creation, context)).toMatchObject({ providerID: 'fake:///a/made' });
  });

  it('looks at nothing and keeps the code when the first request of a creation is refused', async () => {
    const { provider, requests } = startFake({ onRequest: refusing('create vm', 'Forbidden') });

    expect((await refusal(provider.ensureVm(creation, context))).code).toBe('PermissionDenied');
    expect(requests).toEqual(['list', 'create vm']);
  });

  it('[invariant 2] deletes what a creation has made before it is refused, and keeps the code', async () => {
    const { provider, left } = startFake({ partsFirst: [nic('nic-1')], onRequest: refusing('create vm', 'Forbidden') });

    expect((await refusal(provider.ensureVm(creation, context))).code).toBe('PermissionDenied');
    expect(left()).toEqual([]);
  });

  it('[invariant 2] does not say that nothing was made where a part could not be deleted', async () => {
    const { provider, left } = startFake({
      partsFirst: [nic('nic-1')],
      onRequest(name) {
        if (name === 'create vm' || name === 'delete nic-1') throw new Answer('Forbidden');
      },
    });

    expect(await refusal(provider.ensureVm(creation, context))).toMatchObject({
      code: 'Internal',
      cloudCode: 'Forbidden',
      message: 'the cloud answered 400: Forbidden: no; something may have been made before',
    });
    expect(left()).toEqual(['nic-1']);
  });

  it.each([
    ['when the cloud cannot be listed', 'list', [], {}, true],
    ['not after a call whose outcome is unknown', 'list', [], { outcomeUnknown: true }, false],
    ['not when a second VM cannot be deleted', 'delete b', [vm('a'), vm('b')], {}, false],
    ['not when a part cannot be deleted', 'delete nic-1', [nic('nic-1')], {}, false],
    ['not when the request that creates is refused', 'create vm', [], {}, false],
  ] as const)('[invariant 2] says that nothing was made %s', async (_, refused, present, more, expected) => {
    const { provider, put } = startFake({ onRequest: refusing(refused, 'NoRoom') });
    put(...present);
    expect((await refusal(provider.ensureVm({ ...creation, ...more }, context))).nothingMade).toBe(expected);
  });

  it('[invariant 1] leaves parts alone that an earlier attempt may be making a VM of', async () => {
    const { provider, put, left, given } = startFake({ onRequest: refusing('create vm', 'NoRoom') });
    put(nic('nic-1'));

    await refusal(provider.ensureVm({ ...creation, outcomeUnknown: true }, context));

    expect(left()).toEqual(['nic-1']);
    expect(given).toEqual([['nic-1']]);
  });

  it('does not say that nothing was made where the look after a creation is refused', async () => {
    const { provider, requests } = startFake({
      onRequest(name) {
        if (name === 'list' && requests.includes('create vm')) throw new Answer('Forbidden');
      },
    });

    const { code } = await refusal(provider.ensureVm({ ...creation, outcomeUnknown: true }, context));

    expect(code).toBe('Internal');
  });
});

describe('a creation that the cloud had accepted', () => {
  const full = { code: 'NoRoom', message: 'sold out' };
  const again = { ...creation, providerID: 'fake:///a/a', lastKnownState: 'op-1' };

  it.each<[string, Partial<CloudVm>, FakeOptions]>([
    ['the VM says', { state: 'failed', failure: full }, {}],
    ['its operation says, while the VM is being made', { state: 'creating' }, { failureOf: { 'op-1': full } }],
    [
      'its operation says, and the VM less',
      { state: 'failed', failure: { message: 'no' } },
      { failureOf: { 'op-1': full } },
    ],
  ])(
    '[mcm 109 partly] is refused with the code that %s, and deleted, and made by the next call',
    async (_, state, options) => {
      const { provider, put, left } = startFake(options);
      put(vm('a', state), nic('nic-1'));

      expect(await refusal(provider.ensureVm(again, context))).toMatchObject({
        code: 'ResourceExhausted',
        cloudCode: 'NoRoom',
        message: 'the cloud had accepted the VM and could not make it: NoRoom: sold out',
        nothingMade: false,
      });
      expect(left()).toEqual([]);
      expect(await provider.ensureVm(again, context)).toMatchObject({ state: 'running', providerID: 'fake:///a/made' });
    },
  );

  it('is refused at once where the cloud says so soon after, and leaves nothing', async () => {
    const made = { state: 'failed', failure: full } as const;
    const { provider, left } = startFake({ made, partsFirst: [nic('nic-1')] });

    expect((await refusal(provider.ensureVm(creation, context))).code).toBe('ResourceExhausted');
    expect(left()).toEqual([]);
  });

  it('keeps its code where only parts are left of the VM, and deletes them', async () => {
    const { provider, put, left } = startFake({ failureOf: { 'op-1': full } });
    put(nic('nic-1'));

    expect((await refusal(provider.ensureVm(again, context))).code).toBe('ResourceExhausted');
    expect(left()).toEqual([]);
  });

  it('keeps its code where a part is still in use', async () => {
    const { provider, put, left } = startFake({
      failureOf: { 'op-1': full },
      onRequest: refusing('delete nic-1', 'Forbidden'),
    });
    put(nic('nic-1'));

    expect((await refusal(provider.ensureVm(again, context))).code).toBe('ResourceExhausted');
    expect(left()).toEqual(['nic-1']);
  });

  it('[invariant 2] does not say that nothing was made where it was refused for good', async () => {
    const { provider, put } = startFake();
    put(vm('a', { state: 'failed', failure: { code: 'Forbidden', message: 'not you' } }));

    expect(await refusal(provider.ensureVm(creation, context))).toMatchObject({
      code: 'Internal',
      cloudCode: 'Forbidden',
      nothingMade: false,
    });
  });

  it('leaves a VM that failed for another reason, and says so', async () => {
    const { provider, put, left } = startFake();
    put(vm('a', { state: 'failed', failure: { code: 'Smoke', message: 'it burns' } }));

    expect(await provider.ensureVm(again, context)).toMatchObject({
      state: 'failed',
      message: 'the cloud had accepted the VM and could not make it: Smoke: it burns',
    });
    expect(left()).toEqual(['a']);
  });

  it('is asked about only while the VM does not run, and its state is handed back', async () => {
    const { provider, put, requests } = startFake({ failureOf: { 'op-1': full } });
    put(vm('a'));

    expect(await provider.ensureVm(again, context)).toMatchObject({ state: 'running', lastKnownState: 'op-1' });
    expect(requests).toEqual(['list']);
  });
});

describe('deleteVm', () => {
  it('answers gone where the cloud still shows the VM as gone, and deletes its parts', async () => {
    const { provider, put, requests } = startFake();
    put(vm('gone', { state: 'gone' }), nic('nic-1'));

    expect(await provider.deleteVm(deletion, context)).toEqual({ state: 'gone', nodeNames: [] });
    expect(requests).toEqual(['list', 'delete nic-1', 'list']);
  });

  it('deletes a VM whose Node has no name yet', async () => {
    const { provider, put, left } = startFake();
    put(vm('a'));

    expect(await provider.deleteVm({ ...deletion, nodeNames: ['n'] }, context)).toEqual({
      state: 'gone',
      nodeNames: [],
    });
    expect(left()).toEqual([]);
  });

  it('[invariant 2] does not take NotFound from the cloud for the end of the deletion', async () => {
    const { provider, put } = startFake({ onRequest: refusing('delete nic-1', 'NotFound') });
    put(nic('nic-1'), nic('nic-2'));

    expect((await refusal(provider.deleteVm(deletion, context))).code).toBe('Aborted');
  });

  it('asks for all deletions though one is refused', async () => {
    const { provider, put, left } = startFake({ onRequest: refusing('delete a', 'Forbidden') });
    put(vm('a'), vm('b'));

    expect((await refusal(provider.deleteVm(deletion, context))).code).toBe('PermissionDenied');
    expect(left()).toEqual(['a']);
  });

  it('deletes nothing of others where the cloud ignores the filter by UID', async () => {
    const { provider, put, left } = startFake({ listsAll: true });
    const others = { 'millwright.dev/machine-uid': 'other' };
    put(vm('a'), { ...nic('nic-1'), tags: others }, { ...nic('nic-2'), tags: {} }, vm('b', { tags: others }));

    expect(await provider.deleteVm(deletion, context)).toMatchObject({ state: 'gone' });
    expect(left()).toEqual(['nic-1', 'nic-2', 'b']);
  });

  it('finds a part by an id with slashes', async () => {
    const { provider, put, left } = startFake();
    put({ ...nic('/groups/a/nic-1'), tags: { cluster: 'a' } });
    const only = { kind: 'nic', id: '/groups/a/nic-1' } as const;

    await provider.deleteVm({ ...deletion, only }, context);

    expect(left()).toEqual([]);
  });
});

describe('validateClass', () => {
  it('says which Secrets do not exist', async () => {
    const { provider } = startFake();
    const credentials = [
      { namespace: 'garden', name: 'node' },
      { namespace: 'garden', name: 'missing' },
    ];

    const { problems } = await provider.validateClass({ ...scope, credentials }, context);

    expect(problems).toEqual(['give a string (looked in: garden/node, garden/missing, which does not exist)']);
  });
});

describe('interruptions', () => {
  it('are possible only where the cloud says so of the class', async () => {
    const { provider } = startFake();
    const spot = { ...scope, providerSpec: { tags: { spot: 'yes' } } };
    expect(await provider.validateClass(scope, context)).not.toHaveProperty('interruptible');
    expect(await provider.validateClass(spot, context)).toMatchObject({ interruptible: true });
  });

  it('are listed page by page, with one request each', async () => {
    const { provider, requests } = startFake();
    const first = await provider.listInterruptions?.(scope, context);
    const second = await provider.listInterruptions?.({ ...scope, page: 'two' }, context);
    expect(first).toEqual({ items: [{ providerID: 'fake:///a/first', reason: 'soon' }], nextPage: 'two' });
    expect(second).toEqual({ items: [{ providerID: 'fake:///a/two', reason: 'soon' }] });
    expect(requests).toEqual(['interruptions', 'interruptions']);
  });
});

describe('the VM of a provider ID', () => {
  const named = { ...deletion, providerID: 'fake:///a/a' };
  const known = { providerID: named.providerID };
  const uidTag = 'millwright.dev/machine-uid';
  const { tags: ofClass } = scope.providerSpec;

  it.each<[string, Partial<CloudVm>]>([
    ['has the tags of the class', { tags: ofClass }],
    ['has the tags of the class and a UID that nobody knows any more', { tags: { ...ofClass, [uidTag]: 'old' } }],
  ])('[invariant 2 partly] is deleted that %s', async (_, more) => {
    const { provider, put, left } = startFake();
    put(vm('a', more));

    expect((await provider.ensureVm({ ...creation, ...known }, context)).providerID).toBe('fake:///a/a');
    expect(await provider.deleteVm(named, context)).toMatchObject({ state: 'gone' });
    expect(left()).toEqual([]);
  });

  it.each<[string, Partial<CloudVm>]>([
    ['was made by nobody for this class', { tags: { cluster: 'b' } }],
    ['has the name of the Machine and no more', { name: machine.name, tags: {} }],
    [
      'a Machine of the same name has in another namespace',
      { name: machine.name, tags: { cluster: 'b', [uidTag]: 'b' } },
    ],
    ['has the UID of a Machine of another class', { tags: { [uidTag]: 'b' } }],
  ])(
    '[invariant 12 partly] is neither used, deleted nor tagged that %s, and what is the Machine’s goes',
    async (_, more) => {
      const { provider, put, left, requests } = startFake();
      put(vm('a', more), vm('own'), nic('nic-1'));

      const ofOthers = { code: 'FailedPrecondition', message: expect.stringContaining('the VM fake:///a/a') };
      expect(await refusal(provider.ensureVm({ ...creation, ...known }, context))).toMatchObject(ofOthers);
      expect(left()).toEqual(['a', 'own', 'nic-1']);
      await provider.updateVm?.(
        { ...scope, machine, providerID: named.providerID, tags: { a: 'b' }, removedTags: [] },
        context,
      );
      expect(requests.slice(-2)).toEqual(['tag own', 'tag nic-1']);
      expect(await refusal(provider.deleteVm(named, context))).toMatchObject(ofOthers);
      expect(left()).toEqual(['a']);
    },
  );

  it.each([
    ['no tags', {}, 'neither the tags of the class nor a UID of a Machine'],
    ['the tags of the class, and the UID of another Machine', { ...ofClass, [uidTag]: 'b' }, 'the UID b'],
  ])(
    '[invariant 2 partly] that has %s keeps what has the UID of the Machine while it is attached to it, and says why',
    async (_, tags, why) => {
      const { provider, put, left } = startFake();
      put(vm('a', { tags }), nic('nic-1', { attachedTo: 'A' }), nic('nic-2'));

      expect(await refusal(provider.deleteVm(deletion, context))).toMatchObject({
        code: 'FailedPrecondition',
        message: expect.stringContaining(
          `what is attached to the VM fake:///a/a (a) is not deleted: this VM has ${why}. Detach`,
        ),
      });
      expect(left()).toEqual(['a', 'nic-1']);

      put(vm('a', { tags, state: 'deleting' }));
      expect(await provider.deleteVm(deletion, context)).toMatchObject({ state: 'deleting' });
      expect(left()).toEqual(['a', 'nic-1']);
      put(vm('a', { tags, state: 'gone' }));
      expect(await provider.deleteVm(deletion, context)).toMatchObject({ state: 'gone' });
      expect(left()).not.toContain('nic-1');
    },
  );

  it('[invariant 2 partly] keeps what is attached to it, also if the Machine names it', async () => {
    const { provider, put, left } = startFake();
    put(vm('a', { tags: {} }), nic('nic-1', { attachedTo: 'a' }), nic('nic-2'));
    const message = expect.stringContaining('the VM fake:///a/a (a) is neither used nor deleted');
    expect(await refusal(provider.deleteVm(named, context))).toMatchObject({ code: 'FailedPrecondition', message });
    expect(left()).toEqual(['a', 'nic-1']);
  });

  it('takes nothing along that is somebody else’s when it is gone', async () => {
    const { provider, put, left } = startFake();
    put(vm('a', { tags: {}, state: 'gone' }), nic('nic-a', { attachedTo: 'a', tags: {} }));
    expect(await provider.deleteVm(named, context)).toMatchObject({ state: 'gone' });
    expect(left()).toContain('nic-a');
  });

  it('is not another one, which the cloud shows because it knows wildcards', async () => {
    const { provider, put, left } = startFake({ knowsWildcards: true });
    put(vm('abc', { tags: ofClass }));

    expect(await provider.deleteVm({ ...deletion, providerID: 'fake:///a/a*' }, context)).toMatchObject({
      state: 'gone',
    });
    expect(left()).toEqual(['abc']);
  });

  it('is only looked at where it has to exist, also beside another one', async () => {
    const { provider, put, left } = startFake();
    put(vm('a', { tags: ofClass }), vm('own'), nic('nic-1'));
    const request = { ...creation, ...known, mustExist: true } as const;

    expect(await provider.ensureVm(request, context)).toMatchObject({ providerID: 'fake:///a/a' });
    expect(left()).toEqual(['a', 'own', 'nic-1']);
  });

  it('is not made where it has to exist', async () => {
    const { provider, requests } = startFake();
    const request = { ...creation, ...known, mustExist: true } as const;

    expect((await refusal(provider.ensureVm(request, context))).code).toBe('NotFound');
    expect(requests.filter((name) => name.startsWith('create'))).toEqual([]);
  });
});

describe('the deletion of a Machine that another system has begun to create', () => {
  const begun = { ...deletion, mayBeUntagged: true };
  const named = (id: string, more: Partial<CloudVm> = {}) =>
    vm(id, { name: machine.name, tags: scope.providerSpec.tags, ...more });

  it('[invariant 2] answers the VM that has its name, and deletes nothing before it is the Machine’s', async () => {
    const { provider, put, left } = startFake();
    put(named('a', { nodeName: 'node-a' }), vm('of-other-name', { tags: scope.providerSpec.tags }));

    expect(await provider.deleteVm(begun, context)).toEqual({
      state: 'deleting',
      nodeNames: [],
      untaggedVm: { providerID: 'fake:///a/a', nodeName: 'node-a' },
    });
    expect(await provider.deleteVm({ ...deletion, providerID: 'fake:///a/a' }, context)).toMatchObject({
      state: 'gone',
    });
    expect(left()).toEqual(['of-other-name']);
  });

  it('[invariant 2] deletes what has its UID before it looks for a name', async () => {
    const { provider, put, left } = startFake();
    put(vm('tagged'), nic('nic-1'), named('a'));

    expect(await provider.deleteVm(begun, context)).toMatchObject({ untaggedVm: { providerID: 'fake:///a/a' } });
    expect(left()).toEqual(['a']);
  });

  it.each<[string, Partial<CloudVm>]>([
    ['has the UID of another Machine', { tags: { ...scope.providerSpec.tags, 'millwright.dev/machine-uid': 'other' } }],
    ['has not the tags of the class', { tags: { cluster: 'b' } }],
    ['was stopped', { state: 'stopped' }],
    ['is gone', { state: 'gone' }],
  ])('leaves a VM of its name alone that %s', async (_, more) => {
    const { provider, put, left } = startFake();
    put(named('a', more));

    expect(await provider.deleteVm(begun, context)).toEqual({ state: 'gone', nodeNames: [] });
    expect(left()).toEqual(['a']);
  });

  it('fails where several VMs may be its own, and deletes none', async () => {
    const { provider, put, left } = startFake();
    put(named('a'), named('b'));

    expect(await refusal(provider.deleteVm(begun, context))).toMatchObject({
      code: 'OutOfRange',
      message: 'a, b have the name and tags of the Machine: set spec.providerID to one of them, or delete them',
    });
    expect(left()).toEqual(['a', 'b']);
  });

  it('[invariant 2] waits for a VM of its name that somebody is deleting, and names its Node', async () => {
    let looks = 0;
    const { provider, put, requests } = startFake({
      onRequest(name) {
        if (name === `find ${machine.name}` && ++looks === 3) put(named('a', { state: 'gone' }));
      },
    });
    put(named('a', { state: 'deleting', nodeName: 'node-a' }));

    expect(await provider.deleteVm(begun, context)).toEqual({ state: 'gone', nodeNames: ['node-a'] });
    expect(requests.filter((name) => name.startsWith('delete'))).toEqual([]);
  });

  it('[invariant 2] is not over where the cloud does not say which VMs have its name, or the class no tags', async () => {
    const { provider } = startFake({ onRequest: refusing(`find ${machine.name}`, 'Forbidden') });
    expect((await refusal(provider.deleteVm(begun, context))).code).toBe('PermissionDenied');
    expect((await refusal(provider.deleteVm({ ...begun, providerSpec: {} }, context))).code).toBe('InvalidArgument');
  });

  it('looks for no name where the cloud has none', async () => {
    const { provider } = startFake({ hasNames: false });
    expect(await provider.deleteVm(begun, context)).toMatchObject({ state: 'gone' });
  });
});

describe('requests', () => {
  it('share a rate where Secrets have the same credentials, and get another client when they are replaced', async () => {
    const { provider, clients, secrets, rates } = startFake();
    const copied = { ...scope, credentials: [{ namespace: 'garden', name: 'copy' }] };

    await provider.listVms(scope, context);
    await provider.listVms(copied, context);
    secrets['cloud'] = { key: 'two' };
    await provider.listVms(scope, context);

    expect(clients).toEqual(['one', 'two']);
    expect(rates.map(({ credentials }) => credentials)).toEqual(['garden/cloud', 'garden/cloud']);
  });

  it('are sent more slowly when the cloud says that it will take few more', async () => {
    const { provider, rates, allow } = startFake({ perSecond: 80 });
    await provider.listVms(scope, context);

    allow({ kind: 'writes', left: 20, most: 200 });

    expect(rates[0]?.state()).toMatchObject({ perSecond: 32, throttled: 0 });
  });

  it('say how long to wait when the cloud throttles without saying it', async () => {
    const { provider, rates } = startFake({ perSecond: 1, onRequest: refusing('list', 'Slow') });

    const error = await refusal(provider.listVms(scope, context));

    expect(error).toMatchObject({ code: 'Unavailable', cloudCode: 'Slow' });
    expect(error.retryAfterMs).toBeGreaterThan(1_000);
    expect(rates[0]?.state()).toMatchObject({ throttled: 2 });
  });
});
