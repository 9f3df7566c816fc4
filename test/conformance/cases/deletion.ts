/** What `deleteVm` promises. */
import { vmOf } from '../../../api/provider-id.ts';
import { check, NotRun } from '../breach.ts';
import type { Case } from '../case.ts';
import { answerOf, idOf } from '../world.ts';
import { makeSlow, untilUnderWay } from './creation.ts';

/** A UID that nothing carries, with which the sweep deletes one resource. */
const nobody = 'none';

export const deletionCases: readonly Case[] = [
  {
    title: 'delete twice',
    promise: 'deleteVm returns gone when nothing of the Machine is left, and again when there is nothing.',
    section: 'deleteVm',
    needs: [],
    async run(world) {
      const machine = world.newMachine();
      const { providerID } = await world.ensure(machine);
      await world.onlyVm();

      const joined = { providerID, outcomeUnknown: false }; // its Node has joined, so it is listed
      await world.remove(machine, joined);
      await world.checkNothingExists();
      await world.remove(machine, joined);
    },
  },
  {
    title: 'delete without provider ID',
    promise: 'deleteVm finds the VM by the UID alone, and succeeds for a Machine that never had one.',
    section: 'deleteVm',
    needs: [],
    async run(world) {
      const machine = world.newMachine();
      await world.ensure(machine);

      await world.remove(machine);
      await world.checkNothingExists();
      await world.remove(world.newMachine());
    },
  },
  {
    title: 'delete one Machine of two',
    promise: 'deleteVm deletes nothing that belongs to another Machine.',
    section: "Which VMs are a Machine's",
    needs: [],
    async run(world) {
      const [kept, deleted] = [world.newMachine(), world.newMachine()];
      await world.ensure(kept);
      const { providerID } = await world.ensure(deleted);

      await world.remove(deleted, { providerID });
      const { uid } = await world.onlyVm();
      check(uid === kept.uid, 'the VM of the other Machine is gone');
    },
  },
  {
    title: 'delete before the Node is known',
    promise: 'With nodeNames that lack a Node of the VM, deleteVm deletes nothing and returns deleting with all names.',
    section: 'deleteVm',
    needs: [],
    async run(world) {
      const machine = world.newMachine();
      const { nodeName } = await world.ensure(machine);
      if (nodeName === undefined) throw new NotRun('ensureVm answers no nodeName at once');

      const request = world.deletion(machine, { nodeNames: [] });
      const answer = answerOf('deleteVm', await (await world.calls.start('deleteVm', request)).outcome());
      const names = answer.nodeNames.join(', ');
      check(answer.state === 'deleting' && names === nodeName, `it answers ${answer.state} with the names [${names}]`);
      await world.ensure(machine); // fails for a VM that is being deleted, or makes another
      await world.onlyVm();
    },
  },
  {
    title: 'delete a Machine that another system has begun to create',
    promise:
      'With mayBeUntagged, deleteVm answers the VM that has the name of the Machine, the tags of the class and no UID, and ' +
      'deletes nothing by the name.',
    section: 'deleteVm',
    needs: ['cloud'],
    async run(world) {
      const machine = world.newMachine();
      const { name } = machine;
      await world.cloud?.makeVms('another', 1, { name });
      await world.remove(machine, { mayBeUntagged: true });
      await world.onlyVm();
      await world.cloud?.reset();
      const [made = ''] = (await world.cloud?.makeVms('class', 1, { name })) ?? [];
      await world.remove(machine);
      await world.onlyVm();

      const request = world.deletion(machine, { mayBeUntagged: true, outcomeUnknown: true });
      const { state, untaggedVm } = answerOf(
        'deleteVm',
        await (await world.calls.start('deleteVm', request)).outcome(),
      );
      const found = untaggedVm?.providerID ?? 'no VM';
      check(state === 'deleting' && vmOf(found) === vmOf(made), `it answers ${state} and ${found} for ${made}`);
      await world.onlyVm();
      await world.remove(machine, { providerID: found });
      await world.checkNothingExists();
    },
  },
  {
    title: 'delete a Machine that another system may have made several VMs for',
    promise: 'With mayBeUntagged and several such VMs, deleteVm fails with OutOfRange, and deletes none of them.',
    section: 'deleteVm',
    needs: ['cloud', 'severalVms'],
    async run(world) {
      const machine = world.newMachine();
      const made = (await world.cloud?.makeVms('class', 2, { name: machine.name })) ?? [];
      await world.refusal('deleteVm', world.deletion(machine, { mayBeUntagged: true }), 'OutOfRange');
      const left = (await world.existing()).filter(({ kind }) => kind === 'vm');
      check(left.length === made.length, `of ${made.length} VMs there are ${left.length}`);
    },
  },
  {
    title: 'delete while the create is under way',
    promise: 'After ensureVm was cancelled and has ended, deleteVm with outcomeUnknown leaves no VM.',
    section: 'Timeouts, heartbeats and cancellation',
    needs: [],
    async run(world) {
      await makeSlow(world);
      const machine = world.newMachine();
      const call = await world.calls.start('ensureVm', world.creation(machine));
      await untilUnderWay(world, call);
      await call.cancel();
      await call.outcome();

      await world.remove(machine);
      await world.checkNothingExists();
    },
  },
  {
    title: 'delete in a cloud that lists the VM late',
    promise: 'With outcomeUnknown, deleteVm returns gone only after settleSeconds: the VM may not be listed before.',
    section: 'deleteVm',
    needs: ['listedLate'],
    async run(world) {
      await world.cloud?.setFault({ kind: 'listedLate', ms: world.lateMs });
      const machine = world.newMachine();
      await world.ensure(machine);

      await world.remove(machine);
      await world.checkNothingExists();
    },
  },
  {
    title: 'delete one resource for the sweep',
    promise: 'With only, deleteVm deletes that VM if its UID tag is as listed, else it fails with FailedPrecondition.',
    section: 'listVms, validateClass and the sweep',
    needs: [],
    async run(world) {
      const machine = world.newMachine();
      await world.ensure(machine);
      await world.onlyVm();
      const item = (await world.list()).find(({ kind, uid }) => kind === 'vm' && uid === machine.uid);
      check(item !== undefined, 'listVms lacks the VM');
      const by = { ...machine, uid: nobody };

      const other = { kind: item.kind, id: item.id, uid: `${machine.uid}-changed` };
      await world.refusal('deleteVm', world.deletion(by, { only: other }), 'FailedPrecondition');
      await world.onlyVm();
      await world.remove(by, { only: { ...other, uid: machine.uid } });
      await world.checkNothingExists();
    },
  },
  {
    title: 'delete one disk, NIC or address for the sweep',
    promise:
      'With only, deleteVm deletes that disk, NIC, port or address if its UID tag is as listed, and nothing else of its UID; else ' +
      'it fails with FailedPrecondition.',
    section: 'listVms, validateClass and the sweep',
    needs: ['halfWay'],
    async run(world) {
      const machine = world.newMachine();
      await world.cloud?.setFault({ kind: 'halfWay' });
      // With outcomeUnknown, the parts may be those of another attempt: a provider may leave them.
      const request = world.creation(machine, { outcomeUnknown: true });
      await (await world.calls.start('ensureVm', request, 1)).outcome();
      await world.cloud?.setFault();
      const left = await world.existing();
      const listed = (await world.list()).filter(({ uid }) => uid === machine.uid);
      const item = listed.find(({ kind }) => kind !== 'ip') ?? listed[0]; // what has an address goes before it
      if (item === undefined && left.length === 0)
        throw new NotRun('ensureVm deletes what a refused creation has made');
      check(item !== undefined, 'listVms lacks what a refused creation has made');
      const { kind, id } = item;
      const by = { ...machine, uid: nobody };

      const only = { kind, id, uid: `${machine.uid}-changed` };
      await world.refusal('deleteVm', world.deletion(by, { only }), 'FailedPrecondition');
      await world.remove(by, { only: { ...only, uid: machine.uid } });
      const after = await world.existing();
      const isIt = (each: (typeof left)[number]) => each.kind === kind && idOf(each.id) === idOf(id);
      const wanted = left.filter((each) => !isIt(each));
      check(
        after.length === wanted.length && !after.some(isIt),
        `of ${left.length} resources it has deleted ${left.length - after.length}, and not ${kind} ${id} alone`,
      );
    },
  },
];

/** The last case in a cloud that the suite does not empty. */
export const leaveNothing: Case = {
  title: 'leave nothing',
  promise: 'When deleteVm has returned gone for a Machine, nothing of it is listed by listVms later.',
  section: 'deleteVm',
  needs: [],
  run: (world) => world.checkNothingIsLeft(),
};
