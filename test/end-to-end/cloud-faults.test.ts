/**
 * What people see while a cloud misbehaves: on the Machine, in its Events, in the list of workflows and in `describe`.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { request } from 'undici';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names, searchAttributes } from '../../api/names.ts';
import { describeCommand } from '../../cli/commands/describe/command.ts';
import { describe as runDescribe } from '../../cli/commands/describe/run.ts';
import { parseOptions } from '../../cli/options.ts';
import { nodes } from '../../kube/core.ts';
import { mergePatch, strategicMergePatch } from '../../kube/patch.ts';
import { creations, deletions, type Fault, type Refusal, selfHealing } from '../support/cloud-faults.ts';
import { fromSetup, type Installation, plainSecret, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('[mcm 113] a cloud that misbehaves', () => {
  let millwright: Installation;
  const refs = new Map<string, ObjectRef>();
  const faults = new Map<string, readonly Fault[]>();

  const refOf = (name: string): ObjectRef => refs.get(name) ?? { dialect: 'gardener', namespace: '', name, uid: '' };
  const applyFaults = () => millwright.cloud.setFaults(...[...faults.values()].flat());
  async function mend(name: string): Promise<void> {
    faults.delete(name);
    await applyFaults();
  }

  /** A class of its own for a machine, with a Secret of its own where the token is another. */
  async function createClass(
    name: string,
    { machineType = 'small', token }: { machineType?: string; token?: string | undefined } = {},
  ): Promise<void> {
    const { namespace, cloud } = millwright;
    const tags = { cluster: namespace, class: name };
    const providerSpec = { endpoint: cloud.url, machineType, region: 'here', tags };
    if (token !== undefined) await millwright.putSecret(name, { ...plainSecret, token });
    const secretRef = { namespace, name: token === undefined ? 'pool' : name };
    await millwright.createClass(name, { providerSpec, secretRef });
  }
  const createMachine = async (name: string) =>
    refs.set(name, await millwright.createMachine(name, { class: { kind: 'MachineClass', name } }));

  const get = (name: string) => millwright.control.get(machines, refOf(name));
  const callsOf = async (name: string, operation: string) => {
    const ids = (await millwright.vmsOf(refOf(name))).map(({ id }) => id);
    return (await millwright.cloud.calls()).filter(
      (call) =>
        call.operation === operation &&
        (call.token?.startsWith(refOf(name).uid) || (call.vm !== undefined && ids.includes(call.vm))),
    );
  };
  /** The pauses between calls that were shorter than the two minutes that the throttling cloud has asked for, ms. */
  const shortPausesOf = async (name: string, operation: string) => {
    const times = (await callsOf(name, operation)).map(({ at }) => Date.parse(at));
    return times
      .slice(1)
      .map((at, i) => at - (times[i] ?? 0))
      .filter((ms) => ms < 120_000);
  };
  const retryNow = (name: string) => millwright.handleOf(refOf(name)).signal('retryNow');

  /** The reasons of all Events of a machine, oldest first and without repeats, once the last of them is there. */
  async function eventReasonsOf(name: string, last: string): Promise<string[]> {
    await millwright.untilEvent(refOf(name), last);
    const all = await millwright.eventsOf(refOf(name));
    return all.map(({ reason }) => reason).filter((reason, i, reasons) => reason !== reasons[i - 1]);
  }

  /** Rows of `millwright describe` by their names. */
  async function describeRows(name: string): Promise<Record<string, string>> {
    const { namespace } = millwright;
    const targetKubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    const temporalAddress = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
    const given = { namespace, targetKubeconfig, temporalAddress };
    const options = parseOptions(describeCommand.flags, given, {});
    const text = await until(`the workflow of ${name} answers`, async (see) => {
      const shown = see((await runDescribe('Machine', [name], options, given)).text);
      return /, (no answer|not asked)/.test(shown) ? undefined : shown;
    });
    return Object.fromEntries(text.split('\n').map((line) => line.split(/\s\s+/)));
  }
  /** The Machine's status is written first, what the workflow shows of itself with its next step. */
  const untilBlockedOn = (name: string, blocker: string | undefined) =>
    until(`${name} is blocked on ${blocker ?? 'nothing'}`, async (see) => {
      const { searchAttributes: shown } = see(await millwright.handleOf(refOf(name)).describe());
      return (shown[searchAttributes.blockedOn]?.[0] ?? undefined) === blocker;
    });
  const describedWith = (name: string, what: string, check: (answer: Described) => boolean) =>
    until(`describe of ${name} says ${what}`, async (see) => {
      const answer = see(await millwright.describe(refOf(name)).catch(() => undefined));
      return answer !== undefined && check(answer) ? answer : undefined;
    });
  type Described = Awaited<ReturnType<Installation['describe']>>;

  /** Checks all places where a refusal shows. */
  async function expectShown(name: string, refusal: Refusal, isDeletion: boolean): Promise<void> {
    const { code, words, remedy } = refusal;
    const phase = isDeletion ? 'Terminating' : 'CrashLoopBackOff';
    const machine = await millwright.untilMachine(
      refOf(name),
      `says ${code}`,
      ({ status }) => status?.lastOperation?.state === 'Failed' && words.test(status.lastOperation.description ?? ''),
    );
    const { currentStatus, lastOperation } = machine.status ?? {};
    expect(currentStatus).toMatchObject({ phase, timeoutActive: !isDeletion });
    expect(lastOperation).toMatchObject({ type: isDeletion ? 'Delete' : 'Create', state: 'Failed' });
    expect(lastOperation?.errorCode).toBe(isDeletion ? undefined : code);
    const beginning = isDeletion ? 'Initiate VM deletion: ' : 'Cloud provider message - ';
    const fromCall = `${beginning}machine codes error: code = [${code}] message = [`;
    expect(lastOperation?.description).toMatch(refusal.isJudged ? `MachineClass "${name}": ` : fromCall);

    const event = await millwright.untilEvent(refOf(name), isDeletion ? 'FailedDelete' : 'FailedCreate');
    expect(event).toMatchObject({ type: 'Warning', note: expect.stringMatching(words) });
    expect(event.note).toMatch(new RegExp(`^${code}: .*${remedy.source}`));

    const described = await describedWith(name, 'until when', (answer) => answer.until !== undefined);
    expect(described).toMatchObject({
      phase,
      waitingFor: 'a change that helps, or the next try',
      blockedOn: refusal.blockedOn,
      lastError: { code, message: expect.stringMatching(words) },
      unblock: expect.stringMatching(remedy),
    });
    const pause = Date.parse(described.until ?? '') - Date.parse(described.lastError?.at ?? '');
    expect(pause).toBeGreaterThanOrEqual(refusal.pauseSeconds * 1_000);
    expect(pause).toBeLessThanOrEqual((refusal.maxPauseSeconds ?? refusal.pauseSeconds) * 1_000);
    await untilBlockedOn(name, refusal.blockedOn);

    // While it tries again it waits for nothing.
    const isWaiting = (shown: Record<string, string>) => shown['Waiting for']?.startsWith('a change that helps');
    const text = await until(`the text about ${name} says what it waits for`, async (see) => {
      const shown = see(await describeRows(name));
      return refusal.pauseSeconds <= 60 || isWaiting(shown) ? shown : undefined;
    });
    expect(text).toMatchObject({
      Phase: phase,
      Doing: expect.stringMatching(/(creating|deleting) the VM|checking the Machine.*, for .* \(since .*Z\)$/),
      'Blocked on': expect.stringMatching(`^${refusal.blockedOn}: `),
      'Last error': expect.stringMatching(words),
      'To unblock': expect.stringMatching(remedy),
    });
    expect(text['Last error']).toMatch(new RegExp(`^${code} .* ago \\(.*Z\\)`));
    if (refusal.pauseSeconds > 60)
      expect(text['Waiting for']).toMatch(/^a change that helps.*; at the latest in .* \(.*Z\)$/);
  }

  async function expectCreated(name: string): Promise<void> {
    await millwright.untilPhase(refOf(name), 'Running');
    expect(await millwright.vmsOf(refOf(name))).toHaveLength(1);
    expect(await eventReasonsOf(name, 'NodeJoined')).toEqual(['FailedCreate', 'VmCreated', 'NodeJoined']);
    await untilBlockedOn(name, undefined);
    expect(await millwright.describe(refOf(name))).not.toHaveProperty('lastError');
  }

  async function expectDeleted(name: string): Promise<void> {
    await millwright.untilGone(refOf(name));
    expect((await millwright.vmsOf(refOf(name))).map(({ state }) => state)).toEqual(['terminated']);
    const reasons = ['VmCreated', 'NodeJoined', 'Deleting', 'FailedDelete', 'Deleted'];
    expect(await eventReasonsOf(name, 'Deleted')).toEqual(reasons);
  }

  // All of it happens at once. Up to the calls that hang no test takes a fault away: that would let go what hangs.
  beforeAll(async () => {
    const accounts = [plainSecret.token, 'throttled', 'leaving-throttled', 'brief'];
    millwright = await startInstallation({ cloud: { tokens: accounts } });
    millwright.recordAs('cloud-faults');
    const { control } = millwright;
    const leaving = [...Object.keys(deletions), 'leaving-full'];
    const healthy = ['dying', 'vanishing'];
    const table: Record<string, Refusal> = creations;
    for (const name of Object.keys(creations)) await createClass(name, table[name]);
    for (const name of [...Object.keys(selfHealing), ...healthy, 'hang-done', 'never', 'stillborn'])
      await createClass(name, name === 'brief' ? { token: name } : {});
    const tokens: Record<string, string> = { 'leaving-refused': 'letmein', 'leaving-throttled': 'leaving-throttled' };
    for (const name of leaving) await createClass(name, { token: tokens[name] });
    const judged = Object.keys(creations).filter((name) => table[name]?.isJudged);
    await until('the verdicts are written', async (see) => {
      const { items } = await control.list(machineClasses, { namespace: millwright.namespace });
      const withVerdict = items.filter(({ metadata }) => metadata.annotations?.[names.verdict] !== undefined);
      const has = see(withVerdict.map(({ metadata }) => metadata.name));
      return judged.every((name) => has.includes(name));
    });

    for (const [name, { fault, machineType }] of Object.entries(table)) {
      const meets = machineType === undefined ? { tags: { class: name } } : { machineType };
      if (fault !== undefined) faults.set(name, [{ ...fault, operation: 'create', ...meets }]);
    }
    const ofClass = (name: string, operation: 'create' | 'delete', ...kinds: Fault[]) =>
      faults.set(
        name,
        kinds.map((fault) => ({ ...fault, operation, tags: { class: name } })),
      );
    for (const [name, kinds] of Object.entries(selfHealing)) ofClass(name, 'create', ...kinds);
    for (const [name, refusal] of Object.entries(deletions)) {
      if ('fault' in refusal) ofClass(name, 'delete', refusal.fault);
    }
    ofClass('hang-done', 'create', { kind: 'hang', effect: 'done' });
    ofClass('never', 'create', { kind: 'neverJoin' });
    ofClass('stillborn', 'create', { kind: 'vanish', afterMs: 0 }, { kind: 'neverJoin' });
    await applyFaults();

    const hanging = ['hanging', 'hang-done'];
    const early = Object.keys(creations).filter((name) => !hanging.includes(name));
    await Promise.all(['never', ...early, ...leaving, ...healthy].map(createMachine));
    const machineUid = { [names.machineUid]: refOf('never').uid };
    await millwright.untilPhase(refOf('never'), 'Pending');
    faults.set('never', [{ kind: 'outage', how: 'unavailable', operation: 'list', tags: machineUid }]);
    faults.set('leaving-full', [{ kind: 'capacity', machineType: 'small', tags: { class: 'leaving-full' } }]);
    await Promise.all(leaving.map((name) => millwright.untilPhase(refOf(name), 'Running')));
    await applyFaults();
    await millwright.putSecret('leaving-refused', { token: 'wrong' });
    for (const name of leaving) await control.delete(machines, refOf(name));
    await Promise.all([...hanging, ...Object.keys(selfHealing), 'stillborn'].map(createMachine));
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  it('[mcm 27] is asked again after 5 s where the error is transient, and after 3 minutes where it is not', async () => {
    const isAgain = ({ lastError }: Described) => (lastError?.times ?? 1) > 4; // four calls within 7 s, then a pause
    const { lastError: again } = await describedWith('cut', 'that it was refused again', isAgain);
    expect(Date.parse(again?.at ?? '') - Date.parse(again?.since ?? '')).toBeGreaterThanOrEqual(12_000);
    for (const [name, pauseMs] of [
      ['cut', 5_000],
      ['refused', 180_000],
      ['odd', 180_000],
    ] as const) {
      const { until: end, lastError } = await describedWith(name, 'until when', (answer) => answer.until !== undefined);
      expect([name, Date.parse(end ?? '') - Date.parse(lastError?.at ?? '')]).toEqual([name, pauseMs]);
    }
  });

  it('[mcm 25] refuses wrong credentials, until the Secret is corrected', async () => {
    await expectShown('refused', creations.refused, false);

    await millwright.putSecret('refused', { token: 'letmein' });
    await expectCreated('refused');
  });

  it('has no such machine type, until the class is corrected', async () => {
    await expectShown('odd', creations.odd, false);

    const key = { namespace: millwright.namespace, name: 'odd' };
    await millwright.control.patch(machineClasses, key, mergePatch({ providerSpec: { machineType: 'small' } }));
    await expectCreated('odd');
  });

  it('[mcm 28] says the same again: no status is written, and one Event counts', async () => {
    await expectShown('full', creations.full, false);
    const { lastError: first } = await millwright.describe(refOf('full'));
    const { resourceVersion } = (await get('full')).metadata;

    await retryNow('full');

    const { lastError: second } = await describedWith('full', 'twice', ({ lastError }) => lastError?.times === 2);
    expect(second?.since).toBe(first?.at);
    await until('the Event counts', async (see) =>
      see(await millwright.eventsOf(refOf('full'))).some(({ series }) => (series?.count ?? 1) > 1),
    );
    expect(await millwright.eventsOf(refOf('full'))).toHaveLength(1);
    expect((await get('full')).metadata.resourceVersion).toBe(resourceVersion);
    expect((await describeRows('full'))['Last error']).toMatch(/ ago \(.*Z\), 2 times, first .* ago \(.*Z\): /);
  });

  it.each(Object.keys(selfHealing))('costs no VM and no word where the next call makes it good (%s)', async (name) => {
    await millwright.untilPhase(refOf(name), 'Running');

    expect(await millwright.vmsOf(refOf(name))).toHaveLength(1);
    expect(await eventReasonsOf(name, 'NodeJoined')).toEqual(['VmCreated', 'NodeJoined']);
    const [first, second] = (await callsOf(name, 'create')).map(({ at }) => Date.parse(at));
    if (name === 'brief') expect((second ?? 0) - (first ?? 0)).toBeGreaterThanOrEqual(2_000);
  });

  it('[mcm 31 partly] lets a VM die: the machine is Unknown, and runs again when the VM does', async () => {
    const { cloud } = millwright;
    const running = await millwright.untilPhase(refOf('dying'), 'Running');
    const [vm] = await millwright.vmsOf(refOf('dying'));
    await cloud.killVm(vm?.id ?? '');
    await declareSilent('dying');

    await millwright.untilPhase(refOf('dying'), 'Unknown');

    const about = new RegExp(`VM ${running.spec?.providerID} is there and runs`);
    expect(await describedWith('dying', 'what is wrong', (answer) => answer.blockedOn !== undefined)).toMatchObject({
      blockedOn: 'NodeHealth',
      waitingFor: 'node dying (Ready is Unknown) to become healthy',
      unblock: expect.stringMatching(about),
    });
    await untilBlockedOn('dying', 'NodeHealth');
    expect(await describeRows('dying')).toMatchObject({
      Phase: 'Unknown',
      Doing: expect.stringMatching(/^watching an unhealthy node, for .* \(since .*Z\)$/),
      'Waiting for': expect.stringMatching(
        /^node dying \(Ready is Unknown\) to become healthy; at the latest in .* \(.*Z\)$/,
      ),
      'To unblock': expect.stringMatching(about),
    });
    expect((await millwright.untilEvent(refOf('dying'), 'NodeUnhealthy')).note).toBe(
      'Node dying (Ready is Unknown) is not healthy',
    );

    await cloud.restartVm(vm?.id ?? '');
    await millwright.untilPhase(refOf('dying'), 'Running');
    expect(await eventReasonsOf('dying', 'NodeHealthy')).toEqual([
      'VmCreated',
      'NodeJoined',
      'NodeUnhealthy',
      'NodeHealthy',
    ]);
    expect(await millwright.vmsOf(refOf('dying'))).toHaveLength(1);
  });

  it('loses a VM that has not joined: the machine has failed', async () => {
    const { status } = await millwright.untilPhase(refOf('stillborn'), 'Failed');

    expect(status?.lastOperation).toMatchObject({ type: 'Create', state: 'Failed', errorCode: 'Internal' });
    const about = /the VM simulated:\S+ failed: .*was deleted in the cloud/;
    expect(status?.lastOperation?.description).toMatch(about);
    expect((await millwright.untilEvent(refOf('stillborn'), 'VmFailed')).note).toMatch(about);
    expect(await describeRows('stillborn')).toMatchObject({
      Phase: 'Failed',
      'Last error': expect.stringMatching(about),
    });
    await millwright.control.delete(machines, refOf('stillborn'));
    await millwright.untilGone(refOf('stillborn'));
    expect(await eventReasonsOf('stillborn', 'Deleted')).toEqual(['VmFailed', 'Deleting', 'Deleted']);
  });

  it('is full, which keeps no machine from going', async () => {
    await millwright.untilGone(refOf('leaving-full'));

    expect(await eventReasonsOf('leaving-full', 'Deleted')).toEqual(['VmCreated', 'NodeJoined', 'Deleting', 'Deleted']);
  });

  it('[mcm 27 partly] hangs: the call is given up, and the VM that it has made all the same is found', async () => {
    await expectShown('hanging', creations.hanging, false);
    await expectShown('leaving-hanging', deletions['leaving-hanging'], true);
    await millwright.untilPhase(refOf('hang-done'), 'Running');
    expect(await millwright.vmsOf(refOf('hang-done'))).toHaveLength(1);
    expect((await millwright.untilEvent(refOf('hang-done'), 'FailedCreate')).note).toMatch(
      /^DeadlineExceeded: .*did not answer in time/,
    );

    await mend('hanging');
    await mend('leaving-hanging');
    await Promise.all([retryNow('hanging'), retryNow('leaving-hanging')]);
    await expectCreated('hanging');
    await expectDeleted('leaving-hanging');
  });

  async function expectRefusedUntilRetry(name: 'cut' | 'throttled' | 'full' | 'used-up'): Promise<void> {
    await expectShown(name, creations[name], false);
    if (name === 'throttled') expect(await shortPausesOf(name, 'create')).toEqual([]);

    await mend(name);
    await retryNow(name);
    await expectCreated(name);
  }
  it.each(['cut', 'throttled'] as const)(
    '[mcm 25] refuses to create (%s), until it does not and retryNow is sent',
    expectRefusedUntilRetry,
  );
  it.each(['full', 'used-up'] as const)(
    '[mcm 25] has no room (%s), until it has and retryNow is sent',
    expectRefusedUntilRetry,
  );

  describe('[mcm 57] when a Machine is deleted', () => {
    it('loses a VM: the machine is Unknown, and its deletion finds that there is nothing to delete', async () => {
      await millwright.untilPhase(refOf('vanishing'), 'Running');
      const [vm] = await millwright.vmsOf(refOf('vanishing'));
      await deleteBehindOurBack(vm?.id ?? '');
      await declareSilent('vanishing');
      await millwright.untilPhase(refOf('vanishing'), 'Unknown');
      expect((await describeRows('vanishing'))['To unblock']).toMatch(
        /See in the cloud whether VM .* nobody replaces it/,
      );

      await millwright.control.delete(machines, refOf('vanishing'));

      await millwright.untilGone(refOf('vanishing'));
      const reasons = ['VmCreated', 'NodeJoined', 'NodeUnhealthy', 'Deleting', 'Deleted'];
      expect(await eventReasonsOf('vanishing', 'Deleted')).toEqual(reasons);
      expect(await millwright.target.find(nodes, { name: 'vanishing' })).toBeUndefined();
    });

    it.each(['leaving-refused', 'leaving-throttled', 'leaving-down'] as const)(
      'refuses to delete (%s), until it does not and somebody says so',
      async (name) => {
        await expectShown(name, deletions[name], true);
        if (name === 'leaving-throttled') expect(await shortPausesOf(name, 'delete')).toEqual([]);

        await mend(name);
        if (name === 'leaving-refused') await millwright.putSecret(name, { token: 'letmein' });
        else await retryNow(name);
        await expectDeleted(name);
      },
    );
  });

  it('is not there: the Machines of a class with a wrong address can be deleted, and made when it is corrected', async () => {
    const { cloud, control, namespace } = millwright;
    const spec = { machineType: 'small', region: 'here', tags: { cluster: namespace } };
    await millwright.createClass('nowhere', { providerSpec: { ...spec, endpoint: 'http://127.0.0.1:1' } });
    const of = { class: { kind: 'MachineClass', name: 'nowhere' } };
    const deleted = await millwright.createMachine('nowhere-deleted', of);
    const corrected = await millwright.createMachine('nowhere-corrected', of);
    for (const ref of [deleted, corrected]) {
      const { status } = await millwright.untilPhase(ref, 'CrashLoopBackOff');
      expect(status?.lastOperation?.description).toContain('http://127.0.0.1:1 cannot be reached (ECONNREFUSED)');
      expect((await millwright.describe(ref)).unblock).toContain('Where the class is wrong, correct it');
    }
    await control.delete(machines, deleted);
    await millwright.untilGone(deleted);

    const key = { namespace, name: 'nowhere' };
    await control.patch(machineClasses, key, mergePatch({ providerSpec: { endpoint: cloud.url } }));
    await millwright.untilPhase(corrected, 'Running');
    expect(await millwright.vmsOf(corrected)).toHaveLength(1);
  });

  it('does not say how a VM is that does not join', async () => {
    await until('it was asked in vain', async (see) => see(await millwright.eventsOf(refOf('never'))).length > 1);
    const event = await millwright.untilEvent(refOf('never'), 'FailedLookup');
    expect(event.note).toMatch(/^Unavailable: .*503: ServiceUnavailable/);
    const described = await describedWith('never', 'what it waits for', ({ until: end }) => end !== undefined);
    expect(described).toMatchObject({
      phase: 'Pending',
      waitingFor: 'node never to register',
      blockedOn: 'NodeJoin',
      lastError: { code: 'Unavailable' },
      unblock: expect.stringContaining("VM's console"),
    });
    expect(await describeRows('never')).toMatchObject({
      Phase: 'Pending',
      'Last error': expect.stringContaining('503'),
    });
    expect((await get('never')).status?.lastOperation).toMatchObject({ type: 'Create', state: 'Processing' });

    await mend('never');
    await millwright.control.delete(machines, refOf('never'));
    await millwright.untilGone(refOf('never'));
    expect(await eventReasonsOf('never', 'Deleted')).toEqual(['VmCreated', 'FailedLookup', 'Deleting', 'Deleted']);
  });

  /** Writes what the controller of Nodes writes about one whose kubelet is silent. */
  async function declareSilent(name: string): Promise<void> {
    const condition = { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown', message: 'it is silent' };
    const patch = strategicMergePatch({ status: { conditions: [condition] } });
    await millwright.target.patch(nodes, { name }, patch, { subresource: 'status' });
  }

  /** As somebody does it in the console of a cloud. */
  async function deleteBehindOurBack(id: string): Promise<void> {
    const headers = { authorization: `Bearer ${plainSecret.token}` };
    const { body } = await request(`${millwright.cloud.url}/v1/vms/${id}`, { method: 'DELETE', headers });
    await body.dump();
  }
});
