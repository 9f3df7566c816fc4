import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { checksumOf, downloadRelease, releaseFor } from './download.ts';
import { serverSources } from './servers.ts';

describe('checksumOf', () => {
  const [a, b] = ['a'.repeat(64), 'b'.repeat(64)];

  it('finds a file in a list', () => {
    expect(checksumOf(`${a}  etcd-darwin.zip\n${b}  etcd-linux.tar.gz\n`, 'etcd-linux.tar.gz')).toBe(b);
  });

  it('takes a checksum that stands alone', () => {
    expect(checksumOf(`${a}\n`, 'kubectl')).toBe(a);
  });

  it('takes none of another file, and no page that is not a list', () => {
    expect(checksumOf(`${a}  etcd-darwin.zip\n`, 'etcd-linux.tar.gz')).toBeUndefined();
    expect(checksumOf('<html>Sign in to the network</html>', 'kubectl')).toBeUndefined();
  });
});

describe('releaseFor', () => {
  it.each([
    [
      'etcd',
      'https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-linux-arm64.tar.gz',
      'etcd-v3.6.8-linux-arm64/etcd',
    ],
    ['kubectl', 'https://dl.k8s.io/release/v1.34.10/bin/linux/arm64/kubectl', undefined],
    [
      'temporal',
      'https://github.com/temporalio/cli/releases/download/v1.8.2/temporal_cli_1.8.2_linux_arm64.tar.gz',
      'temporal',
    ],
  ] as const)('finds the release of %s', (name, url, member) => {
    const release = releaseFor({ os: 'linux', arch: 'arm64' }, serverSources[name].release);

    expect(release.url).toBe(url);
    expect(release.member).toBe(member);
    expect(release.checksums).not.toContain('{');
  });
});

describe('downloadRelease', () => {
  const files = new Map<string, Buffer | string>();
  let folder: string;
  let publisher: Server;
  let url: string;

  beforeEach(async () => {
    files.clear();
    folder = await mkdtemp(join(tmpdir(), 'millwright-download-'));
    publisher = createServer((request, response) => {
      const file = files.get(request.url ?? '');
      response.writeHead(file === undefined ? 404 : 200).end(file);
    }).listen(0, '127.0.0.1');
    await once(publisher, 'listening');
    url = `http://127.0.0.1:${(publisher.address() as AddressInfo).port}`;
  });

  afterEach(async () => {
    publisher.closeAllConnections();
    publisher.close();
    await rm(folder, { recursive: true, force: true });
  });

  const source = (file: string, member?: string) => ({
    ...serverSources.etcd,
    release: { url: `${url}/${file}`, checksums: `${url}/SHA256SUMS`, ...(member && { member }) },
  });

  it('takes the program out of the archive', async () => {
    await mkdir(join(folder, 'etcd-1'));
    await writeFile(join(folder, 'etcd-1/etcd'), '#!/bin/sh\necho it runs\n');
    const archive = execFileSync('tar', ['-czf', '-', '-C', folder, 'etcd-1']);
    publish('etcd.tar.gz', archive);

    expect(await downloadRelease(source('etcd.tar.gz', 'etcd-1/etcd'), join(folder, 'etcd'))).toBe(true);

    expect(execFileSync(join(folder, 'etcd'), { encoding: 'utf8' })).toBe('it runs\n');
  });

  it('takes a program that is not in an archive', async () => {
    publish('kubectl', 'the program');

    expect(await downloadRelease(source('kubectl'), join(folder, 'kubectl'))).toBe(true);

    expect(await readFile(join(folder, 'kubectl'), 'utf8')).toBe('the program');
  });

  it('leaves nothing behind of a download with another checksum', async () => {
    publish('kubectl', 'the program');
    files.set('/kubectl', 'another program');

    await expect(downloadRelease(source('kubectl'), join(folder, 'kubectl'))).rejects.toThrow('publisher lists');

    await expect(access(join(folder, 'kubectl'))).rejects.toThrow('ENOENT');
  });

  it('is skipped when the publisher has no such file', async () => {
    expect(await downloadRelease(source('kubectl'), join(folder, 'kubectl'))).toBe(false);
  });

  it('is skipped when something else than a list of checksums answers', async () => {
    publish('kubectl', 'the program');
    files.set('/SHA256SUMS', '<html>Sign in to the network</html>');

    expect(await downloadRelease(source('kubectl'), join(folder, 'kubectl'))).toBe(false);
  });

  it('is skipped when the publisher cannot be reached', async () => {
    const gone = {
      ...source('kubectl'),
      release: { url: 'http://127.0.0.1:1/x', checksums: 'http://127.0.0.1:1/sums' },
    };

    expect(await downloadRelease(gone, join(folder, 'kubectl'))).toBe(false);
  });

  function publish(file: string, content: Buffer | string): void {
    files.set(`/${file}`, content);
    files.set('/SHA256SUMS', `${createHash('sha256').update(content).digest('hex')}  ${file}\n`);
  }
});
