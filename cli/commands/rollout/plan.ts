/** `millwright rollout plan`: what a change of a deployment would do, step by step. Nothing is written. */
import { isDeepStrictEqual } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { apiVersionOf, type ObjectKey } from '../../../api/objects.ts';
import type { OwnerDeployment } from '../../../api/owner/objects.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { mergePatch } from '../../../kube/patch.ts';
import { columns } from '../../columns.ts';
import { dialect } from '../../dialect.ts';
import { rendered } from '../../output.ts';
import { readOwned } from '../../owner-state.ts';
import { sourceProblemOf } from '../../source-problem.ts';
import { type SimulatedStep, type Simulation, simulate } from './simulation.ts';
import { type RolloutTarget, readDeployment } from './target.ts';

const { deployment: resource } = dialect.kinds;
/** In which kubectl keeps what was applied last. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

const Manifest = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string().optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
});
type Manifest = z.output<typeof Manifest>;

/** What kubectl writes for several objects, and applies as these. */
const List = z.object({ apiVersion: z.literal('v1'), kind: z.literal('List'), items: z.array(z.unknown()) });

/** The steps of a deployment. */
export interface PlannedRollout extends Simulation {
  readonly namespace: string;
  readonly name: string;
  /** Why no machine can be created from its class, as far as that is known. */
  readonly sourceProblem?: string;
}

/** The output of the command: of a deployment as it is, or of those in a manifest. */
export async function plan(target: RolloutTarget): Promise<string> {
  const { control, options } = target;
  const { filename, namespace } = options;
  const planned =
    filename === undefined
      ? [await planLive(control, await readDeployment(target))]
      : await planManifest(control, filename, namespace);
  return rendered({ assumptions, deployments: planned }, options, () => planned.map(planText).join('\n\n'));
}

/**
 * Plans what is still ahead of a deployment as it is.
 * @param given names of classes that are applied with it: what is wrong with the present ones does not count
 */
async function planLive(
  control: KubeClient,
  deployment: OwnerDeployment,
  given: ReadonlySet<string> = new Set(),
): Promise<PlannedRollout> {
  const { name, namespace = '' } = deployment.metadata;
  const source = dialect.source.nameOf(deployment);
  // Who may not read the class or its Secrets gets a plan without a warning.
  const isJudged = source !== undefined && !given.has(source);
  const sourceProblem = isJudged ? await sourceProblemOf(control, namespace, source).catch(() => undefined) : undefined;
  const simulation = await simulate(deployment, await readOwned(control, namespace));
  return { namespace, name, ...simulation, ...(sourceProblem && { sourceProblem }) };
}

/**
 * Plans what `kubectl apply -f` of a manifest would do: the API server answers, in a dry run, what it would store.
 * Throws an Error where the manifest has no deployment, and what the API server refuses.
 * @param text YAML or JSON, one object or several; of the others only the names of classes count
 * @param namespace of objects that name none
 */
export async function planManifest(control: KubeClient, text: string, namespace: string): Promise<PlannedRollout[]> {
  const manifests = manifestsOf(text);
  const wanted = apiVersionOf(resource);
  const deployments = manifests.filter(({ kind, apiVersion }) => kind === resource.kind && apiVersion === wanted);
  if (deployments.length === 0)
    throw new Error(`--filename has no ${resource.kind} of ${wanted}: give a manifest with one`);
  const classes = manifests.filter(({ kind }) => kind === dialect.kinds.source?.kind);
  const given = new Set(classes.map(({ metadata }) => metadata.name));
  const planned: PlannedRollout[] = [];
  for (const manifest of deployments) {
    const key = { namespace: manifest.metadata.namespace ?? namespace, name: manifest.metadata.name };
    planned.push(await planLive(control, await applied(control, key, manifest), given));
  }
  return planned;
}

function manifestsOf(text: string): Manifest[] {
  return parseAllDocuments(text).flatMap((document) => {
    if (document.errors?.[0] !== undefined) throw new Error(`--filename is no YAML: ${document.errors[0].message}`);
    const value: unknown = document.toJS();
    return (List.safeParse(value).data?.items ?? [value]).flatMap((each) => Manifest.safeParse(each).data ?? []);
  });
}

