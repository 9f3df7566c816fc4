import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Release, ServerSource } from './server-source.ts';

/** Platforms with a release of every server: Node's name to Go's names. */
const platforms: Readonly<Record<string, { readonly os: string; readonly arch: string }>> = {
  'linux x64': { os: 'linux', arch: 'amd64' },
  'linux arm64': { os: 'linux', arch: 'arm64' },
};

/**
 * Downloads the publisher's release to `destination` and compares it with the published checksum, which detects a
 * broken download. TLS proves the origin. Returns false, after one line on standard error, when there is no release for
 * this platform or the server does not answer within 5 s. Throws when the checksum differs.
 */
export async function downloadRelease(source: ServerSource, destination: string): Promise<boolean> {
  const { name, version } = source;
  const platform = platforms[`${process.platform} ${process.arch}`];
  if (!platform) return skip(name, `no release for ${process.platform} ${process.arch}`);
  const { url, checksums: checksumsUrl, member } = releaseFor(platform, source.release);

  let content: Buffer;
  let checksums: string;
  try {
    checksums = (await fetchBytes(checksumsUrl)).toString();
    console.error(`${name}: downloading ${version} from ${url}`);
    content = await fetchBytes(url);
  } catch (error) {
    return skip(name, `no download from ${new URL(url).host}: ${reasonOf(error)}`);
  }
  const file = url.slice(url.lastIndexOf('/') + 1);
  const expected = checksumOf(checksums, file);
  if (!expected) return skip(name, `${checksumsUrl} lists no checksum of ${file}`); // for example the error page of a proxy
  const actual = createHash('sha256').update(content).digest('hex');
  if (actual !== expected) throw new Error(`${url} has SHA-256 ${actual}, but the publisher lists ${expected}`);

  const folder = await mkdtemp(join(dirname(destination), '.download-'));
  try {
    const received = join(folder, file);
    await writeFile(received, content);
    if (member) await promisify(execFile)('tar', ['-xzf', received, '-C', folder, member]);
    const program = member ? join(folder, member) : received;
    await chmod(program, 0o755);
    await rename(program, destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return true;
}

/** A release with its placeholders filled in. */
export function releaseFor({ os, arch }: { readonly os: string; readonly arch: string }, release: Release): Release {
  const fill = (text: string) => text.replaceAll('{os}', os).replaceAll('{arch}', arch);
  const { url, checksums, member } = release;
  return { url: fill(url), checksums: fill(checksums), ...(member && { member: fill(member) }) };
}

/** The checksum of a file in a publisher's list, which may also be that one checksum alone. */
export function checksumOf(list: string, file: string): string | undefined {
  for (const line of list.trim().split('\n')) {
    const [checksum = '', listed = file] = line.trim().split(/\s+\*?/);
    if (listed === file && /^[0-9a-f]{64}$/.test(checksum)) return checksum;
  }
  return undefined;
}

async function fetchBytes(url: string): Promise<Buffer> {
  const silent = new AbortController();
  const timer = setTimeout(() => silent.abort(new Error('no answer within 5 s')), 5000);
  const response = await fetch(url, { signal: silent.signal }).finally(() => clearTimeout(timer));
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return Buffer.from(await response.arrayBuffer());
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message; // the message of fetch has no details
}

function skip(name: string, why: string): false {
  console.error(`${name}: ${why}`);
  return false;
}
