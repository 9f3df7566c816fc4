/** Builds or downloads what tests use, before jest starts, so that no test waits. Only whole runs do this. */
import { findPython } from '../deploy/local/aws-cloud/moto.ts';
import { findArm } from '../deploy/local/azure-cloud/arm.ts';
import { ensureTemplate } from '../deploy/local/openstack-cloud/template.ts';
import { findServer, type ServerName } from '../deploy/local/servers.ts';
import { loadReplayBundle, loadWorkflowBundle } from '../temporal/bundle.ts';
import { ensureBrowser, lackOfBrowser } from './support/browser.ts';
import { buildGoProvider } from './support/examples.ts';
import { findHealth } from './support/health.ts';
import { findMcm } from './support/mcm-processes.ts';
import { findMcmReader } from './support/mcm-reader.ts';
import { ensurePostgresql, lackOfPostgresql } from './support/postgresql.ts';
import { findProviderPython } from './support/python-provider.ts';

/** Functions by the name of what they make, which they only do once on a machine or in a checkout. */
export type Preparations = Readonly<Record<string, () => Promise<unknown>>>;

/** For `npm test`. */
export const preparations: Preparations = {
  ...servers('etcd', 'kube-apiserver', 'kubectl', 'temporal', 'helm', 'promtool'),
  'azure-arm': findArm,
  health: findHealth,
  'mcm-reader': findMcmReader,
  'python3 with moto': findPython,
  'python3 for deploy/examples/python-provider': findProviderPython,
  OpenStack: ensureTemplate,
  Chromium: async () => lackOfBrowser() ?? ensureBrowser(),
  'the bundles of the workflows': () => Promise.all([loadWorkflowBundle(), loadReplayBundle()]),
};

/** For `npm run test:long`, besides those for `npm test`. */
export const longPreparations: Preparations = {
  'machine-controller-manager': findMcm,
  'deploy/examples/go-provider': buildGoProvider,
  ...servers('kube-controller-manager', 'temporal-server', 'temporal-sql-tool'),
  PostgreSQL: async () => lackOfPostgresql() ?? ensurePostgresql(),
};

function servers(...names: readonly ServerName[]): Preparations {
  return Object.fromEntries(names.map((name) => [name, () => findServer(name)]));
}

/** Prepares side by side, and prints what took long or failed. What failed fails again in each test that needs it. */
export async function prepare(those: Preparations): Promise<void> {
  await Promise.all(
    Object.entries(those).map(async ([name, make]) => {
      const since = Date.now();
      try {
        await make();
        const seconds = (Date.now() - since) / 1000;
        if (seconds > 1) console.log(`✓ ${name} (${seconds.toFixed(1)} s)`);
      } catch (error) {
        console.log(`✗ ${name}: ${error instanceof Error ? error.message : error}`);
      }
    }),
  );
}
