/**
 * `millwright stuck` and `millwright timeline`: from the alarm to the cause with one command each, on a real
 * installation.
 */
import { hostname, userInfo } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { machines } from '../../api/gardener/resources.ts';
import { events } from '../../kube/core.ts';
import { skipDrainSignal } from '../../workflows/machine/messages.ts';
import { fromSetup, type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { startProcess } from '../support/millwright.ts';
import { heldSweep, makeVm, quickSweeps, untilOld } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

describe('machines that are stuck', () => {
  let millwright: Installation;
  beforeAll(async () => {
    millwright = await startInstallation({ flags: quickSweeps });
  });
  afterAll(() => millwright?.stop());

  const servers = () => [
    ...['--temporal-address', fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')],
    ...['--target-kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG')],
  ];

  /** Standard output and errors of a command, which has to end well. undefined: it has failed. */
  async function command(...args: string[]): Promise<string | undefined> {
    const server = args[0] === 'get' ? [] : ['--temporal-address', fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')];
    const { exited, logs } = startProcess([...args, '-n', millwright.namespace, ...server]);
    return (await exited).code === 0 ? logs() : undefined;
  }

  it('are listed by cause, with their deployments, the last error and what would unblock them', async () => {
    expect(await command('stuck')).toBe('nothing is stuck\n');
    await millwright.cloud.setFaults({ kind: 'capacity' });
    const labels = { name: 'nobody' }; // says nothing of the deployment: that of the set counts
    await millwright.createDeployment('pool', 3, {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { class: { kind: 'MachineClass', name: 'small' } } },
    });
    await millwright.createMachine('lost', { class: { kind: 'MachineClass', name: 'nowhere' } });

    const said = await until('both causes are listed', async () => {
      const text = (await command('stuck')) ?? '';
      const areListed = /^CloudCapacity: 3 machines/m.test(text) && /^Source: 1 machine\./m.test(text);
      return areListed && !text.includes('it does not answer') ? text : undefined;
    });

    expect(said).toMatch(/^CloudCapacity: 3 machines\. The cloud has no capacity .*\n {2}of pool 3\n/);
    expect(said).toMatch(/for .* \(since .*Z\), ResourceExhausted: .*InsufficientCapacity/);
    expect(said).toContain('To unblock: Raise the quota or choose another machine type or zone');
    expect(said).toMatch(/^Source: 1 machine\. .*\n {2}lost: .*MachineClass "nowhere" does not exist/m);
    type Listed = { blocked: unknown[]; longest: { since?: string } };
    const first = await until('the workflow answers', async (see) => {
      const [cause] = see(JSON.parse((await command('stuck', '-o', 'json')) ?? '')) as Listed[];
      return cause?.longest.since === undefined ? undefined : cause;
    });
    expect(first).toMatchObject({
      blockedOn: 'CloudCapacity',
      type: 'machine',
      longest: { since: expect.any(String) },
    });
    expect(first.blocked).toHaveLength(3);
  });

  it('are not said to be all, where no process of the installation works', async () => {
    const to = ['--installation', 'nosuch'];
    expect(await millwright.command('stuck', ...to)).toEqual({
      code: 1,
      output: expect.stringMatching(
        /^Temporal knows of no worker and no controllers of installation 'nosuch'.*, so whether something is stuck is not known\n$/,
      ),
    });
    expect(await millwright.command('sweep', 'approve', 'nope', ...to)).toMatchObject({
      code: 1,
      output: expect.stringContaining('so whether a sweep waits for approval is not known: start one'),
    });
    expect(await millwright.command('sweep', 'approve', 'nope')).toMatchObject({
      code: 1,
      output: expect.stringContaining('says that it waits for approval, so nothing was approved'),
    });
    const retried = (await millwright.command('retry', '--blocked-on', 'Source', ...to)).output;
    expect(retried).toContain('signalled 0 workflows');
    expect(retried).toContain("Temporal knows of no worker and no controllers of installation 'nosuch'");
    expect((await millwright.command('describe', 'machine', 'lost', ...to)).output).toContain(
      'not open: the controllers have to start it, and Temporal knows of none of this installation',
    );
    for (const words of [['stuck'], ['retry', '--blocked-on', 'Source']]) {
      const { exited, logs } = startProcess([...words, '-n', 'nosuch', ...servers()]);
      expect(await exited).toMatchObject({ code: 1 });
      expect(logs()).toBe('namespace nosuch does not exist in the control cluster: correct --namespace\n');
    }
  });

  it('show in their history, beside each call and each timer, what it is for', async () => {
    const [first] = (await millwright.machines()).filter(({ metadata }) => metadata.name !== 'lost');
    const { namespace } = millwright;
    const { name = '', uid = '' } = first?.metadata ?? {};
    const { events } = await millwright.handleOf({ dialect: 'gardener', namespace, name, uid }).fetchHistory();
    const summaries = (events ?? []).flatMap(({ userMetadata, activityTaskScheduledEventAttributes: call }) => {
      const summary = userMetadata?.summary;
      return summary ? [[call?.activityType?.name ?? 'timer', defaultPayloadConverter.fromPayload(summary)]] : [];
    });

    // On a busy machine a task of the workflow is done again, and finds the finalizer.
    const ofVm = new RegExp(`^VM of ${name}(, which an earlier call may have made)?$`);
    expect(summaries).toContainEqual(['ensureVm', expect.stringMatching(ofVm)]);
    expect(summaries).toContainEqual(['timer', 'next try after ResourceExhausted']);
  });

  it('are listed with what they wait for, and so are their deployments', async () => {
    const cluster = ['--target-kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG')];
    const get = (...args: string[]) => command('get', ...args, ...cluster);
    const lines = ((await get('machines')) ?? '').trimEnd().split('\n');
    expect(lines[0]).toMatch(/^NAME +PHASE +DEPLOYMENT +FOR +WAITS FOR$/);
    expect(
      lines.filter((line) => /^pool-\S+ +CrashLoopBackOff +pool +\d.* (s|min) +.*InsufficientCapacity/.test(line)),
    ).toHaveLength(3);
    expect(lines).toHaveLength(1 + 4);
    expect(JSON.parse((await get('deployments', 'pool', '-o', 'json')) ?? '')).toEqual([
      {
        ...{
          namespace: millwright.namespace,
          name: 'pool',
          desired: 3,
          machines: 3,
          old: 0,
          available: 0,
          since: expect.any(String),
        },
        created: expect.any(String),
        waitsFor: '3 machines are not running',
      },
    ]);
    expect(await get('deployments', 'pool', '-o', 'yaml')).toMatch(
      /^- namespace: \S+\n {2}name: pool\n {2}desired: 3\n/,
    );
    expect(await get('deployments', '-o', 'wide')).toMatch(/^NAME .* AGE +FOR +WAITS FOR$/m);
    expect(await get('sets')).toMatch(/^pool-\S+ +pool +3 +3 +0$/m);
    expect(await get('machines', 'nobody')).toBeUndefined();
    const { namespace } = millwright;
    expect(await millwright.command('get', 'machines', 'nobody', 'lost')).toEqual({
      code: 1,
      output: expect.stringMatching(
        new RegExp(
          `^NAME .*\\nlost .*\\nMachine nobody not found in namespace ${namespace}: correct .* run millwright timeline nobody .*\\n$`,
        ),
      ),
    });
    expect(await millwright.command('describe', 'machine', 'nobody', 'lost', 'nothing')).toEqual({
      code: 1,
      output: expect.stringMatching(
        new RegExp(
          `^Machine +${namespace}/lost\\n[^]*\\nMachine ${namespace}/nobody, ${namespace}/nothing do not exist`,
        ),
      ),
    });
    expect(await get('machines', '-l', 'name=nobody', '-o', 'json')).toContain('pool-');
    expect(await get('machines', '-l', 'name=nobody', '-o', 'json')).not.toContain('"lost"');
    const everywhere = JSON.parse((await get('machines', '-A', '-o', 'json')) ?? '') as { namespace: string }[];
    expect(everywhere.filter(({ namespace }) => namespace === millwright.namespace)).toHaveLength(4);
    expect(await get('machines', '--sort-by', '.metadata.creationTimestamp')).toMatch(/^lost /m);
    expect(await get('machines', '--sort-by', '.spec.nothing')).toBeUndefined();
    expect(await get('machines', 'lost', '-A')).toBeUndefined();
  });

  it('are offered by completion', async () => {
    const servers = ['-n', millwright.namespace, '--target-kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG')];
    // A shell gets nothing where the API server does not answer within 1.5 s.
    const offered = await until('something is offered', async () => {
      const completing = startProcess(['__complete', 'describe', 'machine', ...servers, 'lo']);
      expect(await completing.exited).toMatchObject({ code: 0 });
      return completing.logs() || undefined;
    });
    expect(offered).toBe('lost\n');
  });

  it('are printed again when they change, with --watch', async () => {
    const servers = ['-n', millwright.namespace, '--target-kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG')];
    const watching = startProcess(['get', 'machines', '--watch', ...servers]);
    await until('all are printed', () => /^lost /m.test(watching.logs()));
    const late = await millwright.createMachine('late', { class: { kind: 'MachineClass', name: 'nowhere' } });
    await until('the new one is printed', () => /^late /m.test(watching.logs()));
    await millwright.control.delete(machines, late);
    await until('it is gone', () => /^late .* \(gone\)$/m.test(watching.logs()));
    expect(watching.logs().match(/^NAME /gm)).toHaveLength(1);
    await watching.stop();
  });

  it('show in their timeline where the time went, also when they are gone', async () => {
    await millwright.cloud.setFaults();
    const all = await millwright.machines();
    const waiting = all.map(({ metadata }) => metadata).filter(({ name }) => name !== 'lost');
    const [first] = waiting;
    expect(await command('retry', `machine/${first?.name}`)).toMatch(/^machine \S+: it tries again now$/m);
    // The first may be listed still, and then gets the signal twice.
    expect(await command('retry', '--blocked-on', 'CloudCapacity')).toMatch(/^signalled [23] workflows/);
    expect(await command('retry', 'nobody')).toBeUndefined();
    const ordered = await until('an Event says who has ordered it', async (see) => {
      const { items } = see(await millwright.control.list(events, { namespace: millwright.namespace }));
      return items.find(({ reason, regarding }) => reason === 'Ordered' && regarding?.name === first?.name);
    });
    expect(ordered.note).toBe(`\`millwright retry\` by ${userInfo().username}@${hostname()}`);
    const phases = async () => (await millwright.machines()).map(phaseOf);
    await until('they run', async (see) => see(await phases()).filter((phase) => phase === 'Running').length === 3);
    expect(await command('drain', first?.name ?? '')).toBeUndefined();
    const early = await millwright.command('drain', `mc/${first?.name}`, '--skip');
    expect(early).toMatchObject({
      code: 1,
      output: expect.stringContaining('is not being deleted, so nothing was done'),
    });
    const { namespace } = millwright;
    const ref = { dialect: 'gardener', namespace, name: first?.name ?? '', uid: first?.uid ?? '' } as const;
    await millwright.handleOf(ref).signal(skipDrainSignal);
    await millwright.scale('pool', 0);
    await until('an Event says why it was deleted', async (see) => {
      const { items } = see(await millwright.control.list(events, { namespace }));
      const found = items.find(({ reason, regarding }) => reason === 'DeletedByOwner' && regarding?.uid === first?.uid);
      return found?.note === 'scale-down of MachineDeployment pool';
    });

    const lived = await until('the timeline ends', async () => {
      const text = (await command('timeline', `machine/${first?.name}`)) ?? '';
      return text.includes('gone') ? text : undefined;
    });

    expect(lived).toMatch(
      / (s|min) +provision +ResourceExhausted.*; blocked on CloudCapacity; signals retryNow(, retryNow)?$/m,
    );
    expect(lived.match(/(?<= (?:s|min) {2,})(validate|provision|join|run|drain|delete)\b/g)).toEqual([
      ...['validate', 'provision', 'join', 'run', 'drain', 'delete'],
    ]);
    expect(lived).toMatch(/ (s|min) +run +signals (retryNow, )?skipDrain$/m);
    expect(lived).toMatch(/ (s|min) +(drain|delete) +scale-down of MachineDeployment pool$/m);
    expect(await command('timeline', 'nobody')).toBeUndefined();
  });

  it('are listed beside a sweep that waits for approval, with the command that approves it', async () => {
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c', 'd']) ids.push(await makeVm(millwright, name));
    await untilOld(millwright);
    expect(await heldSweep(millwright)).toMatchObject({
      code: 1,
      output: expect.stringContaining('waits for approval'),
    });

    const said = await until('both causes are listed', async () => {
      const text = (await command('stuck')) ?? '';
      return /^Brake: 1 orphan sweep\./m.test(text) && !text.includes('it does not answer') ? text : undefined;
    });

    expect(said).toMatch(/^Source: 1 machine\. .*\n {2}lost: .*MachineClass "nowhere" does not exist/m);
    expect(said).toMatch(/^ {2}\S+: for .* \(since \S+\), waits for approval: there are 4 orphans/m);
    for (const id of ids) expect(said).toContain(`vm ${id}`);
    expect(said).toMatch(/^ {2}To unblock: .* millwright sweep approve -n .* --( simulated:\S+){4}$/m);
  });

  it('are shown with the escape sequences in their names of classes, which reach no terminal', async () => {
    const name = '\u001b]0;title\u0007\u001b[31mred\u009b0m';
    // Of each cause, the machine that waits longest is shown.
    await millwright.control.delete(machines, { namespace: millwright.namespace, name: 'lost' });
    const { name: machine } = await millwright.createMachine('escapes', { class: { kind: 'MachineClass', name } });
    const stuck = await until('it is listed', async (see) => {
      const text = see((await command('stuck')) ?? '');
      return /escapes: for/.test(text) ? text : undefined;
    });
    const listed = (await millwright.command('get', 'machines')).output;
    const described = (await millwright.command('describe', 'machine', machine)).output;

    for (const text of [stuck, listed, described]) {
      expect(text).toContain('\\u001b]0;title\\u0007\\u001b[31mred\\u009b0m');
      expect(text).not.toMatch(/[^\P{Cc}\n\t]/u);
    }
  });
});
