/** Controllers in the process of the test, with a resync as often as the test wants. */
import { controllersFlags, serverFlags } from '../../cli/flag-groups.ts';
import { parseOptions } from '../../cli/options.ts';
import { machineLimits } from '../../cli/process/components.ts';
import { startControllers } from '../../controllers/main.ts';
import type { KubeconfigAccess } from '../../kube/config.ts';
import type { Installation } from './installation.ts';
import { recordingLogger, testClient } from './kube.ts';

/**
 * Starts the controllers of an installation, with the limits of machines that `millwright controllers` has without
 * flags. They act at once and sweep nothing. Returns a function that stops them.
 * @param access how they reach the API server, for example through a proxy
 * @param resyncMs time between two resyncs; every tenth lists the open workflows
 */
export function startControllersHere(
  { namespace, temporal }: Installation,
  access: KubeconfigAccess,
  resyncMs: number,
  creationSeconds = 1200,
): () => Promise<void> {
  const client = testClient(access);
  const clusters = { control: client, target: client };
  const options = parseOptions([...serverFlags, ...controllersFlags], {}, {});
  const controllers = startControllers({
    ...clusters,
    installation: { client: temporal, name: namespace },
    dialect: 'gardener',
    namespace,
    defaults: { ...machineLimits(options, clusters), creationSeconds },
    sweepPeriodSeconds: 0,
    interruptionPeriodSeconds: 0,
    leading: Promise.resolve(),
    logger: recordingLogger(),
    resyncMs,
  });
  return async () => {
    await controllers.stop();
    await client.close();
  };
}
