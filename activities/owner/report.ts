/** What a step of an owner of machines reports on owner and sets: revisions, generations, conditions and Events. */
import { deploymentEvents, type MachineEvent, machineEvents, type OwnerEvents, setEvents } from '../../api/events.ts';
import type { Candidate, OwnerPlan } from '../../api/model/owner.ts';
import { apiVersionOf, type KubeObject, type Resource } from '../../api/objects.ts';
import { failureOfDeployment, failureOfSet, failureOfSets } from '../../api/owner/failure.ts';
import type { OwnerDeployment, OwnerSet } from '../../api/owner/objects.ts';
import { invalidSpec } from '../../api/owner/problem.ts';
import { isNewest, withNewestRevision, withRevision } from '../../api/owner/revision.ts';
import { withFailure, withReport } from '../../api/owner/status.ts';
import { newSetAmong } from '../../api/owner/view.ts';
import { StatusError } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import { update } from '../../kube/update.ts';
import { type Owner, type OwnerContext, ownSets, type Step } from './step.ts';

type Report = NonNullable<OwnerPlan['report']>;

const onStatus = { subresource: 'status' } as const;

/** What the API server refused in a step, by the name of the set. */
export type Failures = Map<string, { readonly reason: 'FailedCreate' | 'FailedDelete'; readonly message: string }>;

/**
 * Reports owner and sets after a step in which nothing failed. Records the generations that were planned for, not newer
 * ones.
 * @param scaled generations of the sets that the step has scaled, by name
 */
export async function report(
  step: Step,
  owner: Owner,
  reported: Report,
  scaled: ReadonlyMap<string, number>,
): Promise<void> {
  const { api, kind, plan } = step;
  const now = new Date();
  const own = await ownSets(step);
  const problem = kind === 'MachineSet' ? reported.problem : undefined;
  const failure = problem === undefined ? undefined : { reason: invalidSpec, message: problem };
  for (const set of own) {
    const planned = plan.sets.find(({ uid }) => uid === set.metadata.uid);
    if (planned === undefined) continue;
    const generation = scaled.get(planned.name) ?? planned.generation;
    await updateStatus(step, set, (live) => withFailure(api, live, failure, generation, now));
    if (failure !== undefined) recordOn(step.deps.events, step.sets, set, invalidSpec, failure.message);
  }
  if (owner.deployment !== undefined) await reportDeployment(step, owner.deployment, reported, own);
}

/** Makes the set of the template the newest, whenever it was created, and reports it on the deployment. */
async function reportDeployment(
  { deps, api, sets, deployments, ref, plan }: Step,
  deployment: OwnerDeployment,
  reported: Report,
  own: readonly OwnerSet[],
): Promise<void> {
  const { control } = deps;
  const found = newSetAmong(api, deployment, own);
  const revise = (live: OwnerSet) => withNewestRevision(api, live, own);
  const isRevised = found === undefined || isNewest(api, found, own);
  const newSet = isRevised ? found : await update(control, sets, found.metadata, revise);
  await update(control, deployments, ref, (live) => withRevision(api, live, newSet));
  // Only a late report may come while machines are still refused; any other follows when they are not.
  const failure = reported.late === undefined ? undefined : failureOfSets(api, own, found);
  const change = (live: OwnerDeployment) =>
    withReport(api, live, { ...reported, setName: newSet?.metadata.name, failure }, plan.generation, new Date());
  await update(control, deployments, ref, change, onStatus);
  if (reported.problem !== undefined) {
    recordOn(deps.events, deployments, deployment, invalidSpec, reported.problem);
  }
  if (reported.late !== undefined) {
    recordOn(deps.events, deployments, deployment, 'ProgressDeadlineExceeded', reported.late);
  }
}

/** Makes a request for a set, and notes what the API server refuses. Throws what the request throws. */
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

/** Reports why sets do not get or lose their machines: on them, on their deployment, and as Events. */
export async function reportFailures(context: OwnerContext, failures: Failures): Promise<void> {
  if (failures.size === 0) return;
  const { deps, api, sets, deployments, ref, kind } = context;
  const own = await ownSets(context);
  const now = new Date();
  for (const [index, set] of own.entries()) {
    const failure = failures.get(set.metadata.name);
    if (failure === undefined) continue;
    const verb = failure.reason === 'FailedCreate' ? 'creating' : 'deleting';
    recordOn(deps.events, sets, set, failure.reason, `Error ${verb}: ${failure.message}`);
    // The message may name another machine each time: the first one stays until the failure is over.
    const change = (live: OwnerSet) =>
      failureOfSet(api, live)?.reason === failure.reason ? undefined : withFailure(api, live, failure, undefined, now);
    own[index] = (await updateStatus(context, set, change)) ?? set;
  }
  if (kind === 'MachineSet') return;
  const change = (live: OwnerDeployment) =>
    withReport(api, live, { failure: failureOfSets(api, own, newSetAmong(api, live, own)) }, undefined, now);
  await update(deps.control, deployments, ref, change, onStatus);
}

/**
 * Reports as an Event and a condition why the set of the template could not be created. Its own errors do not matter.
 */
export async function reportRefusedSet(
  { deps, api, deployments, ref }: OwnerContext,
  deployment: OwnerDeployment,
  name: string,
  message: string,
): Promise<void> {
  const refused = `Failed to create new machine set "${name}": ${message}`;
  recordOn(deps.events, deployments, deployment, 'MachineSetCreateError', refused);
  const change = (live: OwnerDeployment) =>
    withReport(api, live, { refused, failure: failureOfDeployment(live) }, undefined, new Date());
  await update(deps.control, deployments, ref, change, onStatus).catch(() => undefined);
}

async function updateStatus(
  { deps, sets }: OwnerContext,
  set: OwnerSet,
  change: (live: OwnerSet) => object | undefined,
): Promise<OwnerSet | undefined> {
  if (change(set) === undefined) return set;
  return update(deps.control, sets, set.metadata, change, onStatus);
}

/** An Event on the deployment, or on the set that has none. */
export function recordOnOwner(
  { deps, deployments, sets }: Step,
  { deployment, set }: Owner,
  reason: OwnerEvents['MachineSet'] & OwnerEvents['MachineDeployment'],
  note: string,
): void {
  if (deployment === undefined) recordOn(deps.events, sets, set, reason, note);
  else recordOn(deps.events, deployments, deployment, reason, note);
}

/** An Event on a machine that its owner has deleted. */
export function recordDeletion({ deps, api, ref }: Step, { name, uid }: Candidate, cause: string): void {
  const { machine } = api.kinds;
  const regarding = { apiVersion: apiVersionOf(machine), kind: machine.kind, namespace: ref.namespace, name, uid };
  const reason = 'DeletedByOwner' satisfies MachineEvent;
  deps.events.record({ regarding, type: machineEvents[reason].type, reason, note: cause, action: reason });
}

/** An Event on an owner or a set, of the type that its reason has. */
export function recordOn(
  recorder: EventRecorder,
  resource: Resource<KubeObject>,
  { metadata }: KubeObject,
  reason: OwnerEvents[keyof OwnerEvents],
  note: string,
): void {
  const { namespace = '', name, uid } = metadata;
  const regarding = { apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name, uid };
  const { type } = { ...setEvents, ...deploymentEvents }[reason];
  recorder.record({ regarding, type, reason, note, action: reason });
}
