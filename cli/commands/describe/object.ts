/** What Millwright is doing with an object: what its workflow answers, and what the object itself says. */
import { attention } from '../../../api/attention.ts';
import type { MachineEvent } from '../../../api/events.ts';
import type { MachineSnapshot } from '../../../api/model/machine.ts';
import type { ObjectRef } from '../../../api/model/ref.ts';
import type { KubeObject } from '../../../api/objects.ts';
import { type WorkflowKind, workflowId } from '../../../api/workflow-id.ts';
import type { KubeReader } from '../../../kube/client.ts';
import { events } from '../../../kube/core.ts';
import type { WorkflowAnswer } from '../../../temporal/describe.ts';
import type { MachineDescription } from '../../../workflows/machine/messages.ts';
import type { OwnerDescription } from '../../../workflows/rollout/messages.ts';
import type { RawFlags } from '../../command.ts';
import { dialect, dialectName, noLimits } from '../../dialect.ts';
import { atText } from '../../duration-text.ts';
import { type OwnerState, readOwned, toDeploymentState, toLoneSetState } from '../../owner-state.ts';
import {
  descriptionRows,
  failedRows,
  machineRows,
  ownedSetRows,
  ownerRows,
  type Rows,
  retryRows,
  stateRows,
} from './rows.ts';

const { kinds } = dialect;

type ObjectKey = { readonly namespace: string; readonly name: string };

/** What came of asking a workflow. */
export type Answer =
  | Exclude<WorkflowAnswer<MachineDescription | OwnerDescription>, { readonly state: 'none' }>
  /** No workflow is open. `lacksControllers`: nobody starts it. */
  | { readonly state: 'none'; readonly lacksControllers?: true }
  /** Temporal did not answer. */
  | { readonly state: 'unreachable'; readonly reason: string };

/** Where an object is looked up, and its workflow asked. */
export interface DescribeSource {
  readonly control: KubeReader;
  readonly installation: string;
  readonly ask: (workflowId: string) => Promise<Answer>;
  /** Why the Machine of this workflow was deleted, a clause, by the histories of Temporal. Left out: only Events say it. */
  readonly causeOf?: (workflowId: string, key: ObjectKey) => Promise<string | undefined>;
  /** For the commands that the rows recommend. */
  readonly rawFlags: RawFlags;
}

/** What is known of an object. */
export interface Description {
  readonly workflowId: string;
  /** For people. */
  readonly rows: Rows;
  /** The same facts for programs. */
  readonly facts: object;
}

/** An object and its rows. */
interface Described {
  readonly object: KubeObject & { readonly status?: unknown };
  /** Printed when its workflow does not answer. */
  readonly fallback: Rows;
  /** Printed in any case: the workflow does not report it, or reports older values. */
  readonly live: Rows;
  /** Why it has no open workflow, if it has none. */
  readonly whyNone: string;
  /** Of a deployment, and of a set without a deployment. */
  readonly state?: OwnerState;
}

/** undefined: the object does not exist. Throws when the API server does not answer. */
export async function describeObject(
  kind: WorkflowKind,
  key: ObjectKey,
  source: DescribeSource,
): Promise<Description | undefined> {
  const { installation, ask } = source;
  const described = await find(kind, key, source);
  if (described === undefined) return undefined;
  const { object, fallback, live, whyNone, state: now } = described;
  const { namespace, name } = key;
  const { uid } = object.metadata;
  const id = workflowIdOf(kind, object, namespace, installation);
  const answer = await ask(id);
  const { state, description, reason, retries } = { description: undefined, reason: undefined, retries: [], ...answer };
  const workflow = { id, state, reason, retries };
  const { waitsFor, blockedBy } = now ?? {};
  return {
    workflowId: id,
    rows: [
      [kind, `${namespace}/${name}`],
      ['Workflow', `${id}${noAnswerText(answer, whyNone)}`],
      ...(description === undefined ? fallback : descriptionRows(description)),
      ...retryRows(retries),
      ...live,
    ],
    facts: { kind, namespace, name, uid, workflow, description, waitsFor, blockedBy, status: object.status },
  };
}

