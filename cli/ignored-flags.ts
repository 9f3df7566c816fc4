/** Flags of machine-controller-manager and its machine controller, v0.62.1, that have no effect here. */
import type { FlagName } from './flags.ts';
import { flagOf } from './options.ts';

/** A flag that is accepted and does nothing. */
export interface IgnoredFlag {
  /** As commander spells it: `<value>` has to follow, `[value]` may. */
  readonly spelling: string;
  /** What replaces the flag, or why nothing has to. */
  readonly instead: string;
}

/** By name of commander: `concurrentSyncs` is `--concurrent-syncs`. */
export const ignoredFlags: Readonly<Record<string, IgnoredFlag>> = {
  cloudProvider: { spelling: '--cloud-provider <name>', instead: 'each class names its provider' },
  concurrentSyncs: {
    spelling: '--concurrent-syncs <number>',
    instead:
      'every machine has a workflow of its own; --kube-api-qps limits the requests, and more workers do more at once',
  },
  minResyncPeriod: {
    spelling: '--min-resync-period <duration>',
    instead: 'the resync every minute reads caches alone and wakes what needs something',
  },
  profiling: {
    spelling: '--profiling [true|false]',
    instead: 'Node.js has a profiler of its own: set NODE_OPTIONS=--cpu-prof or --heap-prof',
  },
  contentionProfiling: { spelling: '--contention-profiling [true|false]', instead: 'there are no locks' },
  kubeApiContentType: { spelling: '--kube-api-content-type <type>', instead: 'API servers are asked for JSON' },
  controllerStartInterval: {
    spelling: '--controller-start-interval <duration>',
    instead: 'all controllers start at once, when their caches are filled',
  },
  leaderElectResourceLock: {
    spelling: '--leader-elect-resource-lock <kind>',
    instead: 'the lock is always two Leases',
  },
  machineSafetyApiserverStatuscheckPeriod: {
    spelling: '--machine-safety-apiserver-statuscheck-period <duration>',
    instead:
      'the watches notice an outage themselves; --machine-safety-apiserver-statuscheck-timeout says when it is one',
  },
  v: { spelling: '-v, --v <level>', instead: 'use --log-level' },
  vmodule: { spelling: '--vmodule <settings>', instead: 'use --log-level' },
  loggingFormat: { spelling: '--logging-format <format>', instead: 'use --log-format' },
  logTextSplitStream: { spelling: '--log-text-split-stream [true|false]', instead: 'all lines go to standard output' },
  logTextInfoBufferSize: { spelling: '--log-text-info-buffer-size <size>', instead: 'each line is written at once' },
  logJsonSplitStream: { spelling: '--log-json-split-stream [true|false]', instead: 'all lines go to standard output' },
  logJsonInfoBufferSize: { spelling: '--log-json-info-buffer-size <size>', instead: 'each line is written at once' },
  logFlushFrequency: { spelling: '--log-flush-frequency <duration>', instead: 'each line is written at once' },
};

/**
 * A line for each flag that was given and has no effect.
 * @param given by name of commander
 * @param ofOthers flags that another command uses, and `why` they have no effect here
 */
export function ignoredNotes(
  given: Readonly<Record<string, unknown>>,
  ofOthers: readonly FlagName[] = [],
  why = '',
): string[] {
  const ignored = Object.entries(ignoredFlags)
    .filter(([name]) => given[name] !== undefined)
    .map(([, { spelling, instead }]) => `${/--[a-z-]+/.exec(spelling)?.[0]} has no effect: ${instead}`);
  const unused = ofOthers.filter((name) => given[name] !== undefined);
  return [...ignored, ...unused.map((name) => `${flagOf(name)} has no effect: ${why}`)];
}