async function applied(control: KubeClient, key: ObjectKey, manifest: Manifest): Promise<OwnerDeployment> {
  const live = await control.find(resource, key);
  const { apiVersion: _, kind: _kind, status: _status, ...given } = manifest;
  const { annotations = {}, ...named } = given.metadata;
  const metadata = { ...named, annotations, namespace: key.namespace ?? '' };
  if (live === undefined) return control.create(resource, { ...given, metadata }, { dryRun: 'All' });
  const before = live.metadata.annotations?.[lastApplied];
  const removed = before === undefined ? {} : removals(JSON.parse(before), given);
  return control.patch(resource, key, mergePatch(merged(removed, given)), { dryRun: 'All' });
}

type Fields = Readonly<Record<string, unknown>>;

/** Fields that were applied and are not given any more, as null: a merge patch removes them. */
export function removals(before: Fields, given: Fields): Fields {
  const entries = Object.entries(before).flatMap(([key, was]): [string, unknown][] => {
    if (['apiVersion', 'kind', 'status'].includes(key)) return [];
    if (!(key in given)) return [[key, null]];
    const is = given[key];
    const inside = isFields(was) && isFields(is) ? removals(was, is) : {};
    return isDeepStrictEqual(inside, {}) ? [] : [[key, inside]];
  });
  return Object.fromEntries(entries);
}

function merged(a: Fields, b: Fields): Fields {
  const both = Object.entries(b).map(([key, value]) => {
    const other = a[key];
    return [key, isFields(other) && isFields(value) ? merged(other, value) : value];
  });
  return { ...a, ...Object.fromEntries(both) };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What every plan assumes. */
const assumptions = [
  'each new machine becomes ready, and each deletion and update in place ends, before the next step',
  'nothing else changes meanwhile, and no unhealthy machine asks to be replaced',
] as const;

/** The steps as a table, with the bounds in its header. */
export function planText({ namespace, name, steps, before, after, bounds, problem, ...rest }: PlannedRollout): string {
  const title = `MachineDeployment ${namespace}/${name}`;
  if (problem !== undefined) return `${title} would be invalid, and no machine would change: ${problem}`;
  const waits = rest.waitsFor === undefined ? [] : [`in the end it waits: ${rest.waitsFor}`];
  if (steps.length === 0) return [`${title}: no machine would change`, ...waits].join('\n');
  const cells = (counts: SimulatedStep | Simulation['before']) =>
    [counts.old, counts.new, counts.leaving, counts.total, counts.available].map(String);
  const { mostMachines, leastAvailable } = bounds;
  const bounded = [`MACHINES (<=${mostMachines})`, `AVAILABLE (>=${leastAvailable})`];
  const header = ['STEP', 'ACTION', 'OLD', 'NEW', 'LEAVING', ...bounded];
  const rows = steps.map((step, i) => [String(i + 1), actionText(step), ...cells(step)]);
  return [
    `${title}: ${steps.length} ${steps.length === 1 ? 'step' : 'steps'}, ${rest.strategy}, ${rest.replicas} replicas`,
    ...columns([header, ['', 'now', ...cells(before)], ...rows, ['', 'end', ...cells(after)]]),
    ...waits,
    ...(rest.sourceProblem === undefined ? [] : [`warning: no machine can be created: ${rest.sourceProblem}`]),
    ...assumptions.map((assumption) => `assumed: ${assumption}`),
  ].join('\n');
}

function actionText({ createSet, create, remove, select = [], handOver = [] }: SimulatedStep): string {
  return [
    ...(createSet === undefined ? [] : [`create machine set ${createSet}`]),
    ...create.map(({ set, count }) => `create ${count} in ${set}`),
    ...(remove.length === 0 ? [] : [`delete ${remove.join(', ')}`]),
    ...(select.length === 0 ? [] : [`update ${select.join(', ')} in place`]),
    ...(handOver.length === 0 ? [] : [`hand over ${handOver.join(', ')} to the new set`]),
  ].join('; ');
}
