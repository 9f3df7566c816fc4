import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createVm, deleteResource } from '../../../activities/providers/simulated/client.ts';
import { names } from '../../../api/names.ts';
import { type SimulatedCloud, startSimulatedCloud } from '../../../deploy/local/simulated-cloud/admin.ts';
import { until } from '../../support/until.ts';
import type { CloudFault, Counterpart, FaultKind, Owner } from '../counterpart.ts';

type SimulatedFault = Parameters<SimulatedCloud['setFaults']>[0];

/** Less than `settleSeconds` of the provider, which is 2, ms. */
const lessThanSettled = 1_500;
const timeoutMs = 10_000;

type Faults = { readonly [K in FaultKind]: (fault: Extract<CloudFault, { kind: K }>) => SimulatedFault[] };

/** How the simulated cloud shows each fault of the suite. */
const faultsWith = (lateMs: number): Faults => ({
  lostAnswer: () => [
    { kind: 'lostAnswer', effect: 'done', operation: 'create', times: 1 },
    { kind: 'invisible', ms: lateMs },
    { kind: 'ignoreTokens' },
  ],
  slowAnswer: ({ ms }) => [{ kind: 'hang', effect: 'done', operation: 'create', ms }, { kind: 'ignoreTokens' }],
  listedLate: () => [{ kind: 'invisible', ms: lateMs }, { kind: 'ignoreTokens' }],
  noCapacity: () => [{ kind: 'capacity' }],
  halfWay: () => [{ kind: 'leak', operation: 'create' }],
  missingPermission: () => [{ kind: 'forbidden' }],
  throttled: ({ times }) => [{ kind: 'throttle', retryAfterSeconds: 1, times }],
  askedToWait: ({ retryAfterSeconds }) => [{ kind: 'throttle', retryAfterSeconds }],
});

/** Starts a simulated cloud for the suite. @param lateMs how late it lists VMs where that is the fault */
export async function startSimulatedCounterpart(lateMs = lessThanSettled): Promise<Counterpart> {
  const faults = faultsWith(lateMs);
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

  async function makeVm(owner: Owner, uid: string | undefined): Promise<string> {
    const name = `made-${randomUUID()}`;
    const all = { ...tagsOf[owner], ...(uid !== undefined && { [names.machineUid]: uid }) };
    const body = { ...place, token: name, name, tags: all, partTags: all, userData: 'none' };
    const node = { labels: {}, taints: [] };
    const { id, region } = await createVm(access, { ...body, node }, AbortSignal.timeout(timeoutMs));
    return `simulated:///${region}/${id}`;
  }

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
      return resources.map(({ id, kind, tags: each }) => ({ id, kind, uid: each[names.machineUid] }));
    },
    calls: async () => (await cloud.stats()).calls,
    async makeVms(owner, count, uid) {
      return Promise.all(Array.from({ length: count }, () => makeVm(owner, uid)));
    },
    async reset() {
      await cloud.setFaults();
      await until('the cloud is empty', async () => {
        const left = await cloud.resources();
        const ofVms = left.filter(({ kind }) => kind === 'vm');
        const doomed = ofVms.length > 0 ? ofVms : left; // the rest goes with its VM, and not before
        const signal = AbortSignal.timeout(timeoutMs);
        await Promise.all(doomed.map((each) => deleteResource(access, each, signal)));
        return left.length === 0;
      });
    },
    async stop() {
      await cloud.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
