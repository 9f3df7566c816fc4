import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Connection } from '@temporalio/client';
import { stringify } from 'yaml';
import { providerTaskQueue } from '../../../api/names.ts';
import { fromSetup } from '../../../test/support/from-setup.ts';
import { newNamespace, testClient } from '../../../test/support/kube.ts';
import { writePythonClass } from '../../../test/support/python-provider.ts';
import { connectTemporal } from '../../../test/support/temporal.ts';
import { until } from '../../../test/support/until.ts';
import { startSimulatedCloud } from '../simulated-cloud/admin.ts';
import { readOwnProvider, startWorker } from './own-provider.ts';

const machineClass = {
  ...{ kind: 'MachineClass', metadata: { name: 'small' } },
  ...{ provider: 'python', secretRef: { name: 'pool' }, providerSpec: {} },
};
const secret = { kind: 'Secret', metadata: { name: 'pool' }, stringData: { token: 'letmein' } };

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'millwright-own-provider-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

async function writeClass(...documents: object[]): Promise<string> {
  const path = join(dir, 'class.yaml');
  await writeFile(path, documents.map((each) => stringify(each)).join('---\n'));
  return path;
}

describe('readOwnProvider', () => {
  it('needs neither flag', () => {
    expect(readOwnProvider({ cloud: 'aws' })).toBeUndefined();
  });

  it('answers the class and its provider', async () => {
    const path = await writeClass(machineClass, secret);

    const own = readOwnProvider({ class: path, worker: './provider' });
    expect(own).toEqual({ file: path, className: 'small', provider: 'python', worker: './provider' });
  });

  it.each([
    [{ worker: './provider' }, '--class is missing: give the path of a file with a MachineClass'],
    [{ class: 'class.yaml' }, '--worker is missing: give the command that starts the worker of the provider'],
    [
      { class: 'class.yaml', worker: '' },
      '--worker is missing: give the command that starts the worker of the provider',
    ],
    [{ worker: './provider', cloud: 'aws' }, "--cloud is 'aws': leave it out with --class and --worker"],
    [{ worker: './provider', class: 'no-file' }, "--class is 'no-file': give the path of a file that can be read"],
  ])('refuses %j', (flags, message) => {
    expect(() => readOwnProvider(flags)).toThrow(message);
  });

  it.each([
    ['which has 0 MachineClasses: give it one', [secret]],
    ['whose class has no provider: set provider to the name of yours', [{ ...machineClass, provider: '' }, secret]],
    ['whose class names the Secret default/pool: add it to the file as a document', [machineClass]],
    [
      "where metadata.namespace is 'garden': leave it out, the demo is in 'default'",
      [machineClass, { ...secret, metadata: { name: 'pool', namespace: 'garden' } }],
    ],
  ])('refuses a file %s', async (message, documents) => {
    const path = await writeClass(...documents);

    expect(() => readOwnProvider({ class: path, worker: './provider' })).toThrow(`--class is '${path}', ${message}`);
  });
});

describe('startWorker', () => {
  const control = testClient();
  let connection: Connection;
  let installation: string;
  const lines: string[] = [];
  const ends: (() => Promise<void> | void)[] = [];

  beforeAll(async () => {
    connection = await connectTemporal();
    installation = await newNamespace(control);
  });
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
    lines.length = 0;
  });
  afterAll(async () => {
    await connection?.close();
    await control.close();
  });

  async function start(worker: string, provider: string): Promise<void> {
    const kubeconfig = fromSetup('MILLWRIGHT_TEST_KUBECONFIG');
    const temporalAddress = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
    const print = (line: string) => void lines.push(line);
    const place = { dir, kubeconfig, temporalAddress, connection, installation, print, withinMs: 1_000 };
    ends.push(await startWorker({ provider, worker }, place));
  }

  /** Polls in the place of a worker. */
  function poll(provider: string): void {
    const polling = new AbortController();
    const taskQueue = { name: providerTaskQueue(installation, provider) };
    const polled = connection.withAbortSignal(polling.signal, () =>
      connection.withDeadline(Date.now() + 60_000, () =>
        connection.workflowService.pollActivityTaskQueue({ namespace: 'default', taskQueue, identity: 'test' }),
      ),
    );
    polled.catch(() => undefined);
    ends.push(() => polling.abort());
  }

  it('throws with the command, how it has ended and its log when it ends before it polls', async () => {
    await expect(start('echo no such module; exit 3', 'ends')).rejects.toThrow(
      "--worker is 'echo no such module; exit 3', which has ended (3) before it polled " +
        `${installation}.provider-ends: give one that keeps running. Its log:\n  no such module`,
    );
  });

  it('throws with the task queue when nothing polls it in time', async () => {
    await expect(start('exec sleep 60', 'elsewhere')).rejects.toThrow(
      `--worker is 'exec sleep 60', and nothing polls ${installation}.provider-elsewhere after 1 s: let the worker poll this task queue`,
    );
  });

  it('gives the worker the documented variables and none of the others of its environment', async () => {
    poll('variables');
    const file = join(dir, 'variables');
    await start(`env > ${file}.half; mv ${file}.half ${file}; exec sleep 60`, 'variables');

    const text = await until('they are written', () => readFile(file, 'utf8'));
    const variables = Object.fromEntries([...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]));
    expect(variables).toMatchObject({
      TEMPORAL_ADDRESS: fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS'),
      TEMPORAL_NAMESPACE: 'default',
      MILLWRIGHT_INSTALLATION: installation,
      KUBECONFIG: expect.stringContaining(dir),
      KUBERNETES_SERVER: expect.stringMatching(/^https:/),
      KUBERNETES_TOKEN_FILE: expect.stringContaining(dir),
      KUBERNETES_CA_FILE: expect.stringContaining(dir),
    });
    expect(variables).not.toHaveProperty('MILLWRIGHT_TEST_KUBECONFIG');
  });

  it('starts a worker that has ended later again, and says so', async () => {
    poll('restarted');
    const file = join(dir, 'starts');
    await start(`echo started >> ${file}; [ "$(wc -l < ${file})" = 2 ] && exec sleep 60`, 'restarted');

    await until('it is started again', async (see) => see(await readFile(file, 'utf8')) === 'started\nstarted\n');
    expect(lines).toEqual([`The worker has ended (1) and is restarted: see ${join(dir, 'worker.log')}`]);
  });
});

it('npm run demo makes a machine of the provider in Python Available, and deletes its VM', async () => {
  const cloud = await startSimulatedCloud({ dir: join(dir, 'cloud'), bootMs: 200, deleteMs: 2_000 });
  try {
    const flags = await writePythonClass(dir, cloud.url);
    const { stdout } = await promisify(execFile)(process.execPath, ['deploy/local/demo.ts', '--exit', ...flags]);

    expect(stdout).toMatch(/✓ the worker of the provider python [^]*✓ The class gets a machine, which is Available/);
    expect(stdout).toMatch(/Each of the 3 commands had its effect\.\n[^]*✓ Delete all machines and their VMs/);
    expect(await cloud.stats()).toMatchObject({ vmsEver: 1, vmsNow: 0 });
  } finally {
    await cloud.stop();
  }
});
