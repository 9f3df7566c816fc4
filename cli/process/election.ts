/**
 * Of several controllers only those of the process that holds the Leases act. The Leases are those of the system that
 * Millwright replaces, so that the two never act at the same time.
 */
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { foreignHolderFinder } from '../../kube/foreign-holder.ts';
import { type Election, startElection } from '../../kube/lease.ts';
import { dialect } from '../dialect.ts';
import type { clusterFlags, electionFlags } from '../flag-groups.ts';
import { kubeconfigOf } from '../kubeconfig.ts';
import type { Options } from '../options.ts';
import { userAgentOf } from '../servers.ts';
import type { ComponentDeps } from './serve.ts';

export interface Leadership {
  isLeader(): boolean;
  /** Resolves when this process leads. It exits when it loses a Lease before `stop`. */
  readonly leading: Promise<void>;
  /** `leases` while it is unknown who leads. */
  missing(): string[];
  /** For /readyz: whether this process leads, else who does. */
  details(): object;
  /** Releases the Leases. Call it when nothing acts any more. */
  stop(): Promise<void>;
}

/** How often the workers read the Leases, ms: as often as a leader renews them. */
const lookEveryMs = 2_000;

/** Tells the workers whether another system leads. It has its own client, so that no other request delays it. */
export function leasesForWorkers(
  options: Options<'namespace' | (typeof clusterFlags)[number]>,
  { command }: ComponentDeps,
) {
  const access = loadKubeconfig(kubeconfigOf('control', options));
  const client = createKubeClient({ access, userAgent: userAgentOf(command), qps: 10, burst: 10 });
  const { namespace } = options;
  return {
    findForeignHolder: foreignHolderFinder({ client, namespace, names: dialect.policy.leases, timeoutMs: lookEveryMs }),
    lookEveryMs,
    close: client.close,
  };
}

type LeadershipOptions = Options<'namespace' | (typeof electionFlags | typeof clusterFlags)[number]>;

/** Joins the election. Without --leader-elect this process leads at once. */
export function startLeadership(options: LeadershipOptions, { command, logger }: ComponentDeps): Leadership {
  const election = options.leaderElect ? elect() : undefined;

  function elect(): Election {
    return startElection({
      kubeconfig: kubeconfigOf('control', options),
      userAgent: userAgentOf(command),
      namespace: options.namespace,
      names: dialect.policy.leases,
      leaseMs: options.leaderElectLeaseDuration * 1000,
      renewDeadlineMs: options.leaderElectRenewDeadline * 1000,
      retryMs: options.leaderElectRetryPeriod * 1000,
      logger,
      onLost(reason) {
        logger.fatal({ reason }, 'ending because this process no longer leads');
        process.exit(1);
      },
    });
  }

  const isLeader = () => election === undefined || election.standing().kind === 'leader';
  return {
    isLeader,
    leading: election?.held ?? Promise.resolve(),
    missing: () => (election?.standing().kind === 'unknown' ? ['leases'] : []),
    details() {
      const standing = election?.standing();
      if (standing?.kind !== 'standby') return { leader: isLeader() };
      return { leader: false, waitsFor: { lease: standing.lease, holder: standing.holder } };
    },
    async stop() {
      await election?.stop();
    },
  };
}
