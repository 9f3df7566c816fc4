/** The image, made with the steps of its Containerfile, although without a container engine. */
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { buildImage, type Image, removeImage } from '../support/image.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { giveTo } from '../support/users.ts';

const checkout = fileURLToPath(new URL('../../', import.meta.url));

describe('the image', () => {
  let folder: string;
  let image: Image;
  let installation: Installation;
  let millwright: MillwrightProcess;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-image-'));
    image = await buildImage(checkout, folder);
    installation = await startInstallation({ alone: 'it runs the image', isStopped: true });
    const kubeconfig = join(folder, 'kubeconfig');
    await copyFile(fromSetup('MILLWRIGHT_TEST_KUBECONFIG'), kubeconfig);
    await giveTo(image.user, kubeconfig);
    const { namespace } = installation;
    millwright = await startMillwright({
      ...{ namespace, kubeconfig, isSmall: true },
      program: [...image.inside, image.entrypoint],
    });
  }, 600_000); // it installs all packages
  afterAll(async () => {
    await millwright?.stop();
    await installation?.stop();
    await removeImage(folder);
  });

  /** Standard output of a command in the image. */
  async function output(...command: readonly string[]): Promise<string> {
    const [program = '', ...args] = [...image.inside, ...command];
    return (await promisify(execFile)(program, args)).stdout;
  }

  it('runs as the user of the chart, who may write to none of its files', async () => {
    const manifests = await readFile(join(checkout, 'deploy/manifests/millwright.yaml'), 'utf8');
    const [, user, group] = /runAsUser: (\d+)\s+runAsGroup: (\d+)/.exec(manifests) ?? [];

    expect(image.user).toBe(`${user}:${group}`);
    expect(await output('find', image.root, '-writable')).toBe('');
  });

  it('has the authorities with which a worker trusts a server', async () => {
    expect(await output('cat', join(image.root, 'etc/ssl/certs/ca-certificates.crt'))).toContain('BEGIN CERTIFICATE');
  });

  it('is the command millwright, which becomes ready and keeps a machine', async () => {
    expect(await output(image.entrypoint, '--help')).toContain('Usage: millwright');

    await installation.createDeployment('workers', 1);
    await installation.untilMachines(1, 'Running');
    expect((await fetch(`${millwright.url}/readyz`)).status).toBe(200);
  });
});
