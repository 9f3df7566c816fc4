import { startStack } from '../deploy/local/stack.ts';
import { keepStack } from './shared-stack.ts';

/**
 * Starts one stack for all suites and says in the environment where it is. Set these variables to a stack that already
 * runs (`npm run stack -- --clusters 2` prints them) to save the three seconds during development.
 */
export default async function setUp(): Promise<void> {
  if (process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS) return;
  const stack = await startStack({ clusters: 2 });
  keepStack(stack);
  const [first, second] = stack.clusters;
  process.env.MILLWRIGHT_TEST_KUBECONFIG = first?.kubeconfig;
  process.env.MILLWRIGHT_TEST_KUBECONFIG_2 = second?.kubeconfig;
  process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS = stack.temporalAddress;
}
