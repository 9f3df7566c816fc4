/** `millwright timeline`: the steps of a machine's life, from the histories of its workflow. */

import { readTimeline } from '../../../temporal/read-timeline.ts';
import type { namespaceFlags, temporalFlags } from '../../flag-groups.ts';
import { withInstallation } from '../../installation.ts';
import type { Options } from '../../options.ts';
import { rendered } from '../../output.ts';
import { timelineText } from './text.ts';

type TimelineOptions = Options<
  'installation' | 'output' | (typeof temporalFlags)[number] | (typeof namespaceFlags)[number]
>;

/** The output of the command. Throws an Error when Temporal keeps no history of such a machine. */
export async function timeline(name: string, options: TimelineOptions): Promise<string> {
  const { namespace } = options;
  const found = await withInstallation(options, (installation) => readTimeline(installation, { namespace, name }));
  if (found === undefined) {
    const why = 'it had nothing to do since the retention of the Temporal namespace began, or correct the name';
    throw new Error(`Temporal knows no machine ${namespace}/${name}: ${why}, --namespace or --installation`);
  }
  return rendered(found, options, () => timelineText(found, Date.now()));
}
