/**
 * `npm run release -- <version>`: checks that this checkout is the release, and makes its files in .cache/release.
 * It publishes nothing.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { root } from './generators/root.ts';
import { findServer } from './local/servers.ts';

const run = promisify(execFile);

/** The last release of the changelog of a checkout; empty if there is none. */
export async function lastRelease(checkout: string): Promise<string> {
  const changelog = await readFile(join(checkout, 'CHANGELOG.md'), 'utf8');
  return /^## \[(\d.*?)\] - \d{4}-\d\d-\d\d$/m.exec(changelog)?.[1] ?? '';
}

/** What a checkout says its version is, by the place that says it. */
export async function versionsOf(checkout: string): Promise<Readonly<Record<string, string>>> {
  const read = (file: string) => readFile(join(checkout, file), 'utf8');
  const lock = JSON.parse(await read('package-lock.json'));
  const chart = parse(await read('deploy/chart/Chart.yaml'));
  const manifests = await read('deploy/manifests/millwright.yaml');
  return {
    'package.json': JSON.parse(await read('package.json')).version,
    'package-lock.json': lock.version,
    'the root of package-lock.json': lock.packages[''].version,
    'version in deploy/chart/Chart.yaml': chart.version,
    'appVersion in deploy/chart/Chart.yaml': chart.appVersion,
    'the image in deploy/manifests/millwright.yaml': /image: \S+:(\S+)$/m.exec(manifests)?.[1] ?? 'none',
  };
}

/** What has to be done before a checkout is the release of this version. Empty if it is. */
export async function findProblems(checkout: string, version: string): Promise<string[]> {
  if (!/^\d+\.\d+\.\d+$/.test(version)) return [`'${version}' is not the version of a release: give one such as 1.2.3`];
  const git = async (...args: string[]) => (await run('git', args, { cwd: checkout })).stdout.trim();
  const changelog = await readFile(join(checkout, 'CHANGELOG.md'), 'utf8');
  const tagged = await git('rev-parse', '--quiet', '--verify', `refs/tags/v${version}^{commit}`).catch(() => '');
  const problems: readonly (readonly [boolean, string])[] = [
    ...Object.entries(await versionsOf(checkout)).map(
      ([place, found]) => [found !== version, `${place} has the version ${found}: set ${version}`] as const,
    ),
    [
      (await lastRelease(checkout)) !== version || /^## \[Unreleased\]\s+(?!## )\S/m.test(changelog),
      `CHANGELOG.md does not begin with ${version}: give the part [Unreleased] this version and the date`,
    ],
    [
      !existsSync(join(checkout, 'test/histories', version)) || existsSync(join(checkout, 'test/histories/next')),
      `test/histories/${version} does not exist, or next does: run \`npm run record\` and rename next`,
    ],
    [
      (await baseImage(checkout)).digest === undefined,
      'the base image in Containerfile has no digest: add what `docker buildx imagetools inspect <image>` prints, as @sha256:<digest>',
    ],
    [
      (await git('status', '--porcelain')) !== '',
      'the checkout has changes that are not committed: commit or remove them',
    ],
    [
      tagged !== '' && tagged !== (await git('rev-parse', 'HEAD')),
      `the tag v${version} is at another commit: check it out, or take another version`,
    ],
  ];
  return problems.filter(([isThere]) => isThere).map(([, problem]) => problem);
}

/** The image on which that of Millwright is based. */
async function baseImage(checkout: string) {
  const containerfile = await readFile(join(checkout, 'Containerfile'), 'utf8');
  const [, name = '', tag = '', digest] =
    /^ARG BASE=(\S+?):([^@\s]+)(?:@sha256:([0-9a-f]{64}))?$/m.exec(containerfile) ?? [];
  return { name, tag, digest };
}

interface LockFile {
  readonly packages: Readonly<Record<string, { dev?: true; optional?: true; devOptional?: true }>>;
}

/**
 * The packages in the image and its base image, as CycloneDX (JSON). npm gets a lock file with no other packages:
 * `npm sbom --omit dev` also leaves out those that something else needs as well.
 */
export async function billOfMaterials(checkout: string): Promise<string> {
  const read = async (file: string) => JSON.parse(await readFile(join(checkout, file), 'utf8'));
  const withoutOthers = (own: object) => ({ ...own, devDependencies: undefined, optionalDependencies: undefined });
  const lock: LockFile = await read('package-lock.json');
  const packages = Object.entries(lock.packages)
    .filter(([, { dev, optional, devOptional }]) => !dev && !optional && !devOptional)
    .map(([path, each]) => [path, path === '' ? withoutOthers(each) : each]);
  const parent = await mkdtemp(join(tmpdir(), 'millwright-sbom-'));
  const folder = join(parent, 'millwright'); // npm calls the product as its folder
  try {
    await mkdir(folder);
    await writeFile(join(folder, 'package.json'), JSON.stringify(withoutOthers(await read('package.json'))));
    await writeFile(
      join(folder, 'package-lock.json'),
      JSON.stringify({ ...lock, packages: Object.fromEntries(packages) }),
    );
    const args = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'];
    const bill = JSON.parse((await run('npm', args, { cwd: folder, maxBuffer: 2 ** 26 })).stdout);
    const { name, tag, digest } = await baseImage(checkout);
    const hashes = digest === undefined ? [] : [{ alg: 'SHA-256', content: digest }];
    const base = { 'bom-ref': `${name}:${tag}`, type: 'container', name, version: tag, hashes };
    return `${JSON.stringify({ ...bill, components: [base, ...bill.components] }, undefined, 2)}\n`;
  } finally {
    await rm(parent, { recursive: true });
  }
}

/** Makes the files of a release in a new folder. Returns their names. */
export async function makeFiles(checkout: string, version: string, folder: string): Promise<readonly string[]> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const name = `millwright-${version}`;
  const chart = ['package', join(checkout, 'deploy/chart'), '--destination', folder];
  await run(await findServer('helm'), chart, { cwd: checkout });
  await rename(join(folder, `${name}.tgz`), join(folder, `${name}-chart.tgz`));
  await run('npm', ['pack', '--pack-destination', folder], { cwd: checkout });
  const context = ['-C', checkout, 'Containerfile', 'package-lock.json', '-C', folder, `${name}.tgz`];
  await run('tar', ['--create', '--gzip', '--file', join(folder, `${name}-image.tar.gz`), ...context]);
  await writeFile(join(folder, `${name}.cdx.json`), await billOfMaterials(checkout));
  const files = (await readdir(folder)).toSorted();
  const sums = files.map(async (file) => {
    const sum = createHash('sha256').update(await readFile(join(folder, file)));
    return `${sum.digest('hex')}  ${file}\n`;
  });
  await writeFile(join(folder, 'SHA256SUMS'), (await Promise.all(sums)).join(''));
  return [...files, 'SHA256SUMS'];
}

async function release(version: string): Promise<void> {
  const problems = await findProblems(root, version);
  if (problems.length > 0) throw new Error(`this checkout is not release ${version}:\n  ${problems.join('\n  ')}`);
  const folder = join(root, '.cache/release', version);
  const files = await makeFiles(root, version, folder);
  console.log(`${folder} has ${files.join(', ')}. Nothing is published. Set the tag, if there is none yet:
  git tag --sign v${version} --message 'Release ${version}'
docs/contributing.md says how to go on.`);
}

if (import.meta.main) {
  const [version = ''] = process.argv.slice(2);
  try {
    await release(version);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