async function find(kind: WorkflowKind, key: ObjectKey, source: DescribeSource): Promise<Described | undefined> {
  const { control, rawFlags } = source;
  if (kind === 'Machine') {
    const machine = await control.find(kinds.machine, key);
    if (machine === undefined) return undefined;
    const snapshot = dialect.machine.toSnapshot(machine, noLimits);
    const [owner, deleted] = await Promise.all([ownerTextOf(control, machine), deletionTextOf(machine, key, source)]);
    const live: Rows = [
      ['Owner', owner],
      ['Deleted', deleted],
    ];
    return { object: machine, fallback: machineRows(machine, snapshot, rawFlags), live, whyNone: whyNoneOf(snapshot) };
  }
  const ofOwner = (object: KubeObject, state: OwnerState): Described => {
    const fallback = ownerRows(object, state);
    return { object, fallback, live: stateRows(object, state, rawFlags), whyNone: whyNoneOfOwner(state), state };
  };
  if (kind === 'MachineDeployment') {
    const deployment = await control.find(kinds.deployment, key);
    if (deployment === undefined) return undefined;
    return ofOwner(deployment, toDeploymentState(deployment, await readOwned(control, key.namespace)));
  }
  const set = await control.find(kinds.set, key);
  if (set === undefined) return undefined;
  if (deploymentOf(set)) return { object: set, fallback: ownedSetRows(set), live: failedRows(set), whyNone: atRest };
  return ofOwner(set, toLoneSetState(set, await readOwned(control, key.namespace)));
}

/** The set of a Machine and its deployment, as far as the account may read the set. */
async function ownerTextOf(control: KubeReader, { metadata }: KubeObject): Promise<string> {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller);
  if (owner === undefined) return 'none';
  const { kind, name } = owner;
  if (kind !== kinds.set.kind) return `${kind} ${name}`;
  const { namespace } = metadata;
  const set = await control
    .find(kinds.set, { ...(namespace !== undefined && { namespace }), name })
    .catch(() => undefined);
  const deployment = set && deploymentOf(set);
  return deployment === undefined ? `${kind} ${name}` : `${kind} ${name} of ${deployment.kind} ${deployment.name}`;
}

/**
 * When a Machine was deleted, and why: by an Event, as long as there is one and the account may read it, or else by the
 * histories of Temporal.
 */
async function deletionTextOf(
  machine: KubeObject,
  key: ObjectKey,
  { control, installation, causeOf }: DescribeSource,
): Promise<string | undefined> {
  const { uid, deletionTimestamp } = machine.metadata;
  if (deletionTimestamp === undefined) return undefined;
  const causes: readonly string[] = ['DeletedByOwner', 'DeletedWithNode'] satisfies MachineEvent[];
  const query = { namespace: key.namespace, fieldSelector: `regarding.uid=${uid}` };
  const found = await control.list(events, query).catch(() => ({ items: [] }));
  const noted = found.items.find(({ reason }) => causes.includes(reason ?? ''))?.note;
  const cause = noted ?? (await causeOf?.(workflowIdOf('Machine', machine, key.namespace, installation), key));
  return `${atText(deletionTimestamp)}${cause === undefined ? '' : `: ${cause}`}`;
}

const atRest = 'there is nothing to do';
/** Nobody has started the workflow yet, or somebody has terminated it. */
const isDue = 'the controllers start it within a minute';
const noControllers =
  'the controllers have to start it, and Temporal knows of none of this installation: start them, or correct --installation';

/** Why the workflow of an owner is not open. */
export function whyNoneOfOwner({ needs, view, blockedBy }: OwnerState): string {
  if (needs.length > 0 || view.problem !== undefined) return isDue;
  if (blockedBy !== undefined)
    return 'it waits for its machines, and the controllers start it when there is more to do';
  return view.paused ? `${atRest} while it is paused` : atRest;
}

/** The workflow of a Machine at rest may have been terminated: nothing starts it before it is needed. */
function whyNoneOf(machine: MachineSnapshot): string {
  const isAtRest = attention(machine, { state: 'unknown' }).length === 0;
  return isAtRest ? 'the Machine is at rest, and the controllers start it when there is something to do' : isDue;
}

/** A set of a deployment has no workflow of its own: that of the deployment manages it. */
function workflowIdOf(kind: WorkflowKind, { metadata }: KubeObject, namespace: string, installation: string): string {
  const ref = ({ name, uid }: { name: string; uid: string }): ObjectRef => ({
    dialect: dialectName,
    namespace,
    name,
    uid,
  });
  const deployment = deploymentOf({ metadata });
  if (kind === 'MachineSet' && deployment) return workflowId(installation, 'MachineDeployment', ref(deployment));
  return workflowId(installation, kind, ref(metadata));
}

function deploymentOf({ metadata }: Pick<KubeObject, 'metadata'>) {
  return metadata.ownerReferences?.find((owner) => owner.kind === kinds.deployment.kind && owner.controller);
}

function noAnswerText(answer: Answer, whyNone: string): string {
  switch (answer.state) {
    case 'open':
      return '';
    case 'none':
      return `, not open: ${answer.lacksControllers && whyNone === isDue ? noControllers : whyNone}`;
    case 'silent':
      return `, no answer (${answer.reason}): is a worker running?`;
    case 'unreachable':
      return `, not asked: ${answer.reason}`;
  }
}
