import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { finalizers } from '../../api/gardener/names.ts';
import { machineClasses, machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { verdictOf } from '../../api/verdict.ts';
import { secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, plainSecret, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('a class is checked before a Machine names it', () => {
  let millwright: Installation;

  beforeAll(async () => {
    millwright = await startInstallation();
    millwright.recordAs('source-check');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const specOf = (machineType: string) => {
    const { cloud, namespace } = millwright;
    return { endpoint: cloud.url, machineType, region: 'here', tags: { cluster: namespace } };
  };
  const classOf = (name: string) => ({ class: { kind: 'MachineClass', name } });

  async function resize(name: string, machineType: string): Promise<void> {
    const { control, namespace } = millwright;
    await control.patch(machineClasses, { namespace, name }, mergePatch({ providerSpec: { machineType } }));
  }

  /** Waits until the verdict on a class has these problems, one pattern for each. */
  async function untilJudged(name: string, ...patterns: RegExp[]): Promise<void> {
    const { control, namespace } = millwright;
    await until(
      `the verdict on ${name} is ${patterns.join(' and ') || 'good'}`,
      async () => {
        const machineClass = await control.get(machineClasses, { namespace, name });
        const keys = gardener.source.secretsOf(machineClass);
        const found = await Promise.all(keys.map((key) => control.find(secrets, key)));
        // Our finalizer changes the version of a Secret.
        const isFinal = found.every(
          (each) => each === undefined || each.metadata.finalizers?.includes(finalizers.secret),
        );
        const { version, problems = ['none yet'] } = verdictOf(machineClass) ?? {};
        if (!isFinal || version !== gardener.source.versionOf(machineClass, found)) return false;
        return problems.length === patterns.length && patterns.every((each, i) => each.test(problems[i] ?? ''));
      },
      { describe: () => millwright.story() },
    );
  }

  /** Waits until a Machine of the class says what is wrong with it. */
  async function untilBlocked(ref: ObjectRef, problem: RegExp): Promise<void> {
    await millwright.untilPhase(ref, 'CrashLoopBackOff');
    const { status } = await millwright.control.get(machines, ref);
    expect(status?.lastOperation).toMatchObject({
      errorCode: 'InvalidArgument',
      description: expect.stringMatching(problem),
    });
    expect(await millwright.describe(ref)).toMatchObject({
      blockedOn: 'Source',
      lastError: { message: expect.stringMatching(problem) },
    });
  }

  /** Activities of the workflow of a Machine that providers were asked for. */
  async function callsOf(ref: ObjectRef): Promise<string[]> {
    const { events: history } = await millwright.handleOf(ref).fetchHistory();
    return (history ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? []);
  }

  it('and refused: its Machine shows the problems and calls no provider, until the class is corrected', async () => {
    await millwright.createClass('huge', { providerSpec: { ...specOf('huge'), colour: 'red' } });
    const problems = [/providerSpec\.machineType is "huge": use one of small/, /providerSpec\.colour is not known/];
    await untilJudged('huge', ...problems);
    await millwright.untilEvent('huge', 'SourceRefused', /machineType is "huge".*; .*colour is not known/);
    expect(await millwright.machines()).toEqual([]);

    const ref = await millwright.createMachine('huge', classOf('huge'));
    await untilBlocked(ref, /MachineClass "huge": .*machineType is "huge".*; .*colour is not known/);
    expect([await callsOf(ref), await millwright.vmsOf(ref)]).toEqual([[], []]);
    expect((await millwright.cloud.calls()).filter(({ operation }) => operation === 'create')).toEqual([]);

    const { control, namespace } = millwright;
    const corrected = { providerSpec: { machineType: 'small', colour: null } };
    await control.patch(machineClasses, { namespace, name: 'huge' }, mergePatch(corrected));
    await untilJudged('huge');
    await millwright.untilEvent('huge', 'SourceAccepted', /VMs can be made/);
    await millwright.untilPhase(ref, 'Running');
  });

  it('and again with each change of its Secret', async () => {
    const { control, namespace } = millwright;
    const { userData, token } = plainSecret;
    const key = { namespace, name: 'rotated' };
    await millwright.putSecret('rotated', { userData });
    await millwright.createClass('rotated', { secretRef: key });
    await untilJudged('rotated', /token/);
    const ref = await millwright.createMachine('rotated', classOf('rotated'));
    await untilBlocked(ref, /MachineClass "rotated": .*token/);

    await millwright.putSecret('rotated', { token });
    await untilJudged('rotated');
    await millwright.untilPhase(ref, 'Running');

    // It stays as long as its class names it, unless somebody takes our finalizer off.
    await control.delete(secrets, key);
    await control.patch(secrets, key, mergePatch({ metadata: { finalizers: null } }));
    await untilJudged('rotated', /Secret ".*\/rotated" does not exist/, /key token: .*which does not exist/);
    await millwright.putSecret('rotated', plainSecret);
    await untilJudged('rotated');
  });

  it('and a refusal leaves the Machines alone that have a VM, and lets every Machine be deleted', async () => {
    const { control } = millwright;
    await millwright.createClass('shrunk');
    const running = await millwright.createMachine('with-vm', classOf('shrunk'));
    await millwright.untilPhase(running, 'Running');
    await resize('shrunk', 'tiny');
    await untilJudged('shrunk', /machineType is "tiny"/);
    const waiting = await millwright.createMachine('without-vm', classOf('shrunk'));
    await untilBlocked(waiting, /machineType is "tiny"/);
    await millwright.untilPhase(running, 'Running');

    for (const ref of [waiting, running]) {
      await control.delete(machines, ref);
      await millwright.untilGone(ref);
    }
    expect((await millwright.vmsOf(running)).map(({ state }) => state)).toEqual(['terminated']);
  });
});
