/** The log of a worker tells the life of a machine. */
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { workflowId } from '../../api/workflow-id.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

let millwright: Installation;
beforeAll(async () => {
  millwright = await startInstallation({ alone: 'its log is read' });
});
afterAll(() => millwright?.stop());

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly machine?: string;
}

function linesOf(name: string): Line[] {
  const lines = millwright.processes.flatMap((each) => each.logs().trimEnd().split('\n'));
  return lines
    .filter((line) => line.includes(`"${name}"`))
    .map((line): Line => JSON.parse(line))
    .filter(({ machine }) => machine === name);
}

it('has a line for each phase and each refusal of a machine, so that a search for its name is its life', async () => {
  await millwright.cloud.setFaults({ kind: 'capacity' });
  await millwright.createDeployment('pool', 1);
  await until('it is refused', () => millwright.processes.some((each) => each.logs().includes('ResourceExhausted')));
  await millwright.cloud.setFaults();
  const [machine] = await millwright.machines();
  const { name = '', uid = '' } = machine?.metadata ?? {};
  const ref = { dialect: 'gardener', namespace: millwright.namespace, name, uid };
  await millwright.handleOf(ref).signal('retryNow');
  await millwright.untilPhase(ref, 'Running');
  await millwright.scale('pool', 0);
  await millwright.untilGone(ref);
  await until('all is logged', () => linesOf(name).at(-1)?.msg === 'the machine is gone');

  const lines = linesOf(name);

  const common = { level: 'info', deployment: 'pool', workflowId: workflowId(millwright.namespace, 'Machine', ref) };
  const [refused, ...later] = lines;
  expect(refused).toMatchObject({
    ...common,
    phase: 'CrashLoopBackOff',
    provider: 'simulated',
    code: 'ResourceExhausted',
  });
  expect(refused).toHaveProperty('note', expect.stringContaining('Raise the quota'));
  for (const line of lines) expect(line).toMatchObject(common);
  const phases = later.filter((line) => 'before' in line);
  expect(phases).toMatchObject([
    { phase: 'Pending', before: 'CrashLoopBackOff', seconds: expect.any(Number) },
    { phase: 'Running', before: 'Pending', provider: 'simulated', seconds: expect.any(Number) },
    { phase: 'Terminating', before: 'Running' },
  ]);
  expect(lines.filter(({ msg }) => msg === 'a step of the machine was refused').length).toBe(
    lines.length - phases.length - 2,
  );
});
