/** The programs of OpenStack: Debian's packages, unpacked without an installation. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { lock } from '../build.ts';
import { cacheFolder } from '../servers.ts';

const run = promisify(execFile);

/** Debian's release with the OpenStack that the recipe is for: Zed. */
const release = 'bookworm';

const names = [
  ...['keystone', 'glance', 'placement', 'neutron', 'nova', 'cinder'].map((name) => `python3-${name}`),
  ...['keystone', 'nova-common', 'nova-api', 'glance-common', 'glance-api', 'placement-common', 'placement-api'],
  ...['neutron-common', 'neutron-api', 'cinder-common', 'cinder-api'],
];

/** Where programs and templates are kept. All checkouts of a user share them. */
export const openstackCache = () => join(dirname(cacheFolder()), 'openstack');

/** Unpacked programs. */
export interface Packages {
  /** The folder that stands for `/`. */
  readonly root: string;
  readonly python: string;
  /** What Python needs to find them. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Downloads and unpacks the packages, once for each user, with their versions in the file `versions` of the cache. It
 * needs no root. Progress goes to standard error. Throws an Error that says what is missing.
 */
export async function ensurePackages(): Promise<Packages> {
  const hash = createHash('sha256').update(names.join()).digest('hex').slice(0, 12);
  const folder = join(openstackCache(), `${release}-${hash}`);
  if (!existsSync(folder)) {
    await checkSystem();
    await mkdir(openstackCache(), { recursive: true });
    const unlock = await lock(`${folder}.lock`, 'OpenStack');
    try {
      if (!existsSync(folder)) await download(folder);
    } finally {
      await unlock();
    }
  }
  return packagesIn(folder);
}

async function packagesIn(folder: string): Promise<Packages> {
  const root = join(folder, 'root');
  const [libraries] = (await readdir(join(root, 'usr/lib'))).filter((each) => each.endsWith('-linux-gnu'));
  // Debian's own, and no other of the same version: the extension modules are built for it.
  const unpacked = join(root, 'usr/bin/python3.11');
  return {
    root,
    python: existsSync(unpacked) ? unpacked : '/usr/bin/python3.11',
    env: {
      PYTHONPATH: join(root, 'usr/lib/python3/dist-packages'),
      PYTHONDONTWRITEBYTECODE: '',
      PYTHONHOME: '',
      LD_LIBRARY_PATH: join(root, 'usr/lib', libraries ?? ''),
      PATH: `${join(root, 'usr/bin')}:/usr/sbin:/usr/bin:/sbin:/bin`,
      no_proxy: '127.0.0.1',
    },
  };
}

async function checkSystem(): Promise<void> {
  const problem = problemOf(await readFile('/etc/os-release', 'utf8').catch(() => ''), existsSync('/usr/bin/apt-get'));
  if (problem !== undefined) throw new Error(problem);
}

/** Why the packages cannot be had on a system. @param osRelease text of /etc/os-release */
export function problemOf(osRelease: string, hasApt: boolean): string | undefined {
  const isRight = new RegExp(`^VERSION_CODENAME="?${release}"?$`, 'm').test(osRelease);
  if (isRight && hasApt) return undefined;
  const [, found = 'another system'] = /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease) ?? [];
  return (
    `OpenStack is unpacked from the packages of Debian 12 (${release}), and this is ${found}${hasApt ? '' : ' without apt-get'}: ` +
    'run this on Debian 12 with apt-get, for example in a container'
  );
}

async function download(folder: string): Promise<void> {
  const partial = `${folder}.partial`;
  const apt = join(partial, 'apt');
  await rm(partial, { recursive: true, force: true });
  await Promise.all(['lists', 'archives'].map((each) => mkdir(join(apt, each, 'partial'), { recursive: true })));
  await mkdir(join(partial, 'root'));

  // Folders of its own instead of the system's: no root, no lock of others, and never a stale list.
  const settings = [`Dir::State::Lists=${apt}/lists`, `Dir::Cache=${apt}`, 'Debug::NoLocking=1', 'APT::Sandbox::User='];
  const flags = settings.flatMap((setting) => ['-o', setting]);
  const options = { maxBuffer: 2 ** 26, env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' } };
  say('downloading the packages of OpenStack, once: 110 MB, which then take 600 MB');
  await run('/usr/bin/apt-get', [...flags, 'update'], options);
  const install = ['install', '--yes', '--download-only', '--no-install-recommends', ...names];
  await run('/usr/bin/apt-get', [...flags, ...install], options);

  const archives = (await readdir(join(apt, 'archives'))).filter((each) => each.endsWith('.deb'));
  say(`unpacking ${archives.length} packages, about a minute`);
  const waiting = archives.values();
  await Promise.all(
    Array.from({ length: 2 }, async () => {
      for (const each of waiting) await run('dpkg-deb', ['-x', join(apt, 'archives', each), join(partial, 'root')]);
    }),
  );
  const versions = archives.map((each) => `${decodeURIComponent(each).replace(/_([^_]*)_[^_]*$/, ' $1')}\n`);
  await writeFile(join(partial, 'versions'), versions.join(''));
  await rm(apt, { recursive: true });
  await rename(partial, folder);
}

/** Prints progress. */
export function say(text: string): void {
  process.stderr.write(`OpenStack: ${text}\n`);
}
