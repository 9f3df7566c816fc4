/** Acts that break our processes, their servers, the network and the clock for a while. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isObject, unexecuted, without } from '../faults/not-kept.ts';
import { type Fault, type FaultProxy, type Rule, type SeenRequest, statusBody } from '../faults/proxy.ts';
import { aroundEtcd, aroundTemporal, backUp, putBack } from '../support/databases.ts';
import { type Acts, pickOne } from './act.ts';
import type { Dice } from './dice.ts';
import type { World } from './world.ts';

/** How long something is away or slow, ms: shorter and longer than our processes wait for an answer. */
const outageMs = (dice: Dice) => dice.pick([500, 2_000, 5_000, 12_000]) ?? 0;

/** Names of what is down while a database is backed up or put back. */
const aroundNames = {
  temporal: ['temporal'],
  etcd: ['etcd', 'kube-apiserver of cluster-1', 'kube-controller-manager of cluster-1'],
} as const;

async function aroundDatabase(world: World, which: 'temporal' | 'etcd', change: typeof backUp): Promise<void> {
  if (which === 'temporal') return aroundTemporal(world.stack, change);
  const [{ controllerManager }] = world.stack.clusters;
  await controllerManager?.kill('SIGKILL');
  await aroundEtcd(world.stack, change);
  await controllerManager?.restart();
  if (change === putBack) await world.nodeControllers.restartKubelets();
}

/** Backs all databases up, for a restore may be the first act. */
export async function backUpDatabases(world: World): Promise<void> {
  for (const which of ['temporal', 'etcd'] as const) await aroundDatabase(world, which, backUp);
}

/** What can happen to a request on its way to an API server, for a share of the requests. */
const requestFaults: Readonly<Record<string, Fault>> = {
  'loses answers': { kind: 'lose-answer' },
  'resets connections': { kind: 'reset' },
  'does not answer': { kind: 'hang' },
  'answers 500': { kind: 'answer', status: 500, body: statusBody(500, 'InternalError') },
  'answers 429': {
    kind: 'answer',
    status: 429,
    headers: { 'retry-after': '1' },
    body: statusBody(429, 'TooManyRequests'),
  },
  'is slow': { kind: 'delay', ms: 1_500 },
  'is behind': { kind: 'lag', ms: 3_000 },
};

/** Breaks every n-th request that is of no Lease: a leader would only end. */
async function breakRequests(proxy: FaultProxy, fault: Fault, every: number, ms: number): Promise<void> {
  let count = 0;
  const isMet = ({ url }: SeenRequest) => !url.pathname.includes('/leases') && (count += 1) % every === 0;
  proxy.setRule((request) => (isMet(request) ? fault : undefined));
  await sleep(ms);
  proxy.setRule();
  proxy.resetConnections(); // ends what hangs
}

/** Nothing of a write is kept: it is not executed. */
const everything = 'anything';
const ofAll = [everything, 'metadata.annotations', 'metadata.finalizers', 'status'] as const;

/**
 * What an API server may not keep of writes to these resources. Left out are labels of Machines: their set releases
 * those that have none, and is frozen until people delete them.
 */
const losable = {
  machines: { side: 'control', fields: [...ofAll, 'spec.providerID'] },
  machinesets: { side: 'control', fields: [...ofAll, 'spec.replicas', 'spec.template'] },
  machinedeployments: { side: 'control', fields: ofAll },
  nodes: { side: 'target', fields: [...ofAll, 'metadata.labels', 'spec.taints', 'spec.unschedulable'] },
} as const;

/** Confirms writes to a resource without keeping a field of them, or without executing them at all. */
function lose(resource: string, field: string): Rule {
  return (request) => {
    if (request.method === 'GET' || !request.url.pathname.split('/').includes(resource)) return undefined;
    return {
      kind: 'alter',
      body(sent, query) {
        if (!isObject(sent)) return sent;
        if (field === everything) return unexecuted(request, sent, query);
        return without(sent, field.split('.'))?.left ?? sent;
      },
    };
  };
}

