import { shareOpenstack } from '../deploy/local/openstack-cloud/shared.ts';
import { startStack } from '../deploy/local/stack.ts';
import { startHost } from './support/hosted.ts';
import { atEnd } from './teardown.ts';

/**
 * Starts one stack and one Millwright for all suites, and one OpenStack once a suite needs it, and says in the environment
 * where they are. Set the variables of the stack to one that already runs (`npm run stack -- --clusters 2` prints them) to
 * save the three seconds during development.
 */
export default async function setUp(): Promise<void> {
  atEnd((await startHost()).stop);
  atEnd(await shareOpenstack());
  if (process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS) return;
  const stack = await startStack({ clusters: 2 });
  atEnd(stack.stop);
  const [first, second] = stack.clusters;
  process.env.MILLWRIGHT_TEST_KUBECONFIG = first?.kubeconfig;
  process.env.MILLWRIGHT_TEST_KUBECONFIG_2 = second?.kubeconfig;
  process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS = stack.temporalAddress;
  process.env.MILLWRIGHT_TEST_TEMPORAL_UI = stack.uiUrl;
}
