/** What `ensureVm` promises. */
import { failures, isFailureCode } from '../../../api/failures.ts';
import { vmOf } from '../../../api/provider-id.ts';
import { until } from '../../support/until.ts';
import { check } from '../breach.ts';
import { inShort } from '../calls.ts';
import type { Case } from '../case.ts';
import { idOf, type World } from '../world.ts';

/** Longer than the pause between two heartbeats, and than a cloud takes to answer, ms. */
const slowMs = 8_000;

/** A call that has failed after so long is not repeated by the server but by Millwright, ms. */
const quietMs = 10_000;

export const creationCases: readonly Case[] = [
  {
    title: 'create',
    promise:
      'ensureVm makes one VM and returns it, with the provider ID of its Node. The VM and its parts carry the UID, and ' +
      'listVms has them with it. attachedTo says which VM has a part, where it is known.',
    section: 'ensureVm',
    needs: [],
    async run(world) {
      const machine = world.newMachine();
      const vm = await world.ensure(machine);
      checkProviderID(vm.providerID);

      const only = await world.onlyVm();
      check(isSame(vm.providerID, only.id), `the answer names ${vm.providerID}, and there is ${only.id}`);
      const untagged = (await world.existing()).filter(({ uid }) => uid !== machine.uid);
      check(untagged.length === 0, `without the UID: ${untagged.map(({ kind, id }) => `${kind} ${id}`).join(', ')}`);
      const listed = (await world.list()).filter(({ kind, uid }) => kind === 'vm' && uid === machine.uid);
      const ids = listed.map(({ id }) => id);
      check(ids.length === 1 && vmOf(ids[0] ?? '') === vmOf(vm.providerID), `listVms has [${ids.join(', ')}]`);
      check(listed[0]?.alive !== false, 'listVms says that the VM is not alive');
      await checkParts(world);
    },
  },
  {
    title: 'create again',
    promise: 'Asked again, with or without its provider ID however that is spelled, ensureVm returns the same VM.',
    section: 'ensureVm',
    needs: [],
    async run(world) {
      const machine = world.newMachine();
      const { providerID, lastKnownState } = await world.ensure(machine);

      const known = { providerID, ...(lastKnownState !== undefined && { lastKnownState }) };
      const spelled = { providerID: respell(providerID) };
      for (const changes of [{}, known, spelled]) {
        const again = await world.ensure(machine, changes);
        check(
          isSame(again.providerID, idOf(providerID)),
          `asked again with ${JSON.stringify(changes)} it answers another VM, ${again.providerID} and not ${providerID}`,
        );
      }
      await world.onlyVm();
    },
  },
  {
    title: 'a VM without UID tag',
    promise: 'The VM that providerID names is the Machine’s, also without UID tag: no second one, and it is deleted.',
    section: "Which VMs are a Machine's",
    needs: ['cloud'],
    async run(world) {
      const [providerID = ''] = (await world.cloud?.makeVms('class', 1)) ?? [];
      const machine = world.newMachine();
      const vm = await world.ensure(machine, { providerID: respell(providerID) });

      check(isSame(vm.providerID, idOf(providerID)), `it answers ${vm.providerID} for ${providerID}`);
      await world.onlyVm();
      await world.remove(world.newMachine(), { providerID: `another-cloud:///here/${idOf(providerID)}` });
      await world.onlyVm();
      await world.remove(machine, { providerID: respell(providerID) });
      await world.checkNothingExists();
    },
  },
  {
    title: 'a VM of somebody else',
    promise:
      'A VM that providerID names, and that has neither the tags of the class nor the UID, is somebody else’s, whatever its name ' +
      'is: ensureVm and deleteVm fail with FailedPrecondition, and leave it alone.',
    section: "Which VMs are a Machine's",
    needs: ['cloud'],
    async run(world) {
      const machine = world.newMachine();
      const [providerID = ''] = (await world.cloud?.makeVms('another', 1, { name: machine.name })) ?? [];
      await world.refusal('ensureVm', world.creation(machine, { providerID }), 'FailedPrecondition');
      await world.refusal('deleteVm', world.deletion(machine, { providerID }), 'FailedPrecondition');

      const { id } = await world.onlyVm();
      check(isSame(providerID, id), `there is ${id} and not ${providerID}`);
      await world.remove(machine);
    },
  },
  {
    title: 'a VM that has to exist',
    promise: 'With mustExist, ensureVm returns the VM that there is, and creates none: it fails with NotFound.',
    section: 'ensureVm',
    needs: [],
    async run(world) {
      const machine = world.newMachine();
      const { providerID } = await world.ensure(machine);
      await world.onlyVm();
      const asked = { providerID, mustExist: true, outcomeUnknown: false } as const; // its Node runs, so it is listed
      const vm = await world.ensure(machine, asked);
      check(isSame(vm.providerID, idOf(providerID)), `it answers ${vm.providerID} for ${providerID}`);

      await world.remove(machine, { providerID });
      await world.refusal('ensureVm', world.creation(machine, asked), 'NotFound');
      await world.checkNothingExists();
    },
  },
  {
    title: 'a surplus VM',
    promise: 'Of several VMs the one that providerID names survives.',
    section: 'ensureVm',
    needs: ['cloud'],
    async run(world) {
      const machine = world.newMachine();
      const { providerID } = await world.ensure(machine);
      const [surplus = ''] = (await world.cloud?.makeVms('class', 1, { uid: machine.uid })) ?? [];
      const vm = await world.ensure(machine, { providerID: surplus });

      await checkSurvivor(world, { vm, kept: surplus, lost: providerID });
      await world.remove(machine);
    },
  },
  {
    title: 'the oldest of several VMs',
    promise: 'Of several VMs the oldest survives when none is named.',
    section: 'ensureVm',
    needs: ['cloud', 'severalVms'],
    async run(world) {
      const machine = world.newMachine();
      const { providerID } = await world.ensure(machine);
      const [surplus = ''] = (await world.cloud?.makeVms('class', 1, { uid: machine.uid })) ?? [];
      const vm = await world.ensure(machine);

      await checkSurvivor(world, { vm, kept: providerID, lost: surplus });
      await world.remove(machine);
    },
  },
  {
    title: 'lost answer',
    promise: 'When the answer of a create call is lost, the next attempt finds the VM.',
    section: 'ensureVm',
    needs: ['lostAnswer'],
    async run(world) {
      await world.cloud?.setFault({ kind: 'lostAnswer', ms: world.lateMs });
      const machine = world.newMachine();
      const startMs = performance.now();
      const outcome = await (await world.calls.start('ensureVm', world.creation(machine))).outcome();
      const isLate = performance.now() - startMs >= quietMs;
      if (outcome.kind === 'answered')
        check(outcome.answer.state !== 'failed', 'ensureVm answers a VM that has failed');
      else check(isLate, `ensureVm did not succeed: ${inShort(outcome)}`);
      if (outcome.kind !== 'answered') await world.ensure(machine);
      await world.onlyVm();
    },
  },
  {
    title: 'lost answer, asked later',
    promise:
      'If the answer of the cloud is lost, ensureVm fails with a code whose outcome is unknown. With outcomeUnknown the first attempt finds the VM.',
    section: 'ensureVm',
    needs: ['lostAnswer'],
    async run(world) {
      await world.cloud?.setFault({ kind: 'lostAnswer', ms: world.lateMs });
      const machine = world.newMachine();
      const outcome = await (await world.calls.start('ensureVm', world.creation(machine), 1)).outcome();
      if (outcome.kind === 'refused') {
        const { type } = outcome.failure;
        check(isFailureCode(type) && failures[type].outcomeUnknown, `${type} says that no VM was made`);
      }
      await world.ensure(machine);
      await world.onlyVm();
    },
  },
  {
    title: 'kill of the worker between call and answer',
    promise: 'When the worker is killed in a create call and started again, there is one VM.',
    section: 'Repeating',
    needs: ['worker'],
    usesWorker: true,
    async run(world) {
      await makeSlow(world, 14_000); // nobody waits for that
      const machine = world.newMachine();
      const call = await world.calls.start('ensureVm', world.creation(machine));
      await untilUnderWay(world, call);
      await world.worker?.kill();
      await world.cloud?.setFault({ kind: 'listedLate', ms: world.lateMs });
      await world.worker?.start();

      const outcome = await call.outcome();
      check(outcome.kind === 'answered', `after the restart of the worker: ${inShort(outcome)}`);
      check(outcome.attempt > 1 || world.cloud === undefined, 'the worker was not killed in the call');
      await world.onlyVm();
    },
  },
  {
    title: 'cancel in mid-create',
    promise: 'A cancelled ensureVm ends, and the next one finds what it has made.',
    section: 'Timeouts, heartbeats and cancellation',
    needs: [],
    async run(world) {
      await makeSlow(world);
      const machine = world.newMachine();
      const call = await world.calls.start('ensureVm', world.creation(machine));
      await untilUnderWay(world, call);
      await call.cancel();
      await call.outcome();
      await world.cloud?.setFault();

      await world.ensure(machine);
      await world.onlyVm();
    },
  },
  {
    title: 'a create that fails half-way',
    promise:
      'What a refused creation has made is gone after deleteVm, and at once where the code says nothing was made.',
    section: 'Failures',
    needs: ['halfWay'],
    async run(world) {
      await world.cloud?.setFault({ kind: 'halfWay' });
      const machine = world.newMachine();
      const outcome = await (await world.calls.start('ensureVm', world.creation(machine), 1)).outcome();
      check(outcome.kind === 'refused', 'it answers a VM');
      const { type } = outcome.failure;
      if (isFailureCode(type) && failures[type].nothingMade) await world.checkNothingExists();
      await world.cloud?.setFault();
      await world.remove(machine);
      await world.checkNothingExists();
    },
  },
];

