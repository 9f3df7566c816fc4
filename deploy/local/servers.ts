import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, constants, mkdir, readdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { buildFromSource } from './build.ts';
import { downloadRelease } from './download.ts';
import type { ServerSource } from './server-source.ts';

const kubernetes = 'v1.34.10';

const kubernetesLdflags = [
  `-X k8s.io/component-base/version.gitVersion=${kubernetes}`,
  '-X k8s.io/component-base/version.gitMajor=1',
  '-X k8s.io/component-base/version.gitMinor=34',
  `-X k8s.io/client-go/pkg/version.gitVersion=${kubernetes}`,
].join(' ');

function kubernetesServer(name: string, variable: string, minutes: number) {
  const url = `https://dl.k8s.io/release/${kubernetes}/bin/{os}/{arch}/${name}`;
  return {
    name,
    version: kubernetes,
    // The CRDs use CEL functions and field selectors that are stable since 1.31.
    minimum: '1.31.0',
    variable,
    versionArgs: name === 'kubectl' ? ['version', '--client'] : ['--version'],
    release: { url, checksums: `${url}.sha256` },
    build: { module: 'kubernetes', package: `k8s.io/kubernetes/cmd/${name}`, ldflags: kubernetesLdflags, minutes },
  } satisfies ServerSource;
}

function temporalServer(name: string, variable: string, command: string, minutes: number) {
  const release = 'https://github.com/temporalio/temporal/releases/download/v1.31.2';
  return {
    name,
    version: 'v1.31.2',
    minimum: '1.28.0',
    variable,
    versionArgs: ['--version'],
    release: {
      url: `${release}/temporal_1.31.2_{os}_{arch}.tar.gz`,
      checksums: `${release}/checksums.txt`,
      member: name,
    },
    build: { module: 'temporal-server', package: `go.temporal.io/server/cmd/${command}`, ldflags: '', minutes },
  } satisfies ServerSource;
}

/** Every server of the local stack, and what else tests start, by name. */
export const serverSources = {
  etcd: {
    name: 'etcd',
    version: 'v3.6.8',
    // Before it the API server cannot ask for progress of a watch, so watch-lists and consistent lists from cache fail.
    minimum: '3.5.13',
    variable: 'MILLWRIGHT_ETCD',
    versionArgs: ['--version'],
    release: {
      url: 'https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-{os}-{arch}.tar.gz',
      checksums: 'https://github.com/etcd-io/etcd/releases/download/v3.6.8/SHA256SUMS',
      member: 'etcd-v3.6.8-{os}-{arch}/etcd',
    },
    build: { module: 'etcd', package: 'go.etcd.io/etcd/server/v3', ldflags: '', minutes: 1 },
  },
  'kube-apiserver': kubernetesServer('kube-apiserver', 'MILLWRIGHT_KUBE_APISERVER', 4),
  'kube-controller-manager': kubernetesServer('kube-controller-manager', 'MILLWRIGHT_KUBE_CONTROLLER_MANAGER', 4),
  kubectl: kubernetesServer('kubectl', 'MILLWRIGHT_KUBECTL', 2),
  helm: {
    name: 'helm',
    version: 'v3.22.0',
    minimum: '3.14.0',
    variable: 'MILLWRIGHT_HELM',
    versionArgs: ['version', '--short'],
    release: {
      url: 'https://get.helm.sh/helm-v3.22.0-{os}-{arch}.tar.gz',
      checksums: 'https://get.helm.sh/helm-v3.22.0-{os}-{arch}.tar.gz.sha256sum',
      member: '{os}-{arch}/helm',
    },
    build: {
      module: 'helm',
      package: 'helm.sh/helm/v3/cmd/helm',
      ldflags: '-X helm.sh/helm/v3/internal/version.version=v3.22.0',
      minutes: 2,
    },
  },
  promtool: {
    name: 'promtool',
    version: 'v3.13.5',
    minimum: '3.0.0',
    variable: 'MILLWRIGHT_PROMTOOL',
    versionArgs: ['--version'],
    release: {
      url: 'https://github.com/prometheus/prometheus/releases/download/v3.13.5/prometheus-3.13.5.{os}-{arch}.tar.gz',
      checksums: 'https://github.com/prometheus/prometheus/releases/download/v3.13.5/sha256sums.txt',
      member: 'prometheus-3.13.5.{os}-{arch}/promtool',
    },
    build: {
      module: 'prometheus',
      package: 'github.com/prometheus/prometheus/cmd/promtool',
      ldflags: '-X github.com/prometheus/common/version.Version=3.13.5',
      // Without the SDKs of the clouds in which Prometheus could look for what to scrape.
      tags: 'remove_all_sd',
      minutes: 2,
    },
  },
  temporal: {
    name: 'temporal',
    version: 'v1.8.2',
    minimum: '1.5.0',
    variable: 'MILLWRIGHT_TEMPORAL',
    versionArgs: ['--version'],
    release: {
      url: 'https://github.com/temporalio/cli/releases/download/v1.8.2/temporal_cli_1.8.2_{os}_{arch}.tar.gz',
      checksums: 'https://github.com/temporalio/cli/releases/download/v1.8.2/checksums.txt',
      member: 'temporal',
    },
    build: {
      module: 'temporal',
      package: 'github.com/temporalio/cli/cmd/temporal',
      ldflags: '-X github.com/temporalio/cli/internal/temporalcli.Version=1.8.2',
      minutes: 4,
    },
  },
  'temporal-server': temporalServer('temporal-server', 'MILLWRIGHT_TEMPORAL_SERVER', 'server', 4),
  'temporal-sql-tool': temporalServer('temporal-sql-tool', 'MILLWRIGHT_TEMPORAL_SQL_TOOL', 'tools/sql', 1),
} as const satisfies Record<string, ServerSource>;

