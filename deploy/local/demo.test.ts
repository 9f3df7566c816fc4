import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import { until } from '../../test/support/until.ts';

// `npm test` runs the tour with the simulated cloud, as a step: `npm run demo -- --exit`. demo.long.test.ts runs it
// with the others.
describe('npm run demo', () => {
  const started: ChildProcess[] = [];

  afterEach(() => {
    for (const child of started.splice(0)) child.kill('SIGKILL');
  });

  function startDemo(...args: readonly string[]) {
    const child = spawn(process.execPath, ['deploy/local/demo.ts', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data: Buffer) => {
        output += data.toString();
      });
    }
    return { child, output: () => output };
  }

  /** A demo with everything up, and its folder. */
  async function startedDemo() {
    const demo = startDemo();
    started.push(demo.child);
    await until('everything is up', () => demo.output().includes('$ kubectl apply'));
    const dir = /\S+millwright-demo-\w+/.exec(demo.output())?.[0] ?? '';
    expect(existsSync(dir)).toBe(true);
    expect(await processesOf(dir)).not.toEqual([]);
    return { ...demo, dir };
  }

  it('ends with 0 on Ctrl-C and leaves no process and no folder behind', async () => {
    const { child, dir, output } = await startedDemo();

    child.kill('SIGINT');
    const [code] = await once(child, 'exit');

    expect({ code, output: output() }).toEqual({ code: 0, output: expect.stringMatching(/\nStopping\n$/) });
    // What watches over a server ends a moment after it.
    await until('no process is left', async (see) => see(await processesOf(dir)).length === 0);
    expect(existsSync(dir)).toBe(false);
  });

  it('leaves no process and no folder behind when it is killed', async () => {
    const { child, dir } = await startedDemo();

    child.kill('SIGKILL');

    await until('nothing is left', async () => (await processesOf(dir)).length === 0 && !existsSync(dir));
  });

  it('refuses a cloud that it does not have, names those that it has, and starts nothing', async () => {
    const { child, output } = startDemo('--cloud', 'gcp');
    const [code] = await once(child, 'close');

    expect({ code, output: output() }).toEqual({
      code: 1,
      output:
        "error: option '--cloud <name>' argument 'gcp' is invalid. Allowed choices are simulated, aws, azure, openstack.\n",
    });
  });

  it('refuses a worker without a class, and starts nothing', async () => {
    const { child, output } = startDemo('--worker', './provider');
    const [code] = await once(child, 'close');

    expect({ code, output: output() }).toEqual({
      code: 1,
      output: 'error: --class is missing: give the path of a file with a MachineClass\n',
    });
  });

  it('refuses an option that it does not have, and starts nothing', async () => {
    const { child, output } = startDemo('--exti');
    const [code] = await once(child, 'close');

    expect({ code, output: output() }).toEqual({
      code: 1,
      output: expect.stringMatching(/^error: unknown option '--exti'\n\(Did you mean --exit\?\)\n$/),
    });
  });
});

/** Command lines with the folder: those of all its servers have it. */
async function processesOf(dir: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'args=']);
  return stdout.split('\n').filter((line) => line.includes(dir));
}
