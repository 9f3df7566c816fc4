/** What a step of an owner of machines says about owner and sets: revisions, generations, conditions and Events. */
import { deploymentEvents, type OwnerEvents, setEvents } from '../../api/events.ts';
import { apiVersion } from '../../api/gardener/names.ts';
import { machineDeployments, machineSets } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../api/gardener/schema/machine-set.ts';
import type { OwnerPlan } from '../../api/model/owner.ts';
import type { KubeObject } from '../../api/objects.ts';
import { failureOfSet, failureOfSets } from '../../api/owner/failure.ts';
import { invalidSpec } from '../../api/owner/problem.ts';
import { withNewestRevision, withRevision } from '../../api/owner/revision.ts';
import { type DeploymentReport, withFailure, withReport } from '../../api/owner/status.ts';
import { currentSetOf } from '../../api/owner/view.ts';
import { StatusError } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import { update } from '../../kube/update.ts';
import { type Owner, type OwnerDeps, ownSets, type Step } from './step.ts';

const onStatus = { subresource: 'status' } as const;

/** What the API server refused in a step, by the name of the set that it is about. */
export type Failures = Map<string, { readonly reason: 'FailedCreate' | 'FailedDelete'; readonly message: string }>;

/**
 * Says how a step has left owner and sets, in which nothing has failed. Takes note of the generations that were planned
 * for, not of those that came meanwhile.
 * @param scaled generations of the sets that the step has scaled, by name
 */
export async function report(
  step: Step,
  owner: Owner,
  said: NonNullable<OwnerPlan['report']>,
  scaled: ReadonlyMap<string, number>,
): Promise<void> {
  const { deps, ref, kind, plan } = step;
  const now = new Date();
  const own = await ownSets(deps.control, ref, kind);
  const isWrong = kind === 'MachineSet' && said.problem !== undefined;
  const failure = isWrong ? { reason: invalidSpec, message: said.problem } : undefined;
  for (const set of own) {
    const planned = plan.sets.find(({ uid }) => uid === set.metadata.uid);
    if (planned === undefined) continue;
    const generation = scaled.get(planned.name) ?? planned.generation;
    await updateStatus(deps, set, (live) => withFailure(live, failure, generation, now));
  }
  if (owner.deployment !== undefined) await reportDeployment(step, owner.deployment, said, own);
}

/** Makes the set of the template the newest, whenever it was made, and says so on the deployment. */
async function reportDeployment(
  { deps, ref, plan }: Step,
  deployment: MachineDeployment,
  said: DeploymentReport,
  own: readonly MachineSet[],
): Promise<void> {
  const { control } = deps;
  const found = currentSetOf(deployment, own);
  const revise = (live: MachineSet) => withNewestRevision(live, own);
  const isNewest = found === undefined || revise(found) === undefined;
  const current = isNewest ? found : await update(control, machineSets, found.metadata, revise);
  await update(control, machineDeployments, ref, (live) => withRevision(live, current));
  // That a rollout is late is told of one that may still be refused its machines; any other report comes after them.
  const failure = said.late === undefined ? undefined : failureOfSets(own, found);
  const change = (live: MachineDeployment) =>
    withReport(live, { ...said, setName: current?.metadata.name, failure }, plan.generation, new Date());
  await update(control, machineDeployments, ref, change, onStatus);
  if (said.late !== undefined) {
    recordOn(deps.events, 'MachineDeployment', deployment, 'ProgressDeadlineExceeded', said.late);
  }
}

/** Does a request for a set, and notes what the API server refuses. Whatever it throws is thrown on. */
export async function noteFailure(
  failures: Failures,
  set: string,
  reason: 'FailedCreate' | 'FailedDelete',
  request: () => Promise<void>,
): Promise<void> {
  try {
    await request();
  } catch (error) {
    if (error instanceof StatusError && !failures.has(set)) failures.set(set, { reason, message: error.message });
    throw error;
  }
}

/** Says why sets do not get or lose their machines: on them, on their deployment, and as Events. */
export async function reportFailures({ deps, ref, kind }: Step, failures: Failures): Promise<void> {
  if (failures.size === 0) return;
  const own = await ownSets(deps.control, ref, kind);
  const now = new Date();
  for (const [index, set] of own.entries()) {
    const failure = failures.get(set.metadata.name);
    if (failure === undefined) continue;
    const verb = failure.reason === 'FailedCreate' ? 'creating' : 'deleting';
    recordOn(deps.events, 'MachineSet', set, failure.reason, `Error ${verb}: ${failure.message}`);
    // The words may be about another machine each time: what is told stays until it is over.
    const change = (live: MachineSet) =>
      failureOfSet(live)?.reason === failure.reason ? undefined : withFailure(live, failure, undefined, now);
    own[index] = (await updateStatus(deps, set, change)) ?? set;
  }
  if (kind === 'MachineSet') return;
  const change = (live: MachineDeployment) =>
    withReport(live, { failure: failureOfSets(own, currentSetOf(live, own)) }, undefined, now);
  await update(deps.control, machineDeployments, ref, change, onStatus);
}

async function updateStatus(
  { control }: OwnerDeps,
  set: MachineSet,
  change: (live: MachineSet) => object | undefined,
): Promise<MachineSet | undefined> {
  if (change(set) === undefined) return set;
  return update(control, machineSets, set.metadata, change, onStatus);
}

/** An Event on an owner or a set, of the type that its reason has. */
export function recordOn<K extends keyof OwnerEvents>(
  recorder: EventRecorder,
  kind: K,
  { metadata }: KubeObject,
  reason: OwnerEvents[K],
  note: string,
): void {
  const { namespace = '', name, uid } = metadata;
  const regarding = { apiVersion, kind, namespace, name, uid };
  const { type } = { ...setEvents, ...deploymentEvents }[reason];
  recorder.record({ regarding, type, reason, note, action: reason });
}
