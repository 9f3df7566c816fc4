import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { ServerSource } from './servers.ts';

/** Go's names, which all three publishers use. */
const platforms: Readonly<Record<string, string>> = { 'linux x64': 'linux amd64', 'linux arm64': 'linux arm64' };

/**
 * Downloads the publisher's release to `destination` and checks it against the checksums that they publish beside it:
 * that catches a broken or mixed-up download; that it is theirs rests on TLS.
 * False, after one line on standard error, when there is none for this platform or it does not answer within 5 s.
 * Throws when what came does not have the published checksum.
 */
export async function downloadRelease({ name, version, release }: ServerSource, destination: string) {
  const platform = platforms[`${process.platform} ${process.arch}`];
  if (!platform) return skip(name, `no release for ${process.platform} ${process.arch}`);
  const [os = '', arch = ''] = platform.split(' ');
  const forPlatform = (text: string) => text.replace(/\bos\b/, os).replace(/\barch\b/, arch);
  const url = forPlatform(release.url);

  let content: Buffer;
  let checksums: string;
  try {
    checksums = (await fetchBytes(forPlatform(release.checksums))).toString();
    console.error(`${name}: downloading ${version} from ${url}`);
    content = await fetchBytes(url);
  } catch (error) {
    return skip(name, `no download from ${new URL(url).host}: ${reasonOf(error)}`);
  }
  const file = url.slice(url.lastIndexOf('/') + 1);
  const expected = checksumOf(checksums, file);
  const actual = createHash('sha256').update(content).digest('hex');
  if (actual !== expected) throw new Error(`${url} has SHA-256 ${actual}, but its publisher lists ${expected}`);

  const folder = await mkdtemp(join(dirname(destination), '.download-'));
  try {
    const received = join(folder, file);
    await writeFile(received, content);
    const member = release.member && forPlatform(release.member);
    if (member) await promisify(execFile)('tar', ['-xzf', received, '-C', folder, member]);
    const program = member ? join(folder, member) : received;
    await chmod(program, 0o755);
    await rename(program, destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return true;
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
  return error.cause instanceof Error ? error.cause.message : error.message; // fetch says only that it has failed
}

function skip(name: string, why: string): false {
  console.error(`${name}: ${why}`);
  return false;
}