export const outages: Acts = {
  kill: {
    weight: 10,
    async run(world, dice, tell) {
      const victim = pickOne(dice, world.victims, 'process');
      const ms = outageMs(dice);
      await world.use(`kill of ${victim.name}`, [victim.name], async () => {
        tell(`kills ${victim.name}, for ${ms} ms if it does not come back by itself`);
        await victim.kill();
        await sleep(ms);
        await victim.comeBack();
      });
    },
  },
  freeze: {
    weight: 8,
    async run(world, dice, tell) {
      const victim = pickOne(dice, world.victims, 'process');
      const ms = outageMs(dice);
      await world.use(`freeze of ${victim.name}`, [victim.name], async () => {
        tell(`freezes ${victim.name} for ${ms} ms`);
        const { pid } = victim;
        process.kill(pid, 'SIGSTOP');
        await sleep(ms);
        if (victim.pid === pid) process.kill(pid, 'SIGCONT');
      });
    },
  },
  'back up': {
    weight: 2,
    async run(world, dice, tell) {
      const which = dice.pick(['temporal', 'etcd'] as const) ?? 'etcd';
      await world.use(`backup of ${which}`, aroundNames[which], async () => {
        tell(`backs up ${which}`);
        await aroundDatabase(world, which, backUp);
      });
    },
  },
  restore: {
    weight: 2,
    async run(world, dice, tell) {
      const which = dice.pick(['temporal', 'etcd'] as const) ?? 'etcd';
      await world.use(`restore of ${which}`, aroundNames[which], async () => {
        tell(`restores ${which} from its backup`);
        await aroundDatabase(world, which, putBack);
      });
    },
  },
  'restore both': {
    weight: 1,
    async run(world, _, tell) {
      const { proxies } = world;
      const sides = Object.values(proxies);
      await world.use(
        'cut to all',
        Object.keys(proxies).map((side) => `proxy of ${side}`),
        () =>
          world.use('restore of temporal', aroundNames.temporal, () =>
            world.use('restore of etcd', aroundNames.etcd, async () => {
              tell('restores temporal and etcd from their backups, before our processes reach one of them');
              for (const proxy of sides) await proxy.goDown();
              try {
                await aroundDatabase(world, 'temporal', putBack);
                await aroundDatabase(world, 'etcd', putBack);
              } finally {
                for (const proxy of sides) await proxy.comeUp();
              }
            }),
          ),
      );
    },
  },
  'break requests': {
    weight: 4,
    async run(world, dice, tell) {
      const side = dice.pick(['control', 'target'] as const) ?? 'control';
      const [what, fault] = pickOne(dice, Object.entries(requestFaults), 'fault');
      const [every, ms] = [dice.between(1, 4), outageMs(dice)];
      await world.use(`broken requests of ${side}`, [`proxy of ${side}`], async () => {
        tell(`the ${side} API server ${what}: every ${every}. request, for ${ms} ms`);
        await breakRequests(world.proxies[side], fault, every, ms);
      });
    },
  },
  'lose writes': {
    weight: 3,
    async run(world, dice, tell) {
      const [resource, { side, fields }] = pickOne(dice, Object.entries(losable), 'resource');
      const [field, ms] = [pickOne<string>(dice, fields, 'field'), outageMs(dice)];
      await world.use(`lost writes of ${side}`, [`proxy of ${side}`], async () => {
        tell(`the ${side} API server confirms writes to ${resource}, and does not keep ${field}, for ${ms} ms`);
        world.proxies[side].setRule(lose(resource, field));
        await sleep(ms);
        world.proxies[side].setRule();
      });
    },
  },
  'cut the network': {
    weight: 3,
    async run(world, dice, tell) {
      const side = dice.pick(['control', 'target', 'temporal'] as const) ?? 'control';
      const ms = outageMs(dice);
      await world.use(`cut to ${side}`, [`proxy of ${side}`], async () => {
        tell(`cuts our processes off from ${side} for ${ms} ms`);
        await world.proxies[side].goDown();
        await sleep(ms);
        await world.proxies[side].comeUp();
      });
    },
  },
  'silence the network': {
    weight: 2,
    async run({ proxies }, dice, tell) {
      const side = dice.pick(['control', 'target'] as const) ?? 'control';
      tell(`open connections to ${side} become half-open`);
      proxies[side].silenceConnections();
    },
  },
  'delay Temporal': {
    weight: 2,
    async run(world, dice, tell) {
      const [delayMs, ms] = [dice.between(100, 1_000), outageMs(dice)];
      await world.use('delay of temporal', ['proxy of temporal'], async () => {
        tell(`Temporal is ${delayMs} ms away for ${ms} ms`);
        world.proxies.temporal.delay(delayMs);
        await sleep(ms);
        world.proxies.temporal.delay(0);
      });
    },
  },
  'clock jump': {
    weight: 3,
    async run(world, dice, tell) {
      const seconds = dice.pick([-3_600, -60, 60, 3_600]) ?? 0;
      const ms = outageMs(dice);
      await world.use('clock jump', ['clock'], async () => {
        tell(`the clock of our processes jumps by ${seconds} s, and back after ${ms} ms`);
        await world.clock?.jump(seconds);
        await sleep(ms);
        await world.clock?.jump(0);
      });
    },
  },
};
