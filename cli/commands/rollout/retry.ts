/** `millwright rollout retry`: signals the workflows of a deployment and of its machines. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject } from '../../../api/objects.ts';
import { isActive, isAtWork } from '../../../api/owner/machines.ts';
import { toTasks } from '../../../api/owner/needs.ts';
import type { OwnerDeployment } from '../../../api/owner/objects.ts';
import { groupByController } from '../../../api/owner/ownership.ts';
import { type Installation, retryNow, signalEach } from '../../../temporal/workflows.ts';
import { dialect } from '../../dialect.ts';
import { withInstallation } from '../../installation.ts';
import { readOwned, toDeploymentState } from '../../owner-state.ts';
import { complain } from '../../terminal.ts';
import { nameOf, ownSets, type RolloutTarget, readDeployment, refOf } from './target.ts';

/** How long the controllers may take to see a change and to start the workflow that it needs, ms. */
const startMs = 10_000;
/** Pause between two looks at the objects meanwhile, ms. */
const lookMs = 500;

/**
 * Waits for the controllers if a workflow is needed and neither that of the deployment nor one of its machines is open:
 * the deployment may have changed just now.
 */
export async function retry(target: RolloutTarget, deployment: OwnerDeployment): Promise<string> {
  return withInstallation(target.options, async (to) => {
    const name = nameOf(target);
    let sent = await sendRetry(to, target, deployment);
    const deadline = Date.now() + startMs;
    if (sent.missing !== undefined) complain(`${name}: waiting for the controllers to start its workflow`);
    while (sent.missing !== undefined) {
      if (Date.now() >= deadline) {
        const fix = 'start the controllers, or correct --installation';
        throw new Error(`installation '${to.name}' has no open workflow for ${name}${sent.missing}: ${fix}`);
      }
      await sleep(lookMs);
      sent = await sendRetry(to, target, await readDeployment(target));
    }
    return `${name}: ${sent.to === '' ? 'nothing to retry' : `signalled ${sent.to} to retry now`}`;
  });
}

interface SentRetry {
  /** Whose workflows got the signal; empty: none was open. */
  readonly to: string;
  /** What needs a workflow though none is open, to follow the name of the deployment in a sentence. */
  readonly missing: string | undefined;
}

/** Signals the workflows of the deployment and of each machine that is not available or is being deleted. */
async function sendRetry(to: Installation, target: RolloutTarget, deployment: OwnerDeployment): Promise<SentRetry> {
  const owned = await readOwned(target.control, target.key.namespace);
  const bySet = groupByController(owned.machines);
  const unavailable = ownSets(deployment, owned.sets)
    .flatMap((set) => bySet.get(set.metadata.uid) ?? [])
    .filter((machine) => !isActive(dialect, machine) || !isAtWork(dialect, machine));
  const isOpen = await retryNow(to, 'MachineDeployment', refOf(target, deployment));
  const nameOfMachine = ({ metadata }: KubeObject) => metadata.name;
  const { length: signalled } = await signalEach(unavailable, nameOfMachine, (machine) =>
    retryNow(to, 'Machine', refOf(target, machine)),
  );
  const { needs } = toDeploymentState(deployment, owned);
  const isMissing = signalled === 0 && !isOpen && (needs.length > 0 || unavailable.length > 0);
  const them = unavailable.length > 0 ? ` or for its ${count(unavailable.length)} that are not available` : '';
  const todo = needs.length > 0 ? `; to do: ${toTasks(needs)}` : '';
  return {
    to: [...(isOpen ? ['the rollout'] : []), ...(signalled > 0 ? [count(signalled)] : [])].join(' and '),
    missing: isMissing ? `${them}${todo}` : undefined,
  };
}

function count(number: number): string {
  return number === 1 ? '1 machine' : `${number} machines`;
}
