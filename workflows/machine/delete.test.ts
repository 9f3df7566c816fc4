/** The end of a machine: its node is drained, and no VM of it may be left, whatever has become of its creation. */
import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure, Context } from '@temporalio/activity';
import { eventually, refuse, setUpMachine, untilCancelled } from '../../test/support/played-machine.ts';
import { lookSignal, observedSignal } from './messages.ts';

const { cluster, cloud, touch, start, workflow, described, observe, startRunning, untilRefused, tryAgain } =
  setUpMachine();

describe('a refusal', () => {
  it('[mcm 57] that says NotFound to a deletion means that there is nothing to delete', async () => {
    cloud.deleteVm = () => refuse('NotFound');
    await start();
    await eventually(() => cluster.machine.phase === 'Pending');
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await workflow().result();

    expect(cloud.deletions).toHaveLength(1);
    expect(cluster.steps.at(-1)).toBe('removeFinalizer');
  });
});

describe('the deletion of a machine', () => {
  it('drains its node although a watcher that is behind has not seen the node', async () => {
    await startRunning();
    touch({ deletingSince: new Date().toISOString() });
    await workflow().signal(observedSignal, { machine: cluster.machine, node: { state: 'absent' } });
    await workflow().result();

    expect(cluster.drains).toBe(1);
  });

  it('stops in the middle of a drain when all it hears is to look, and the Machine is not deleted any more', async () => {
    await startRunning();
    const { deletingSince: _, ...before } = cluster.machine;
    cluster.isDrainable = false;
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await eventually(() => cluster.drains === 1);

    cluster.machine = before; // its cluster was set back
    await workflow().signal(lookSignal);

    await eventually(async () => (await described()).doing === 'running');
    expect(cluster.steps).toContain('uncordonNode');
    expect(cluster.written.filter(({ phase }) => phase === 'Terminating')).toHaveLength(1);
    expect([cluster.drains, cloud.deletions]).toEqual([1, []]);
  });
});

describe('the deletion of a machine without a VM', () => {
  /** Deletes the Machine when its class cannot be used any more. */
  async function deleteWithoutClass(): Promise<void> {
    cluster.reading = { version: '2', problem: 'MachineClass "small" does not exist' };
    touch({ deletingSince: new Date().toISOString() });
    await observe();
  }

  async function expectDoubt(): Promise<void> {
    await deleteWithoutClass();
    await eventually(async () => {
      const { blockedOn, lastError } = await described();
      return blockedOn === 'Class' && lastError?.message.includes('cannot be found without it') === true;
    });
    expect(cluster.steps).not.toContain('removeFinalizer');
  }

  it.each(['InvalidArgument', 'Unauthenticated', 'PermissionDenied', 'Unimplemented'] as const)(
    'needs neither its class nor a cloud after refusals that made nothing (%s)',
    async (code) => {
      cloud.ensureVm = () => refuse(code);
      await start();
      await untilRefused(1);
      await tryAgain();

      await deleteWithoutClass();
      await workflow().result();

      expect(cloud.deletions).toEqual([]);
      expect(cluster.steps.at(-1)).toBe('removeFinalizer');
    },
  );

  it.each(['Internal', 'ResourceExhausted', 'NotFound'] as const)(
    '[invariant 2] waits for its class when one of the refusals may have left something (%s)',
    async (code) => {
      cloud.ensureVm = () => refuse(cloud.asked.length === 2 ? code : 'InvalidArgument');
      await start();
      await untilRefused(1);
      await tryAgain();
      await tryAgain();

      await expectDoubt();
    },
  );

  it('[invariant 1] [invariant 2] hears of a try that was lost, although the next one was refused', async () => {
    cloud.ensureVm = () => {
      if (cloud.asked.length > 1) refuse('InvalidArgument');
      throw ApplicationFailure.create({ type: 'Unavailable', message: 'no answer' });
    };
    await start();
    await untilRefused(2);

    expect(cloud.asked).toMatchObject([
      { token: `${cluster.machine.uid}-0`, outcomeUnknown: false },
      { token: `${cluster.machine.uid}-0`, outcomeUnknown: true },
    ]);
    expect(cluster.written).toMatchObject([{ operation: { errorCode: 'InvalidArgument' } }]);
    await expectDoubt();
  });

  it('[invariant 2] waits for its class when a worker was killed in the middle of a call', async () => {
    cloud.ensureVm = () => (cloud.asked.length > 1 ? refuse('InvalidArgument') : Context.current().cancelled);
    await start();
    await untilRefused(2);

    expect(cloud.asked[1]).toMatchObject({ outcomeUnknown: true });
    await expectDoubt();
  });

  it('[invariant 2] asks the cloud when it interrupts a call', async () => {
    cloud.ensureVm = () => untilCancelled();
    await start();
    await eventually(() => cloud.asked.length === 1);
    touch({ deletingSince: new Date().toISOString() });
    await observe();
    await workflow().result();

    expect(cloud.deletions).toMatchObject([{ outcomeUnknown: true }]);
  });

  it('needs nothing when no worker has ever taken the call', async () => {
    const { reading } = cluster;
    cluster.reading = { ...reading, cloud: { ...reading.cloud!, provider: 'misspelt' } };
    await start();
    await eventually(async () => (await described()).doing === 'creating the VM');
    await eventually(async () => ((await workflow().describe()).raw.pendingActivities ?? []).length > 0);

    await deleteWithoutClass();
    await workflow().result();

    expect(cloud.deletions).toEqual([]);
  });
});
