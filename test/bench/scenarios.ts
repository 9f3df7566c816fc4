/** What is measured: each scenario prepares, then acts while the measurement runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { blockedDrains } from './blocked-drains.ts';
import type { Scenario } from './scenario.ts';
import type { World } from './world.ts';

/** How long nothing is done to machines at rest, ms. */
const restMs = 60_000;
/** How long a fleet is left alone so that it comes to rest, ms. */
const settleMs = 5_000;

/** After whatever was done to the machines. */
export const idle: Scenario = {
  description: 'N machines at rest, for a minute',
  prepare: () => sleep(settleMs),
  async act(_world, _count, tell) {
    tell(`a minute of rest, until ${new Date(Date.now() + restMs).toLocaleTimeString()}`);
    await sleep(restMs);
  },
};

async function createAll(world: World, count: number, tell: (what: string) => void): Promise<void> {
  await world.startMillwright();
  await world.createDeployment(count);
  await world.untilMachines(count, 'first', (done) => tell(`${done} machines run`));
  await sleep(settleMs);
}

export const scenarios: Readonly<Record<string, Scenario>> = {
  create: {
    description: 'a MachineDeployment goes from 0 to N',
    async prepare(world) {
      await world.startMillwright();
      await world.createDeployment(0);
      await world.untilMachines(0, 'first', () => undefined);
    },
    async act(world, count, tell) {
      await world.scale(count);
      await world.untilMachines(count, 'first', (done) => tell(`${done} machines run`));
    },
  },
  rolling: {
    description: 'N machines get a new template, with maxSurge 10 % and maxUnavailable 0',
    prepare: createAll,
    async act(world, count, tell) {
      await world.changeTemplate();
      await world.untilMachines(count, 'second', (done) => tell(`${done} machines are replaced`));
    },
    aftermathMs: 3_000, // the Nodes lose their marks
  },
  'scale-down': {
    description: 'a MachineDeployment goes from N to 0',
    prepare: createAll,
    async act(world, _count, tell) {
      await world.scale(0);
      await world.untilMachines(0, 'first', (left) => tell(`${left} machines are left`));
    },
  },
  idle: { ...idle, prepare: createAll },
  restart: {
    description: 'N machines at rest while Millwright is killed and starts again; the wall time ends when it is ready',
    prepare: createAll,
    async act(world) {
      await world.killMillwright();
      await world.startMillwright();
    },
    aftermathMs: 20_000,
  },
  'blocked-drains': blockedDrains,
};
