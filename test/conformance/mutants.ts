/** Providers that break one promise each. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createProvider } from '../../activities/providers/kit/provider.ts';
import { type Provider, type ProviderDeps, ProviderError } from '../../activities/providers/provider.ts';
import { simulatedCloud } from '../../activities/providers/simulated/index.ts';
import type { FailureCode } from '../../api/failures.ts';
import type { VmDeletion } from '../../api/provider.ts';
import { hurried } from '../support/hurried.ts';
import { heartbeatTimeoutMs } from './local-calls.ts';

interface Mutant {
  /** What it does. */
  readonly title: string;
  /** Title of the case that has to fail. */
  readonly caughtBy: string;
  /** What is seen. */
  readonly seen: RegExp;
  make(deps: ProviderDeps): Provider;
}

/** What a good provider would be. */
export const cloud = hurried(simulatedCloud, 10);
const gone: VmDeletion = { state: 'gone', nodeNames: [] };

export const mutants: readonly Mutant[] = [
  {
    title: 'makes another VM when it is asked again',
    caughtBy: 'create again',
    seen: /answers another VM/,
    make: changed((good) => {
      const known = new Set<string>();
      return {
        ensureVm(request, context) {
          const { machine } = request;
          const other = { machine: { ...machine, uid: randomUUID() }, token: randomUUID() };
          const isKnown = known.has(machine.uid);
          known.add(machine.uid);
          return good.ensureVm({ ...request, ...(isKnown && other) }, context);
        },
      };
    }),
  },
  {
    title: 'does not wait for what an earlier attempt has made',
    caughtBy: 'lost answer',
    seen: /there are 2 VMs/,
    make: changed((good) => ({
      ensureVm: (request, context) => good.ensureVm({ ...request, outcomeUnknown: false }, { ...context, attempt: 1 }),
    })),
  },
  {
    title: 'does not wait for what an earlier activity has made',
    caughtBy: 'lost answer, asked later',
    seen: /there are 2 VMs/,
    make: changed((good) => ({
      ensureVm: (request, context) => good.ensureVm({ ...request, outcomeUnknown: false }, context),
    })),
  },
  {
    title: 'looks for VMs by UID alone',
    caughtBy: 'a VM without UID tag',
    seen: /it answers simulated/,
    make: changed((good) => ({
      ensureVm: (request, context) => good.ensureVm(without(request, 'providerID'), context),
    })),
  },
  {
    title: 'takes every VM that a Machine names',
    caughtBy: 'a VM of somebody else',
    seen: /ensureVm was not refused/,
    make: changed((good) => ({
      ensureVm: (request, context) => good.ensureVm(without(request, 'providerID'), context),
    })),
  },
  {
    title: 'creates a VM that has to exist',
    caughtBy: 'a VM that has to exist',
    seen: /ensureVm was not refused/,
    make: changed((good) => ({
      ensureVm: (request, context) => good.ensureVm(without(request, 'mustExist'), context),
    })),
  },
  {
    title: 'forgets disks, NICs and addresses',
    caughtBy: 'a create that fails half-way',
    seen: /there is still disk/,
    make: (deps) =>
      createProvider(
        {
          ...cloud,
          findOwn: async (...args) => (await cloud.findOwn(...args)).filter(({ kind }) => kind === 'vm'),
        },
        deps,
      ),
  },
  {
    title: 'says gone before the VM is',
    caughtBy: 'delete twice',
    seen: /there is still vm/,
    make: changed(() => ({ deleteVm: async () => gone })),
  },
  {
    title: 'says gone while the VM may not be listed yet',
    caughtBy: 'delete in a cloud that lists the VM late',
    seen: /there is still vm/,
    make: changed((good) => ({
      deleteVm: (request, context) => good.deleteVm({ ...request, outcomeUnknown: false }, context),
    })),
  },
  {
    title: 'deletes VMs whose Nodes nobody knows',
    caughtBy: 'delete before the Node is known',
    seen: /it answers gone/,
    make: changed((good) => ({
      deleteVm: (request, context) => good.deleteVm(without(request, 'nodeNames'), context),
    })),
  },
  {
    title: 'does not look for the VM of another system',
    caughtBy: 'delete a Machine that another system has begun to create',
    seen: /it answers gone and no VM/,
    make: changed((good) => ({
      deleteVm: (request, context) => good.deleteVm(without(request, 'mayBeUntagged'), context),
    })),
  },
  {
    title: 'deletes for the sweep whatever the UID is',
    caughtBy: 'delete one resource for the sweep',
    seen: /deleteVm was not refused/,
    make: changed((good) => ({
      deleteVm: ({ only, ...request }, context) =>
        good.deleteVm({ ...request, ...(only && { providerID: only.id }) }, context),
    })),
  },
  {
    title: 'does not say which VM has a disk',
    caughtBy: 'create',
    seen: /listVms says that disk .* is attached to no VM/,
    make: changed((good) => ({
      async listVms(request, context) {
        const { items, ...page } = await good.listVms(request, context);
        return { ...page, items: items.map((item) => without(item, 'attachedTo')) };
      },
    })),
  },
  {
    title: 'lists disks, NICs and addresses without their UID',
    caughtBy: 'create',
    seen: /listVms answers nothing as uid of disk /,
    make: changed((good) => ({
      async listVms(request, context) {
        const { items, ...page } = await good.listVms(request, context);
        return { ...page, items: items.map((item) => (item.kind === 'vm' ? item : without(item, 'uid'))) };
      },
    })),
  },
  {
    title: 'lists VMs alone',
    caughtBy: 'create',
    seen: /listVms lacks disk /,
    make: changed((good) => ({
      async listVms(request, context) {
        const { items, ...page } = await good.listVms(request, context);
        return { ...page, items: items.filter(({ kind }) => kind === 'vm') };
      },
    })),
  },
  {
    title: 'answers gone for every disk of the sweep',
    caughtBy: 'delete one disk, NIC or address for the sweep',
    seen: /deleteVm was not refused/,
    make: changed((good) => ({
      deleteVm: async (request, context) =>
        request.only === undefined || request.only.kind === 'vm' ? good.deleteVm(request, context) : gone,
    })),
  },
  {
    title: 'deletes for the sweep all with the UID of a disk',
    caughtBy: 'delete one disk, NIC or address for the sweep',
    seen: /of \d+ resources it has deleted \d+/,
    make: changed((good) => ({
      async deleteVm({ only, ...request }, context) {
        if (only?.uid === undefined) return good.deleteVm(request, context);
        const answer = await good.deleteVm({ ...request, only }, context);
        const machine = { ...request.machine, uid: only.uid };
        return answer.state === 'gone' ? good.deleteVm({ ...request, machine }, context) : answer;
      },
    })),
  },
  {
    title: 'lists the first page alone',
    caughtBy: 'list many VMs beside those of another cluster',
    seen: /it lists \d+ of \d+ VMs/,
    make: changed((good) => ({
      listVms: async (request, context) => ({ items: (await good.listVms(request, context)).items }),
    })),
  },
  {
    title: 'lists the VMs of another cluster',
    caughtBy: 'list many VMs beside those of another cluster',
    seen: /without the tags of the class/,
    make: changed((good) => ({
      async listVms(request, context) {
        const others = { ...(request.providerSpec as object), tags: { 'kubernetes.io/cluster/another': '1' } };
        const { items } = await good.listVms({ ...request, providerSpec: others }, context);
        const own = await good.listVms(request, context);
        return { ...own, items: [...own.items, ...(request.page === undefined ? items : [])] };
      },
    })),
  },
  {
    title: 'finds every class valid',
    caughtBy: 'bad class',
    seen: /finds no problem/,
    make: changed(() => ({ validateClass: async () => ({ problems: [] }) })),
  },
  {
    title: 'says gone when it may not delete',
    caughtBy: 'missing permission',
    seen: /deleteVm was not refused/,
    make: changed((good) => ({
      deleteVm: (request, context) => good.deleteVm(request, context).catch(() => gone),
    })),
  },
  {
    title: 'takes a full cloud for one that does not answer',
    caughtBy: 'no capacity',
    seen: /failed with Unavailable/,
    make: failing((error) => withCode(error, 'Unavailable', error.message)),
  },
  {
    title: 'has the token in its error messages',
    caughtBy: 'canary secrets',
    seen: /a payload has a secret: .*<secret>/,
    make: knowing((good, token) => ({
      ensureVm: (request, context) =>
        good.ensureVm(request, context).catch((error: ProviderError) => {
          throw withCode(error, error.code, `${error.message} with ${token()}`);
        }),
    })),
  },
  {
    title: 'has the token in its answers',
    caughtBy: 'canary secrets',
    seen: /a payload has a secret: .*<secret>/,
    make: knowing((good, token) => ({
      ensureVm: async (request, context) => ({ ...(await good.ensureVm(request, context)), lastKnownState: token() }),
    })),
  },
  {
    title: 'has the token in the details of its heartbeats',
    caughtBy: 'canary secrets',
    seen: /a payload has a secret: .*<secret>/,
    make: knowing((good, token) => {
      let isFirst = true;
      return {
        async ensureVm(request, context) {
          const vm = await good.ensureVm(request, context);
          context.heartbeat({ with: token() });
          if (isFirst) await sleep(heartbeatTimeoutMs);
          isFirst = false;
          return vm;
        },
      };
    }),
  },
  {
    title: 'does not say how long a throttling cloud wants to be left alone',
    caughtBy: 'throttling with a pause',
    seen: /retryAfterMs is undefined/,
    make: failing((error) => withCode(error, error.code, error.message)),
  },
];

