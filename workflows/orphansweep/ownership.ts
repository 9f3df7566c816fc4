/** Whose the listed resources are, as the API server says now. */
import { condition } from '@temporalio/workflow';
import type { ListedResource, Ownership, ResourceKey } from '../../api/model/sweep.ts';
import { inPortions, jsonBytes, maxListBytes } from '../../api/payloads.ts';
import { isActivityFailure } from '../calls/failure.ts';
import { addReading } from './brake.ts';
import type { Look } from './plan.ts';
import { kubernetes, type Sweep, untilAnswered } from './progress.ts';

export type Findings = Pick<Look, 'ownerless' | 'adopted' | 'surplus'>;

/** Of these resources those without a Machine, and surplus VMs. Waits for the API server for as long as it takes. */
export async function withoutMachine(sweep: Sweep, resources: readonly ListedResource[]): Promise<Findings> {
  const found: Findings[] = [];
  const portions = inPortions(resources, undefined, toKey);
  for (const portion of portions) found.push(await askInTurn(sweep, portion));
  return {
    ownerless: found.flatMap(({ ownerless }) => ownerless),
    adopted: found.flatMap(({ adopted }) => adopted),
    surplus: found.flatMap(({ surplus }) => surplus),
  };
}

/** The same of few resources, asked once; undefined where the API server does not answer. */
export async function withoutMachineNow(
  { input }: Sweep,
  resources: readonly ListedResource[],
): Promise<Findings | undefined> {
  try {
    return toFindings(resources, await kubernetes.findOwnerless(input, resources.map(toKey)));
  } catch (error) {
    if (!isActivityFailure(error)) throw error;
    return undefined;
  }
}

/** Asks when the questions that are under way leave room in a message. */
async function askInTurn(sweep: Sweep, resources: readonly ListedResource[]): Promise<Findings> {
  const keys = resources.map(toKey);
  const bytes = jsonBytes(keys);
  const hasRoom = () => sweep.askedBytes === 0 || sweep.askedBytes + bytes <= maxListBytes;
  while (!hasRoom()) await condition(hasRoom);
  sweep.askedBytes += bytes;
  try {
    return await ask(sweep, resources, keys);
  } finally {
    sweep.askedBytes -= bytes;
  }
}

/** No more than it takes to tell whose the resource is: there may be tens of thousands. */
export function toKey({ kind, id, uid, name, attachedTo }: ListedResource): ResourceKey {
  if (uid !== undefined) return { kind, id: kind === 'vm' ? id : '', uid, name: '' };
  return { kind, id, name, ...(attachedTo !== undefined && { attachedTo }) };
}

async function ask(
  sweep: Sweep,
  resources: readonly ListedResource[],
  keys: readonly ResourceKey[],
): Promise<Findings> {
  const at = new Date().toISOString();
  const answer = await untilAnswered(sweep, () => kubernetes.findOwnerless(sweep.input, keys));
  sweep.census = addReading(sweep.census, answer.machines, at);
  return toFindings(resources, answer);
}

function toFindings(resources: readonly ListedResource[], { ownerless, adopted, surplus }: Ownership): Findings {
  return {
    ownerless: ownerless.flatMap((place) => resources[place] ?? []),
    adopted,
    surplus: surplus.flatMap(({ place, machine, keeper }) => {
      const resource = resources[place];
      return resource === undefined ? [] : [{ resource: { ...resource, excessOf: machine }, keeper }];
    }),
  };
}
