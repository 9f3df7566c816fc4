/** Starts the parts of the demo on free ports, with one folder for all of them. */
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import { createKubeClient, type KubeClient } from '../../../kube/client.ts';
import { loadKubeconfig } from '../../../kube/config.ts';
import { connectClient } from '../../../temporal/connection.ts';
import { installCrds } from '../crds.ts';
import { findServers } from '../servers.ts';
import { type Stack, startStack } from '../stack.ts';
import { type CloudName, clouds, type DemoCloud } from './clouds.ts';
import { type Millwright, type MillwrightOptions, startMillwright } from './millwright.ts';
import type { Screen } from './screen.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** The running demo. */
export interface Demo {
  /** Has the logs, and `env`, which a shell reads before the commands of the tour. */
  readonly dir: string;
  readonly kube: KubeClient;
  readonly temporal: Client;
  readonly uiUrl: string;
  /** Left out: the VMs are in a cloud of the user. */
  readonly cloud?: DemoCloud;
  readonly millwright: Millwright;
}

/** A demo whose cloud runs on this machine. */
export interface CloudDemo extends Demo {
  readonly cloud: DemoCloud;
}

/** The defaults of the flags. */
export const namespace = 'default';
export const installation = namespace;

/**
 * Starts all parts and prints a tick for each. Appends to `ending` the functions that stop them, to be called in
 * reverse order. Throws with the end of the log of a part that does not start; `ending` then stops the others.
 * @param settings.temporalAddress of another Temporal server, which has a namespace `default`. Default: one is started.
 */
export async function setUp(
  settings: { readonly dir: string; readonly cloudName: CloudName; readonly temporalAddress?: string },
  screen: Screen,
  ending: (() => Promise<void>)[],
): Promise<CloudDemo> {
  const { dir, cloudName } = settings;
  const servers = await startServers(settings, screen, ending);
  const { kubeconfig } = servers;
  const cloud = await timed(screen, clouds[cloudName].title, async () => {
    const cloud = await clouds[cloudName].start({ dir, kubeconfig });
    ending.push(() => cloud.stop());
    return cloud;
  });
  const { provider: providers, env = {} } = cloud;
  const millwright = { providers, targetKubeconfig: kubeconfig, env };
  const demo = await startDemo(servers, { millwright, addresses: { CLOUD: cloud.url } }, screen, ending);
  await writeManifest(dir, cloud);
  screen.print(`\ndeploy/examples/${cloud.example}, made to fit this cloud, is ${dir}/machines.yaml`);
  return { ...demo, cloud };
}

type Servers = Pick<Stack, 'dir' | 'kubeconfig' | 'temporalAddress' | 'uiUrl'> & {
  readonly programs: Readonly<Record<'kubectl' | 'temporal', string>>;
};

/** The first step of `setUp`. */
export async function startServers(
  settings: { readonly dir: string; readonly temporalAddress?: string },
  screen: Screen,
  ending: (() => Promise<void>)[],
): Promise<Servers> {
  const programs = await findServers(['etcd', 'kube-apiserver', 'temporal', 'kubectl']);
  const stack = await timed(screen, 'Temporal, etcd and kube-apiserver with the CRDs', async () => {
    const stack = await startStack({ dir: settings.dir });
    ending.push(() => stack.stop());
    await installCrds(stack.kubeconfig);
    return stack;
  });
  return { ...stack, ...settings, programs };
}

/** The last step of `setUp`: Millwright and the clients. @param of.addresses variables of `env` */
export async function startDemo(
  servers: Servers,
  of: {
    readonly millwright: Pick<MillwrightOptions, 'providers' | 'targetKubeconfig' | 'env'>;
    readonly addresses: Readonly<Record<string, string>>;
  },
  screen: Screen,
  ending: (() => Promise<void>)[],
): Promise<Demo> {
  const { dir, kubeconfig, temporalAddress, uiUrl } = servers;
  const millwright = await timed(screen, 'Millwright', async () => {
    const print = (line: string) => screen.print(line);
    const millwright = await startMillwright({
      ...{ dir, kubeconfig, temporalAddress, uiUrl, print },
      ...of.millwright,
    });
    ending.push(() => millwright.stop());
    return millwright;
  });
  const kube = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'demo', qps: 100, burst: 200 });
  ending.push(() => kube.close());
  const connection = await connectClient({ address: temporalAddress, namespace: 'default', tls: false });
  ending.push(() => connection.close());
  await writeEnvironment(servers, { ...of.addresses, FLEET_PAGE: millwright.fleetPage });
  return { dir, kube, temporal: new Client({ connection }), uiUrl, millwright };
}

/** Runs `act` and prints a tick with its duration. */
export async function timed<T>(screen: Screen, what: string, act: () => Promise<T>): Promise<T> {
  const since = Date.now();
  const seconds = () => `${((Date.now() - since) / 1000).toFixed(1)} s`;
  try {
    const result = await act();
    screen.print(`✓ ${what} (${seconds()})`);
    return result;
  } catch (error) {
    screen.print(`✗ ${what} (${seconds()})`);
    throw error;
  }
}

/** The example, made to fit this cloud. */
async function writeManifest(dir: string, { example, changes }: DemoCloud): Promise<void> {
  const file = join(root, 'deploy/examples', example);
  let text = await readFile(file, 'utf8');
  for (const [before, after] of Object.entries(changes)) {
    if (!text.includes(before)) throw new Error(`${file} does not contain ${before}`);
    text = text.replace(before, after);
  }
  await writeFile(join(dir, 'machines.yaml'), text);
}

/** `env` for a shell: addresses, and the programs under their usual names. */
async function writeEnvironment(
  { dir, kubeconfig, temporalAddress, uiUrl, programs: { kubectl, temporal } }: Servers,
  addresses: Readonly<Record<string, string>>,
): Promise<void> {
  // Without this, Node loads what strips the types of the first files, before Millwright names a cache itself.
  const node = ['env', `NODE_COMPILE_CACHE=${join(root, '.cache/compiled')}`, process.execPath];
  const commands = {
    kubectl: [kubectl],
    temporal: [temporal],
    millwright: [...node, join(root, 'cli/main.ts')],
    'kubectl-machine': [...node, join(root, 'cli/kubectl-machine.ts')],
  };
  await mkdir(join(dir, 'bin'));
  for (const [name, command] of Object.entries(commands)) {
    const file = join(dir, 'bin', name);
    await writeFile(file, `#!/bin/sh\nexec ${command.map(quoted).join(' ')} "$@"\n`);
    await chmod(file, 0o755);
  }
  const variables = {
    DEMO: dir,
    KUBECONFIG: kubeconfig,
    TEMPORAL_ADDRESS: temporalAddress,
    TEMPORAL_NAMESPACE: 'default',
    TEMPORAL_CONFIG_FILE: join(dir, 'no-temporal.toml'),
    TEMPORAL_UI: uiUrl,
    ...addresses,
  };
  const lines = [
    // Settings of the user for other servers must not affect the demo.
    "unset DEMO $(env | cut -d= -f1 | grep -E '^(MILLWRIGHT|TEMPORAL)_')",
    ...Object.entries(variables).map(([name, value]) => `export ${name}=${quoted(value)}`),
    'export PATH="$DEMO/bin:$PATH"',
  ];
  await writeFile(join(dir, 'env'), lines.map((line) => `${line}\n`).join(''));
}

/** As one word of a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
