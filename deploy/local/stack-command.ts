/** `npm run stack`: keeps a local stack up for development. */
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { installCrds } from './crds.ts';
import { type Stack, startStack } from './stack.ts';

const program = new Command('npm run stack --')
  .description('Starts Temporal, etcd and kube-apiserver on free ports and keeps them up until Ctrl-C.')
  .option(
    '--dir <folder>',
    'folder for data, logs and workflows; a new stack on it continues with them (default: temporary)',
  )
  .addOption(new Option('--clusters <number>', 'API servers').choices(['1', '2']).default('1'))
  .option(
    '--controller-manager',
    'also run the controllers for garbage collection, namespaces, disruption budgets, ReplicaSets and Deployments',
  )
  .parse();
const options = program.opts<{ dir?: string; clusters: '1' | '2'; controllerManager?: true }>();

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const since = Date.now();
  console.error('Starting Temporal, etcd and kube-apiserver');
  const stack = await startStack({
    ...(options.dir && { dir: options.dir, temporal: { dbFile: join(options.dir, 'temporal.db') } }),
    clusters: options.clusters === '2' ? 2 : 1,
    controllerManager: options.controllerManager ?? false,
  });
  // Before this line a signal ends this process, and the guards stop the servers.
  const signal = new Promise((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, resolve);
  });
  try {
    const crds = await Promise.all(stack.clusters.map(({ kubeconfig }) => installCrds(kubeconfig)));
    console.log(describe(stack, crds[0] ?? 0, (Date.now() - since) / 1000));
    await signal;
    console.error('\nStopping');
  } finally {
    await stack.stop();
  }
}

function describe(stack: Stack, crds: number, seconds: number): string {
  const [first, second] = stack.clusters;
  const forTests = [
    `  export MILLWRIGHT_TEST_KUBECONFIG=${first?.kubeconfig}`,
    `  export MILLWRIGHT_TEST_KUBECONFIG_2=${second?.kubeconfig}`,
    `  export MILLWRIGHT_TEST_TEMPORAL_ADDRESS=${stack.temporalAddress}`,
    `  export MILLWRIGHT_TEST_TEMPORAL_UI=${stack.uiUrl}`,
  ];
  return [
    `Up after ${seconds.toFixed(1)} s, with ${crds} CRDs. In another terminal:`,
    '',
    `  export KUBECONFIG=${stack.kubeconfig}`,
    `  export TEMPORAL_ADDRESS=${stack.temporalAddress}`,
    ...(second ? ['', 'For tests:', '', ...forTests] : []),
    '',
    `Temporal UI      ${stack.uiUrl}`,
    `Data and logs    ${stack.dir}${options.dir ? '' : ', deleted at the end'}`,
    '',
    'Ctrl-C stops the stack.',
  ].join('\n');
}
