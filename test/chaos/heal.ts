/** The end of a run: everything that acts have broken or asked for is taken back, and everything has to converge. */
import { setTimeout as sleep } from 'node:timers/promises';
import { annotations } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import { names } from '../../api/names.ts';
import { nodes, podDisruptionBudgets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { listBlocked } from '../../temporal/blocked.ts';
import { approveOrphans, findHeldSweeps } from '../../temporal/schedules.ts';
import { refreshSignal } from '../../workflows/messages.ts';
import { startRequests } from '../bench/requests.ts';
import { until } from '../support/until.ts';
import type { Violation } from './checks.ts';
import { replayHistories } from './evidence.ts';
import { agents, classes, namespace, type World } from './world.ts';

/** The longest that everything may take to converge, ms: a run that cannot go on is ended after three minutes. */
const convergesWithinMs = 360_000;
/** How long it may take until a person helps, ms. */
const convergesAloneMs = 120_000;
/** How long nothing may be written, ms, and how long it may take until then. */
const rest = { lastsMs: 15_000, withinMs: 120_000 } as const;

/** Takes back what only people can take back. Acts that end by themselves have ended. */
export async function heal(world: World): Promise<void> {
  const { cloud, control, nodeControllers, proxies } = world;
  for (const proxy of [proxies.control, proxies.target]) {
    proxy.setRule();
    proxy.resetConnections();
  }
  await world.clock?.jump(0);
  await cloud.setFaults();
  await until('the API server answers', async () => (await control.list(machines, { namespace })).items.length >= 0);
  await nodeControllers.restartKubelets();
  await world.putSecret(0);
  // A changed class wakes whoever waits for the cloud. The sweep finds no orphan of older tags than those of a class.
  for (const name of classes) {
    await control.patch(
      machineClasses,
      { namespace, name },
      mergePatch({ providerSpec: { image: 'debian-12', tags: { team: null } } }),
    );
  }
  const unlimited = { [names.maxSurge]: null, [names.maxProvisioning]: null };
  for (const { metadata } of (await control.list(machineDeployments, { namespace })).items) {
    await control.patch(
      machineDeployments,
      { namespace, name: metadata.name },
      mergePatch({ metadata: { annotations: unlimited }, spec: { paused: false } }),
    );
  }
  for (const { metadata } of (await control.list(podDisruptionBudgets, { namespace })).items) {
    await control.delete(podDisruptionBudgets, metadata);
  }
  const unpreserved = mergePatch({ metadata: { annotations: { [annotations.preserve]: 'false' } } });
  for (const { metadata } of await world.machinesNow()) {
    // Nobody replaces a Machine without an owner that has failed.
    if (!metadata.ownerReferences?.length) await control.delete(machines, metadata).catch(() => undefined);
    if (metadata.annotations?.[annotations.preserve] !== undefined) {
      await control.patch(machines, metadata, unpreserved).catch(() => undefined); // it may be gone
    }
  }
}

/** Waits until everything is as it was asked for. Answers what is not, if it takes too long. @param tell progress */
export async function converge(world: World, tell: (what: string) => void): Promise<Violation[]> {
  let since = performance.now();
  let isHelped = false;
  const woken = new Set<string>();
  for (;;) {
    const left = await leftOf(world).catch((error: unknown) => [`cannot be read: ${error}`]);
    if (left.length === 0) {
      const broken = await wakeBroken(world, woken);
      if (broken.length === 0) return [];
      if (woken.size === 0) since = performance.now(); // nothing has asked them before
      for (const run of broken) woken.add(run);
      left.push(...broken);
    }
    const waitedMs = performance.now() - since;
    if (waitedMs > convergesWithinMs) {
      return left.map((where) => ({ what: 'has not converged', where, at: new Date().toISOString() }));
    }
    await approveHeld(world).catch(() => undefined);
    if (!isHelped && waitedMs > convergesAloneMs) {
      isHelped = true;
      tell(`not yet: ${left.join('; ')}`);
      await deleteWithoutVm(world);
    }
    await sleep(2_000);
  }
}

/** After a restore of etcd Machines are back whose VMs are gone. Where they are many, a person has to delete them. */
async function deleteWithoutVm({ cloud, control, machinesNow }: World): Promise<void> {
  const ids = (await cloud.vms()).map(({ id }) => id);
  for (const { metadata, spec } of await machinesNow()) {
    const { providerID } = spec ?? {};
    const hasVm = providerID === undefined || ids.some((id) => providerID.endsWith(`/${id}`));
    if (!hasVm) await control.delete(machines, metadata).catch(() => undefined); // it may be gone
  }
}

/**
 * Signals the open runs that cannot be replayed, as a change of their objects would: the controllers end a run only
 * when its tasks fail, and one at rest has none. Answers which they are.
 * @param woken those that were signalled before
 */
async function wakeBroken(world: World, woken: ReadonlySet<string>): Promise<string[]> {
  const runs = await replayHistories(world);
  const broken = runs.filter(({ closedAt, isRefused }) => closedAt === undefined && isRefused === true);
  return Promise.all(
    broken.map(async ({ run }) => {
      const [workflowId, runId] = run.split(' ');
      const what = `run ${runId} of ${workflowId} cannot be replayed`;
      const handle = world.temporal.workflow.getHandle(workflowId ?? '', runId);
      if (!woken.has(what)) await handle.signal(refreshSignal).catch(() => undefined); // it may have been ended
      return what;
    }),
  );
}

/** What is not yet as it was asked for. */
async function leftOf({ cloud, control, machinesNow, strangers, temporal }: World): Promise<string[]> {
  const present = await machinesNow();
  const isSettled = (each: (typeof present)[number]) =>
    each.status?.currentStatus?.phase === 'Running' && each.metadata.deletionTimestamp === undefined;
  const unsettled = present
    .filter((each) => !isSettled(each))
    .map(({ metadata, status }) => `Machine ${metadata.name} ${status?.currentStatus?.phase ?? ''}`);
  const deployments = (await control.list(machineDeployments, { namespace })).items;
  const sets = (await control.list(machineSets, { namespace })).items;
  const owners = [...deployments, ...sets].filter(({ metadata, spec, status }) => {
    const counts = [status?.replicas ?? 0, status?.availableReplicas ?? 0];
    return metadata.deletionTimestamp !== undefined || counts.some((count) => count !== (spec?.replicas ?? 0));
  });
  const uids = new Set(present.map(({ metadata }) => metadata.uid));
  const resources = (await cloud.resources()).filter(({ id, tags }) => {
    return !uids.has(tags[names.machineUid] ?? '') && !strangers.ids.includes(id);
  });
  const known = new Set([strangers.node, ...present.map(({ metadata }) => metadata.name)]);
  const gone = (await control.list(nodes)).items.filter(({ metadata }) => !known.has(metadata.name));
  const blocked = await listBlocked({ client: temporal, name: namespace });
  return [
    ...unsettled,
    ...owners.map(({ metadata, spec, status }) => {
      return `owner ${metadata.name} wants ${spec?.replicas}, has ${status?.replicas}, ${status?.availableReplicas} available`;
    }),
    ...resources.map(({ id }) => `${id} has no Machine`),
    ...gone.map(({ metadata }) => `Node ${metadata.name} has no Machine`),
    ...blocked.map(({ workflowId, blockedOn }) => `${workflowId} is blocked on ${blockedOn}`),
  ];
}

/** A person approves what a sweep holds: after a restore of etcd it has good reasons to ask. */
async function approveHeld({ temporal, approved }: World): Promise<void> {
  const installation = { client: temporal, name: namespace };
  for (const each of await findHeldSweeps(installation)) {
    const ids = each.held.orphans.flatMap(({ named }) => named.map(({ id }) => id));
    approved.push(...ids); // before: the answer may be lost
    await approveOrphans(installation, each, ids);
  }
}

/** Waits until Millwright writes nothing but Leases for a while. Answers what it writes, if it does not stop. */
export async function findRest({ auditLog }: World): Promise<Violation[]> {
  const since = performance.now();
  for (;;) {
    const requests = await startRequests(auditLog, agents.millwright);
    await sleep(rest.lastsMs);
    const { writes, events, byKind } = await requests();
    if (writes + events === 0) return [];
    if (performance.now() - since > rest.withinMs) {
      const where = `${JSON.stringify(byKind)}, ${events} Events in ${rest.lastsMs / 1_000} s`;
      return [{ what: 'writes at rest', where, at: new Date().toISOString() }];
    }
  }
}