/** Has the cloud answer create calls late, where it is under control. */
export async function makeSlow({ cloud }: World, ms = slowMs): Promise<void> {
  if (cloud !== undefined && cloud.lacks.slowAnswer === undefined) await cloud.setFault({ kind: 'slowAnswer', ms });
}

/** Waits until a creation has made its VM; where nobody can know that, until a worker has it. */
export async function untilUnderWay({ cloud }: World, call: { isRunning(): Promise<boolean> }): Promise<void> {
  if (cloud === undefined) await until('a worker has the call', () => call.isRunning());
  else await until('the cloud has made the VM', async () => (await cloud.things()).some(({ kind }) => kind === 'vm'));
}

/** Each part is listed with its UID, and as attached to the VM that the counterpart names, where it names one. */
async function checkParts({ cloud, list }: World): Promise<void> {
  const parts = (await cloud?.things())?.filter(({ kind }) => kind !== 'vm') ?? [];
  if (parts.length === 0) return;
  const items = await list();
  for (const { kind, id, uid, attachedTo } of parts) {
    const item = items.find((each) => each.kind === kind && isSame(each.id, idOf(id)));
    check(item !== undefined, `listVms lacks ${kind} ${id}: answer all that has the tags of providerSpec`);
    check(item.uid === uid, `listVms answers ${item.uid ?? 'nothing'} as uid of ${kind} ${id}, whose tags have ${uid}`);
    const said = item.attachedTo;
    check(
      attachedTo === undefined || (said !== undefined && isSame(said, attachedTo)),
      `listVms says that ${kind} ${id} is attached to ${said ?? 'no VM'}, and ${attachedTo} has it: answer attachedTo`,
    );
  }
}

