import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createVm } from '../../../activities/providers/simulated/client.ts';
import { names } from '../../../api/names.ts';
import { type SimulatedCloud, startSimulatedCloud } from '../../../deploy/local/simulated-cloud/admin.ts';
import type { CloudFault, Counterpart, FaultKind, Owner } from '../counterpart.ts';

type SimulatedFault = Parameters<SimulatedCloud['setFaults']>[0];

const timeoutMs = 10_000;

/** How the simulated cloud shows each fault of the suite. */
const faults: { readonly [K in FaultKind]: (fault: Extract<CloudFault, { kind: K }>) => SimulatedFault[] } = {
  lostAnswer: ({ ms }) => [
    { kind: 'lostAnswer', effect: 'done', operation: 'create', times: 1 },
    { kind: 'invisible', ms },
    { kind: 'ignoreTokens' },
  ],
  slowAnswer: ({ ms }) => [{ kind: 'hang', effect: 'done', operation: 'create', ms }, { kind: 'ignoreTokens' }],
  listedLate: ({ ms }) => [{ kind: 'invisible', ms }, { kind: 'ignoreTokens' }],
  noCapacity: () => [{ kind: 'capacity' }],
  halfWay: () => [{ kind: 'leak', operation: 'create' }],
  missingPermission: () => [{ kind: 'forbidden' }],
  throttled: ({ times }) => [{ kind: 'throttle', retryAfterSeconds: 1, times }],
  askedToWait: ({ retryAfterSeconds }) => [{ kind: 'throttle', retryAfterSeconds }],
};

/** Starts a simulated cloud for the suite. */
export async function startSimulatedCounterpart(): Promise<Counterpart> {
  const dir = await mkdtemp(join(tmpdir(), 'millwright-conformance-cloud-'));
  const token = `canary-token-${randomUUID()}`;
  const cloud = await startSimulatedCloud({ dir, tokens: [token], bootMs: 200, deleteMs: 500 });
  const access = { endpoint: cloud.url, token };
  const tags = { 'kubernetes.io/cluster/conformance': '1' };
  const place = { region: 'here', machineType: 'small' as const };
  const tagsOf: Record<Owner, Record<string, string>> = {
    class: tags,
    another: { 'kubernetes.io/cluster/another': '1' },
    nobody: {},
  };

  const makeVm: (...args: [Owner, Parameters<Counterpart['makeVms']>[2]]) => Promise<string> = async (
    owner,
    of = {},
  ) => {
    const token = randomUUID();
    const { uid, name = `made-${token}` } = of;
    const all = { ...tagsOf[owner], ...(uid !== undefined && { [names.machineUid]: uid }) };
    const body = { ...place, token, name, tags: all, partTags: all, userData: 'none' };
    const node = { labels: {}, taints: [] };
    const { id, region } = await createVm(access, { ...body, node }, AbortSignal.timeout(timeoutMs));
    return `simulated:///${region}/${id}`;
  };

  return {
    providerSpec: { endpoint: cloud.url, ...place, tags },
    credentials: { token },
    lacks: {},
    async setFault(fault) {
      const shown = fault === undefined ? [] : (faults[fault.kind] as (fault: CloudFault) => SimulatedFault[])(fault);
      await cloud.setFaults(...shown);
    },
    async things() {
      const resources = await cloud.resources();
      return resources.map(({ id, kind, tags: each, vm }) => ({
        ...{ id, kind, uid: each[names.machineUid] },
        ...(vm !== undefined && { attachedTo: vm }),
      }));
    },
    manyVms: 150,
    calls: async () => (await cloud.stats()).calls,
    async makeVms(owner, count, of) {
      return Promise.all(Array.from({ length: count }, () => makeVm(owner, of)));
    },
    async reset() {
      await cloud.setFaults();
      await cloud.reset();
    },
    async stop() {
      await cloud.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
