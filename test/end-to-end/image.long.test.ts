/** The image, made of the files of a release with the steps of its Containerfile, although without a container engine. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { makeFiles } from '../../deploy/release.ts';
import { buildName, version } from '../../temporal/version.ts';
import { buildImage, type Image, removeImage } from '../support/image.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { purlOf } from '../support/purl.ts';
import { giveTo } from '../support/users.ts';

const checkout = fileURLToPath(new URL('../../', import.meta.url));

describe('the image', () => {
  let folder: string;
  let image: Image;
  let installation: Installation;
  let millwright: MillwrightProcess;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-image-'));
    const context = join(folder, 'context');
    await mkdir(context);
    await makeFiles(checkout, version, join(folder, 'release'));
    const archive = join(folder, 'release', `millwright-${version}-image.tar.gz`);
    await promisify(execFile)('tar', ['--extract', '--file', archive, '--directory', context]);
    image = await buildImage(context, folder);
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

  it('has the packages that the list of the release has, and no others', async () => {
    const bill = JSON.parse(await readFile(join(folder, 'release', `millwright-${version}.cdx.json`), 'utf8'));
    const installed = JSON.parse(
      await readFile(join(image.root, 'millwright/node_modules/.package-lock.json'), 'utf8'),
    ) as { packages: Record<string, { version: string }> };

    const listed = bill.components.flatMap(({ purl }: { purl?: string }) => purl ?? []);
    expect(new Set(Object.entries(installed.packages).map(purlOf))).toEqual(new Set(listed));
  });

  it('has the authorities with which a worker trusts a server', async () => {
    expect(await output('cat', join(image.root, 'etc/ssl/certs/ca-certificates.crt'))).toContain('BEGIN CERTIFICATE');
  });

  it('is the command millwright, which becomes ready and keeps a machine', async () => {
    expect(await output(image.entrypoint, '--help')).toContain('Usage: millwright');
    expect(await output(image.entrypoint, 'version')).toBe(
      `Millwright ${buildName()}, Node ${process.versions.node}\n`,
    );

    await installation.createDeployment('workers', 1);
    await installation.untilMachines(1, 'Running');
    expect((await fetch(`${millwright.url}/readyz`)).status).toBe(200);
  });
});
