/** `npm run conformance`, the command. conformance-<provider>.test.ts run it for the providers of this repository. */
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { secrets } from '../../kube/core.ts';
import { cases } from '../conformance/cases.ts';
import { startSimulatedCounterpart } from '../conformance/counterparts/simulated.ts';
import { providers } from '../conformance/providers.ts';
import { conformance, servers } from '../support/conformance.ts';
import { newNamespace, testClient } from '../support/kube.ts';

describe('npm run conformance for a provider of somebody else', () => {
  const control = testClient();
  let namespace: string;
  let dir: string;
  let cloud: Awaited<ReturnType<typeof startSimulatedCounterpart>>;
  let args: string[];

  beforeAll(async () => {
    namespace = await newNamespace(control);
    dir = await mkdtemp(join(tmpdir(), 'conformance-test-'));
    cloud = await startSimulatedCounterpart();
    const file = join(dir, 'class.yaml');
    const { providerSpec, credentials } = cloud;
    const secretRef = { namespace, name: 'account' };
    const documents = [
      { kind: 'MachineClass', metadata: { namespace, name: 'small' }, provider: 'simulated', secretRef, providerSpec },
      { kind: 'Secret', metadata: secretRef, stringData: credentials },
    ];
    await writeFile(file, documents.map((each) => stringify(each)).join('---\n'));
    args = ['--provider', 'simulated', '--class', file, '--namespace', namespace, ...servers()];
  });
  afterAll(async () => {
    await cloud?.stop();
    await control.close();
    await rm(dir, { recursive: true, force: true });
  });

  it('starts and kills the worker of --worker, says what it cannot run, and leaves nothing behind', async () => {
    const worker = [process.execPath, fileURLToPath(new URL('../../cli/main.ts', import.meta.url)), 'worker'];
    const flags = ['-n', namespace, ...servers(), '--address', '127.0.0.1', '--port', '0'];
    const { code, stdout } = await conformance(...args, '--worker', [...worker, ...flags].join(' '));

    const needingCloud = cases.filter(({ needs }) => needs.some((need) => need !== 'worker')).length;
    const notRun = needingCloud + 1; // and the tags, which the simulated provider does not change
    const passed = cases.length - notRun + 1; // and at the end that nothing is left
    expect(stdout.trim().split('\n').at(-1)).toBe(`${passed} passed, 0 failed, ${notRun} not run`);
    expect(stdout).toContain('needs a cloud under its control, with the fault lostAnswer: give --counterpart');
    expect(stdout).toContain('It is not known whether simulated keeps these promises');
    expect(code).toBe(3);
    expect(await cloud.things()).toEqual([]);
    expect((await control.list(secrets, { namespace })).items).toEqual([]);
  }, 600_000);
});

describe('npm run conformance', () => {
  it('has a file beside this one for each provider of this repository', () => {
    const hasFile = (name: string) =>
      ['test.ts', 'long.test.ts'].some((end) => existsSync(new URL(`conformance-${name}.${end}`, import.meta.url)));

    expect(providers.filter(({ name }) => !hasFile(name))).toEqual([]);
  });

  it.each([
    [[], '--provider is missing: name the provider, or give --all'],
    [['--provider', 'example'], '--class is missing: give the path of a file with a MachineClass'],
    [['--provider', 'example', '--class', '/nowhere'], "--class is '/nowhere': give the path of a file"],
    [['--all', '--case', 'nothing'], "--case is 'nothing', which no title has: give a part of a title"],
    [
      ['--all', '--provider', 'example'],
      "--provider is 'example': with --all give one of simulated, aws, azure, openstack",
    ],
    [['--all', '--class', 'class.yaml'], "--class is 'class.yaml': leave it out with --all"],
    [
      ['--provider', 'example', '--counterpart', 'http://127.0.0.1:9', '--class', 'class.yaml'],
      "--class is 'class.yaml': leave it out with --counterpart",
    ],
    [['--provider', 'example', '--counterpart', 'http://127.0.0.1:9'], '--worker is missing: give the command'],
    [
      ['--provider', 'example', '--counterpart', '127.0.0.1:9', '--worker', 'true'],
      "--counterpart is '127.0.0.1:9': give an http or https URL",
    ],
    [
      ['--provider', 'example', '--counterpart', 'http://127.0.0.1:9', '--worker', 'true'],
      "--counterpart is 'http://127.0.0.1:9', of which the suite cannot ask GET /: connect ECONNREFUSED 127.0.0.1:9",
    ],
    [['--all', '--temporal-address', 'here'], "--temporal-address is 'here': give host:port"],
  ])('refuses %j', async (args, problem) => {
    const { code, stderr } = await conformance(...args);

    expect(stderr).toContain(problem);
    expect(code).toBe(2);
  });
});