/** Those that the suite has to see from outside: by what they answer, in a cloud that lists a new VM late. */
export const mutantsFromOutside: readonly Mutant[] = [
  {
    title: 'answers a provider ID without the cloud',
    caughtBy: 'create',
    seen: /^the provider ID is "vm-.*<cloud>:\/\//,
    make: changed((good) => ({
      async ensureVm(request, context) {
        const vm = await good.ensureVm(request, context);
        return { ...vm, providerID: vm.providerID.replace(/.*\//, '') };
      },
    })),
  },
  {
    title: 'says gone while the VM is being deleted',
    caughtBy: 'delete twice',
    seen: /^deleteVm answers gone, and listVms has vm /,
    make: changed((good) => ({
      async deleteVm(request, context) {
        const ends = AbortSignal.timeout(300); // longer than it takes for nobody, and shorter than for a VM
        return good.deleteVm(request, { ...context, signal: ends }).catch((error: unknown) => {
          if (ends.aborted) return gone;
          throw error;
        });
      },
    })),
  },
  {
    title: 'lists whatever the tags are',
    caughtBy: 'list by tags of another cluster',
    seen: /it lists [1-9]\d* resources, such as .*the sweep would take them for its own/,
    make: (deps) => {
      const good = createProvider(cloud, deps);
      let tags: object | undefined;
      return {
        ...good,
        ensureVm(request, context) {
          ({ tags } = request.providerSpec as { tags: object });
          return good.ensureVm(request, context);
        },
        listVms: (request, context) =>
          good.listVms(
            { ...request, providerSpec: { ...(request.providerSpec as object), ...(tags && { tags }) } },
            context,
          ),
      };
    },
  },
  {
    title: 'waits too little for its cloud to list a VM',
    caughtBy: 'create',
    seen: /^listVms has no VM of the Machine, also 0\.\d s later.*raise them/,
    make: (deps) => createProvider({ ...cloud, settleSeconds: 0 }, deps),
  },
  {
    title: 'says gone while the VM may not be listed yet',
    caughtBy: 'leave nothing',
    seen: /^after gone there was vm /,
    make: changed((good) => ({
      deleteVm: (request, context) => good.deleteVm({ ...request, outcomeUnknown: false }, context),
    })),
  },
];

/** The simulated provider with other functions. */
function changed(change: (good: Provider) => Partial<Provider>): Mutant['make'] {
  return (deps) => {
    const good = createProvider(cloud, deps);
    return { ...good, ...change(good) };
  };
}

/** The simulated provider with functions that use the token which was read last. */
function knowing(change: (good: Provider, token: () => string) => Partial<Provider>): Mutant['make'] {
  return (deps) => {
    let token = '';
    const readSecret: ProviderDeps['readSecret'] = async (ref, signal) => {
      const data = await deps.readSecret(ref, signal);
      token = data?.token?.toString() ?? token;
      return data;
    };
    return changed((good) => change(good, () => token))({ ...deps, readSecret });
  };
}

/** The simulated provider with other errors of `ensureVm`. */
function failing(translate: (error: ProviderError) => ProviderError): Mutant['make'] {
  return changed((good) => ({
    ensureVm: (request, context) =>
      good.ensureVm(request, context).catch((error: unknown) => {
        throw error instanceof ProviderError ? translate(error) : error;
      }),
  }));
}

/** Without the pause that the cloud asks for. */
function withCode({ cloudCode, requestId }: ProviderError, code: FailureCode, message: string): ProviderError {
  return new ProviderError(code, message, { cloudCode, requestId });
}

function without<T extends object, K extends keyof T>(value: T, field: K): Omit<T, K> {
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== field)) as Omit<T, K>;
}
