/** The package as npm installs it, outside of any checkout. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { findServer } from '../../deploy/local/servers.ts';
import { version } from '../../temporal/version.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const checkout = fileURLToPath(new URL('../../', import.meta.url));

let folder: string;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-package-'));
  await run('npm', ['pack', '--pack-destination', folder], { cwd: checkout });
  const tarball = join(folder, `millwright-${version}.tgz`);
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball], { cwd: folder });
  const path = [join(folder, 'node_modules/.bin'), dirname(process.execPath), process.env.PATH].join(delimiter);
  env = { ...process.env, PATH: path, NODE_OPTIONS: '', KUBECONFIG: fromSetup('MILLWRIGHT_TEST_KUBECONFIG') };
});

afterAll(() => rm(folder, { recursive: true }));

describe('the package of npm pack, installed into an empty folder', () => {
  let installation: Installation;
  let millwright: MillwrightProcess;
  beforeAll(async () => {
    installation = await startInstallation({ alone: 'it runs the package', isStopped: true });
    const { namespace } = installation;
    const main = join(folder, 'node_modules/millwright/dist/cli/main.js');
    millwright = await startMillwright({
      ...{ namespace, isSmall: true, program: [process.execPath, main] },
      flags: ['--fleet-port', '0'],
    });
  });
  afterAll(async () => {
    await millwright.stop();
    await installation.stop();
  });

  it('has the same help as a checkout', async () => {
    const ofPackage = await run('millwright', ['--help'], { cwd: folder, env });
    const ofCheckout = await run(process.execPath, [join(checkout, 'cli/main.ts'), '--help'], { env });
    expect(ofPackage.stdout).toContain('Usage: millwright');
    expect(ofPackage.stdout).toBe(ofCheckout.stdout);
  });

  it('serves the fleet page', async () => {
    const url = /"url":"([^"]+)"[^\n]*serving the fleet page/.exec(millwright.logs())?.[1] ?? '';
    const files = ['', 'page.css', 'page.js', 'dom.js', 'life.js', 'rollout.js', 'icon.svg'];
    for (const file of files) expect((await fetch(`${url}/${file}`)).status).toBe(200);
  });

  it('keeps machines, as a plugin of kubectl describes them, and replays their runs', async () => {
    const { namespace } = installation;
    const temporal = ['--temporal-address', fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')];
    await installation.createDeployment('workers', 1);
    const [machine] = await installation.untilMachines(1, 'Running');
    const kubectl = await findServer('kubectl');
    const machineCommand = async (...args: string[]) =>
      (await run(kubectl, ['machine', ...args, ...temporal], { cwd: folder, env })).stdout;

    const name = machine?.metadata.name ?? '';
    const description = await machineCommand('describe', 'machine', name, '-n', namespace, '-o', 'json');
    const { workflow } = JSON.parse(description) as { workflow: { id: string } };
    expect(description).toContain('Running');
    const timeline = () => machineCommand('timeline', name, '-n', namespace).catch(() => ''); // the list of Temporal may lag
    const lived = await until('the timeline has the machine', timeline);
    expect(lived.match(/ (validate|provision|join|run)$/gm)?.map((step) => step.trim())).toEqual([
      ...['validate', 'provision', 'join', 'run'],
    ]);
    expect(await machineCommand('replay', workflow.id)).toContain('this version decides the same');
  });
});