export type ServerName = keyof typeof serverSources;

/**
 * The path of a server's program: from its environment variable, PATH, the cache folder, the publisher's release, or a
 * build with Go. The first run on a machine may take minutes; progress goes to standard error. Throws an Error that
 * names what to install or set when there is no program.
 */
export async function findServer(name: ServerName): Promise<string> {
  const source: ServerSource = serverSources[name];
  const explicit = process.env[source.variable];
  if (explicit) {
    if (await isExecutable(explicit)) return explicit;
    throw new Error(`${source.variable} is ${explicit}, which is not an executable file: correct or unset it`);
  }
  const onPath = await findOnPath(source);
  if (onPath) return onPath;

  const cached = join(cacheFolder(), `${name}-${source.version}`);
  if (await isExecutable(cached)) return cached;

  await mkdir(cacheFolder(), { recursive: true });
  if (!(await downloadRelease(source, cached))) await buildFromSource(source, cached);
  return cached;
}

/** A program whose source is in this repository. */
interface OwnProgram {
  readonly name: string;
  /** Absolute path of the folder with its go.mod. */
  readonly module: string;
  /** Folder of its source in the module. Default: the module itself. */
  readonly folder?: string;
  /** Duration of a build on two cores with an empty cache, minutes. Shown to people. */
  readonly minutes: number;
}

/**
 * The path of a program of our own, which is built with Go where there is none of this source yet. Throws as
 * `findServer`.
 */
export async function findOwnProgram({ name, module, folder = '.', minutes }: OwnProgram): Promise<string> {
  const hash = createHash('sha256');
  for (const each of new Set([module, join(module, folder)])) {
    const files = (await readdir(each)).filter((file) => /\.(go|mod|sum)$/.test(file)).sort();
    for (const file of files) hash.update(file).update(await readFile(join(each, file)));
  }
  const version = hash.digest('hex').slice(0, 12);
  const path = join(cacheFolder(), `${name}-${version}`);
  if (await isExecutable(path)) return path;
  await mkdir(cacheFolder(), { recursive: true });
  await buildFromSource(
    { name, version, variable: 'PATH', build: { module, package: `./${folder}`, ldflags: '', minutes } },
    path,
  );
  return path;
}

/** `findServer` for several servers at once. */
export async function findServers<Name extends ServerName>(names: readonly Name[]): Promise<Record<Name, string>> {
  const paths = await Promise.all(names.map(async (name) => [name, await findServer(name)] as const));
  return Object.fromEntries(paths) as Record<Name, string>;
}

/** All checkouts of a user share the programs. */
export function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'millwright', 'bin');
}

async function findOnPath({ name, versionArgs, minimum }: ServerSource): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, name);
    if (!(await isExecutable(path))) continue;
    const { stdout } = await promisify(execFile)(path, versionArgs, { timeout: 10_000 }).catch(() => ({ stdout: '' }));
    const version = parseVersion(stdout);
    if (version && isAtLeast(version, minimum)) {
      printOnce(`${name}: using ${path} (${version}) from PATH`);
      return path;
    }
    printOnce(`${name}: not using ${path}, its version is ${version ?? 'unknown'}, but ${minimum} or newer is needed`);
  }
  return undefined;
}

const printed = new Set<string>();

function printOnce(line: string): void {
  if (printed.has(line)) return;
  printed.add(line);
  process.stderr.write(`${line}\n`);
}

/** The first version in what a program prints about itself, as `major.minor.patch`. */
export function parseVersion(output: string): string | undefined {
  return /\bv?(\d+\.\d+\.\d+)/.exec(output)?.[1];
}

/** Compares versions of the form `major.minor.patch`. */
export function isAtLeast(version: string, minimum: string): boolean {
  return version.localeCompare(minimum, 'en', { numeric: true }) >= 0;
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
