/**
 * What the fleet page costs: `node test/bench/fleet-page.ts [machines...]` starts the servers of a stack, fills them
 * with Machines and opens the page in headless Chromium. It prints how long a browser takes from the navigation to the
 * last cell, and what the server uses for ten of them while ten machines a second change. docs/performance.md has the
 * figures.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { gardener } from '../../api/gardener/index.ts';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { OwnerReference } from '../../api/objects.ts';
import { ownerReference } from '../../api/owner/new-objects.ts';
import { startFleetPage } from '../../cli/fleet-page/server.ts';
import { startWatches } from '../../controllers/watches.ts';
import { installCrds } from '../../deploy/local/crds.ts';
import { startStack } from '../../deploy/local/stack.ts';
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { namespaces } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { connectClient } from '../../temporal/connection.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { startBrowser } from '../support/browser.ts';
import { recordingLogger } from '../support/kube.ts';

const viewers = 10;
const loads = 5;
const watchedSeconds = 10;
const defaults = { creationSeconds: 1_200, drainSeconds: 7_200, maxEvictRetries: 360, nodeConditions: [] };

const counts = process.argv.slice(2).map(Number);
const stack = await startStack();
const { kubeconfig } = stack.clusters[0];
const control = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'bench', qps: 1e4, burst: 1e4 });
const connection = await connectClient({ address: stack.temporalAddress, namespace: 'default', tls: false });
await ensureSearchAttributes(connection, 'default');
const browser = await startBrowser();
try {
  await installCrds(kubeconfig);
  console.log('machines | to the last cell, ms | CPU without viewers, % of a core | with ten');
  for (const count of counts.length > 0 ? counts : [1_000, 10_000]) await measure(`fleet-${count}`, count);
} finally {
  await browser.close();
  await connection.close();
  await control.close();
  await stack.stop();
}

/** Machines in pools of 50, in three zones. Some do not run yet. */
async function createFleet(namespace: string, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `pool-${Math.floor(index / 50)}-${index}`);
  const sets: OwnerReference[] = [];
  for (let pool = 0; pool * 50 < count; pool++) sets.push(await createSet(namespace, `pool-${pool}`));
  const left = names.entries();
  const createSome = async () => {
    for (const [index, name] of left) {
      const zone = { 'topology.kubernetes.io/zone': `zone-${'abc'[index % 3]}` };
      await control.create(machines, {
        metadata: { namespace, name, ownerReferences: [sets[Math.floor(index / 50)]!] },
        spec: { class: { kind: 'MachineClass', name: 'small' }, nodeTemplate: { metadata: { labels: zone } } },
      });
      await setPhase(namespace, name, index % 20 === 0 ? 'Pending' : 'Running');
    }
  };
  await Promise.all(Array.from({ length: 50 }, createSome));
  return names;
}

/** A set of a deployment that need not exist. Answers the reference of its machines to it. */
async function createSet(namespace: string, deployment: string): Promise<OwnerReference> {
  const labels = { name: deployment };
  const { metadata } = await control.create(machineSets, {
    metadata: {
      ...{ namespace, name: `${deployment}-set` },
      ownerReferences: [ownerReference(machineDeployments, { name: deployment, uid: 'none' })],
    },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { class: { kind: 'MachineClass', name: 'small' } } },
    },
  });
  return ownerReference(machineSets, metadata);
}

async function setPhase(namespace: string, name: string, phase: string): Promise<void> {
  const status = { currentStatus: { phase, lastUpdateTime: new Date().toISOString().replace(/\.\d+/, '') } };
  await control.patch(machines, { namespace, name }, mergePatch({ status }), { subresource: 'status' });
}

async function measure(namespace: string, count: number): Promise<void> {
  await control.create(namespaces, { metadata: { name: namespace } });
  const names = await createFleet(namespace, count);
  const logger = recordingLogger();
  const watches = startWatches({
    ...{ control, target: control, namespace, dialect: gardener, defaults, logger },
    onChange: () => undefined,
    onListed: () => undefined,
  });
  while (watches.machines.list().length < count) await sleep(100);
  const server = await startFleetPage({
    ...{ address: '127.0.0.1', port: 0, allowedHosts: [], watches, control, namespace, temporalUi: undefined, logger },
    installation: { client: new Client({ connection }), name: namespace },
  });
  const started = logger.lines.find(({ message }) => message === 'serving the fleet page')?.fields ?? {};
  const url = 'url' in started ? String(started.url) : '';

  /** Opens the page. Answers with the context of its tab and how long it took until all cells were drawn, ms. */
  async function open() {
    // Of its own, as one browser opens no more than six connections to a server.
    const context = await browser.createBrowserContext();
    const tab = await context.newPage();
    await tab.goto(url);
    await tab.waitForFunction(`document.querySelectorAll('.cell').length === ${count}`, { polling: 'raf' });
    return { context, tookMs: Number(await tab.evaluate('performance.now()')) };
  }

  /** CPU of this process while machines change, in percent of a core: the server's, and that of the changes. */
  async function cpuOfChanges(): Promise<number> {
    const before = process.cpuUsage();
    for (let second = 0; second < watchedSeconds; second++) {
      const changed = Array.from({ length: 10 }, (_, i) => names[(second * 10 + i) % count] ?? '');
      for (const name of changed) await setPhase(namespace, name, second % 2 === 0 ? 'Unknown' : 'Running');
      await sleep(1_000);
    }
    const { user, system } = process.cpuUsage(before);
    return (user + system) / (watchedSeconds * 10_000);
  }

  const times: number[] = [];
  for (let load = 0; load < loads; load++) {
    const { context, tookMs } = await open();
    times.push(tookMs);
    await context.close();
  }
  const alone = await cpuOfChanges();
  const opened = [];
  for (let viewer = 0; viewer < viewers; viewer++) opened.push((await open()).context);
  const watched = await cpuOfChanges();
  for (const context of opened) await context.close();
  await server.close();
  await watches.stop();
  const median = times.toSorted((a, b) => a - b)[Math.floor(loads / 2)] ?? 0;
  console.log([count, median.toFixed(0), alone.toFixed(1), watched.toFixed(1)].join(' | '));
}
