import { installCrds } from '../deploy/local/crds.ts';
import { shareOpenstack } from '../deploy/local/openstack-cloud/shared.ts';
import { startStack } from '../deploy/local/stack.ts';
import { startHost } from './support/hosted.ts';
import { testKubeconfig } from './support/kube.ts';
import { atEnd } from './teardown.ts';

/**
 * Starts one stack with our CRDs, one Millwright for all suites, and one OpenStack once a suite needs it, and says in
 * the environment where they are. Set the variables of the stack to one that already runs (`npm run stack -- --clusters
 * 2` prints them) to save the three seconds during development.
 */
export default async function setUp(): Promise<void> {
  atEnd((await startHost()).stop);
  atEnd(await shareOpenstack());
  if (!process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS) await startServers();
  for (const cluster of [1, 2] as const) await installCrds(testKubeconfig(cluster));
}

async function startServers(): Promise<void> {
  const stack = await startStack({ clusters: 2 });
  atEnd(stack.stop);
  const [first, second] = stack.clusters;
  process.env.MILLWRIGHT_TEST_KUBECONFIG = first?.kubeconfig;
  process.env.MILLWRIGHT_TEST_KUBECONFIG_2 = second?.kubeconfig;
  process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS = stack.temporalAddress;
  process.env.MILLWRIGHT_TEST_TEMPORAL_UI = stack.uiUrl;
}
