/** Which of several controllers act: those of the process that holds the Leases. */
import { Gauge } from 'prom-client';
import { createKubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { foreignHolderFinder } from '../../kube/foreign-holder.ts';
import { type Election, startElection } from '../../kube/lease.ts';
import type { clusterFlags, electionFlags } from '../flags.ts';
import type { Options } from '../options.ts';
import { kubeconfigOf, userAgentOf } from '../servers.ts';
import type { PartDeps } from './serve.ts';

/** Those of machine-controller-manager's two processes: none of them acts beside us, and we beside none of them. */
const leaseNames = ['machine-controller-manager', 'machine-controller'] as const;

export interface Leadership {
  /** Resolves when we lead. The process ends when that is over before `stop`. */
  readonly leading: Promise<void>;
  /** What keeps us from leading and from standing by. */
  missing(): string[];
  /** For /readyz: whether we lead, else who does. */
  details(): object;
  /** Lets another one lead. Only when nothing is done any more. */
  stop(): Promise<void>;
}

/** How often the workers look who holds the Leases, ms: as often as a leader renews them. */
const lookEveryMs = 2_000;

/** How the workers find out that machine-controller-manager leads. With a client of its own, as the election has one. */
export function lookAtLeases(options: Options<'namespace' | (typeof clusterFlags)[number]>, { component }: PartDeps) {
  const access = loadKubeconfig(kubeconfigOf('control', options));
  const client = createKubeClient({ access, userAgent: userAgentOf(component), qps: 10, burst: 10 });
  const { namespace } = options;
  return {
    findForeignHolder: foreignHolderFinder({ client, namespace, names: leaseNames, timeoutMs: lookEveryMs }),
    lookEveryMs,
    close: client.close,
  };
}

type LeadershipOptions = Options<'namespace' | (typeof electionFlags | typeof clusterFlags)[number]>;

/** Begins to wait for our turn, unless there is to be no election. */
export function startLeadership(options: LeadershipOptions, { component, registry, logger }: PartDeps): Leadership {
  const election = options.leaderElect ? elect() : undefined;

  function elect(): Election {
    return startElection({
      kubeconfig: kubeconfigOf('control', options),
      userAgent: userAgentOf(component),
      namespace: options.namespace,
      names: leaseNames,
      leaseMs: options.leaderElectLeaseDuration * 1000,
      renewDeadlineMs: options.leaderElectRenewDeadline * 1000,
      retryMs: options.leaderElectRetryPeriod * 1000,
      logger,
      onLost(reason) {
        logger.fatal({ reason }, 'ending because we lead no more');
        process.exit(1);
      },
    });
  }

  const isLeader = () => election === undefined || election.standing().kind === 'leader';
  new Gauge({
    name: 'millwright_leader',
    help: '1 where the controllers act, 0 where they stand by.',
    registers: [registry],
    collect() {
      this.set(isLeader() ? 1 : 0);
    },
  });
  return {
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