/** Of two VMs, by their provider IDs. `vm`: what ensureVm has answered. */
async function checkSurvivor(
  world: World,
  { vm, kept, lost }: { readonly vm: { readonly providerID: string }; readonly kept: string; readonly lost: string },
): Promise<void> {
  check(isSame(vm.providerID, idOf(kept)), `it keeps ${vm.providerID} and not ${kept}`);
  await until('the other VM is gone', async () => (await world.existing()).every(({ id }) => id !== idOf(lost)));
  const { id } = await world.onlyVm();
  check(id === idOf(kept), `it deletes ${kept}`);
}

function isSame(providerID: string, id: string): boolean {
  return idOf(providerID).toLowerCase() === id.toLowerCase();
}

function checkProviderID(providerID: string): void {
  check(
    /^[a-z][a-z0-9+.-]*:\/\/.*[^/]$/i.test(providerID),
    `the provider ID is ${JSON.stringify(providerID)}: answer spec.providerID of its Node, which has the form ` +
      '<cloud>://<place>/<id of the VM>, else no Node is found to be that of the Machine',
  );
}

/** The same VM as another system writes it. */
function respell(providerID: string): string {
  checkProviderID(providerID);
  const [scheme, rest = ''] = providerID.split('://');
  return `${scheme}:///elsewhere/${idOf(rest).toUpperCase()}`;
}
