/** Acts of the cloud: its faults, and what happens to VMs that exist. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import type { Fault } from '../../deploy/local/simulated-cloud/faults.ts';
import { type Acts, pickOne } from './act.ts';
import type { Dice } from './dice.ts';
import { hiding, type World } from './world.ts';

type FaultInput = z.input<typeof Fault>;

/** Name under which acts have the faults. */
const ofCloud = 'faults of the cloud';

/**
 * Each kind of fault but `hidden` and `notKept`. Most meet only some of the calls, so that something happens beside
 * them.
 */
const faults: readonly ((dice: Dice) => FaultInput)[] = [
  (dice) => ({ kind: 'latency', ms: 100, maxMs: dice.between(200, 5_000) }),
  (dice) => ({ kind: 'lostAnswer', effect: effectOf(dice), every: dice.between(1, 3) }),
  (dice) => ({ kind: 'hang', effect: effectOf(dice), every: dice.between(2, 4) }),
  (dice) => ({ kind: 'outage', how: dice.pick(['disconnect', 'unavailable'] as const) ?? 'disconnect', every: 2 }),
  (dice) => ({ kind: 'throttle', every: dice.between(1, 3) }),
  (dice) => ({ kind: 'forbidden', operation: operationOf(dice), times: dice.between(1, 3) }),
  (dice) => ({ kind: 'capacity', every: dice.between(1, 3) }),
  (dice) => ({ kind: 'quota', limit: dice.between(5, 12) }),
  (dice) => ({ kind: 'leak', every: dice.between(1, 2) }),
  () => ({ kind: 'neverJoin', every: 3 }),
  (dice) => ({ kind: 'die', afterMs: dice.between(500, 10_000), every: 3 }),
  (dice) => ({ kind: 'vanish', afterMs: dice.between(500, 10_000), every: 3 }),
  (dice) => ({ kind: 'invisible', ms: dice.between(200, 1_000) }),
  () => ({ kind: 'ignoreTokens' }),
];

function effectOf(dice: Dice): 'done' | 'none' {
  return dice.below(2) === 0 ? 'done' : 'none';
}

function operationOf(dice: Dice): 'create' | 'list' | 'get' | 'delete' {
  return dice.pick(['create', 'list', 'get', 'delete'] as const) ?? 'get';
}

/** A VM that acts may touch. */
async function vmOf(world: World, dice: Dice) {
  const names = new Set((await world.touchable()).map(({ metadata }) => metadata.name));
  const vms = (await world.cloud.vms()).filter(({ name }) => names.has(name));
  return pickOne(
    dice,
    vms.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    'VM',
  );
}

export const cloudActs: Acts = {
  'cloud faults': {
    weight: 10,
    async run(world, dice, tell) {
      const chosen = Array.from({ length: dice.below(3) }, () => pickOne(dice, faults, 'fault')(dice));
      await world.use('change of faults', [ofCloud], async () => {
        tell(chosen.length === 0 ? 'the cloud is well' : `the cloud has ${JSON.stringify(chosen)}`);
        await world.cloud.setFaults(...chosen);
      });
    },
  },
  'hide VMs': {
    weight: 1,
    async run(world, dice, tell) {
      const ms = dice.between(1_000, 10_000);
      await world.use(hiding, [ofCloud], async () => {
        tell(`the cloud denies for ${ms} ms what it makes from now on`);
        await world.cloud.setFaults({ kind: 'hidden', since: new Date().toISOString() });
        await sleep(ms);
        await world.cloud.setFaults();
      });
    },
  },
  'kill a VM': {
    weight: 2,
    async run(world, dice, tell) {
      const { id, name } = await vmOf(world, dice);
      tell(`the kubelet of ${id} (${name}) falls silent`);
      await world.cloud.killVm(id);
    },
  },
  'restart a VM': {
    weight: 1,
    async run(world, dice, tell) {
      const { id, name } = await vmOf(world, dice);
      tell(`${id} (${name}) boots anew`);
      await world.cloud.restartVm(id);
    },
  },
  'interrupt a VM': {
    weight: 1,
    async run(world, dice, tell) {
      const { id, name } = await vmOf(world, dice);
      const afterMs = dice.between(1_000, 20_000);
      tell(`the cloud takes ${id} (${name}) away in ${afterMs} ms`);
      await world.cloud.interruptVm(id, afterMs);
    },
  },
};
