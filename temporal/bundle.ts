/** The code of the workflows as workers run it, built once and cached. */
import { createHash, randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { z } from 'zod';
import { encodesFailuresMark } from '../api/names.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const folder = join(root, '.cache', 'workflows');

/** Bundles that a package of Millwright has beside this file: it cannot build any. */
export const builtInBundles = { workflows: 'workflows.bundle.js', replay: 'replay.bundle.js' } as const;

type Bundle = keyof typeof builtInBundles;

/** Files in workflows/ with the interceptors of each bundle. */
const interceptors: Readonly<Record<Bundle, readonly string[]>> = {
  workflows: ['interceptors.ts'],
  replay: ['interceptors.ts', 'replay-interceptors.ts'],
};

/** Files that the bundle depends on. */
const sources = [
  'workflows/**/*.ts',
  'api/**/*.ts',
  'temporal/bundle.ts',
  'node_modules/@temporalio/{worker,workflow,common}/package.json',
];

/**
 * The bundle of workflows/: that of the package, or from .cache/workflows if it was built before from the same sources.
 * Several processes may build at once. Where the cache cannot be written it is built each time, which takes a second or
 * two. The cache must not be a folder that others may write to: its content is executed.
 * @param encodesFailures whether the messages of failures are in payloads
 */
export async function loadWorkflowBundle({ encodesFailures = false } = {}): Promise<{ code: string }> {
  const bundle = await load('workflows');
  // In the first line, so that the source map fits. Nothing else reaches the sandbox before a workflow does.
  return encodesFailures ? { code: `globalThis.${encodesFailuresMark} = true; ${bundle.code}` } : bundle;
}

/**
 * The bundle that `replayRun` takes: the same code, which also reports what it asks for. It is kept in the same folder.
 */
export async function loadReplayBundle(): Promise<{ code: string }> {
  return load('replay');
}

async function load(bundle: Bundle): Promise<{ code: string }> {
  const builtIn = await readFile(new URL(builtInBundles[bundle], import.meta.url), 'utf8').catch(() => undefined);
  if (builtIn !== undefined) return { code: builtIn };
  const file = join(folder, `${bundle}-${await hashSources()}.js`);
  const cached = await readFile(file, 'utf8').catch(() => undefined);
  if (cached !== undefined) return { code: cached };
  const { code } = await build(bundle);
  await keep(file, code).catch(() => undefined);
  return { code };
}

async function hashSources(): Promise<string> {
  const files = sources
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .filter((file) => !file.endsWith('.test.ts'))
    .toSorted();
  const hash = createHash('sha256');
  for (const file of files) {
    hash
      .update(`${file}\0`)
      .update(await readFile(join(root, file)))
      .update('\0');
  }
  return hash.digest('hex').slice(0, 32);
}

async function build(bundle: Bundle): Promise<{ code: string }> {
  const workflows = join(root, 'workflows');
  return bundleWorkflowCode({
    workflowsPath: join(workflows, 'index.ts'),
    workflowInterceptorModules: interceptors[bundle].map((file) => join(workflows, file)),
    failureConverterPath: join(workflows, 'failure-converter.ts'),
    logger: new DefaultLogger('ERROR'),
    // A fifth faster than a development bundle. Minified, workflow types would lose their names.
    webpackConfigHook: (config) => ({
      ...config,
      mode: 'production',
      optimization: { ...config.optimization, minimize: false },
      module: {
        ...config.module,
        rules: (config.module?.rules ?? []).map((rule) => (isOfSwc(rule) ? forNode(rule) : rule)),
      },
    }),
  });
}

/** The bundler's rule for TypeScript. */
interface SwcRule {
  readonly use: { readonly loader: string; readonly options: { readonly jsc: object } };
}

function isOfSwc(rule: unknown): rule is SwcRule {
  return z.object({ use: z.object({ loader: z.string(), options: z.object({ jsc: z.object() }) }) }).safeParse(rule)
    .success;
}

/** It compiles for engines of 2017. Without the helpers that these need, workflows take an eighth less CPU. */
function forNode({ use, ...rule }: SwcRule) {
  const { jsc, ...options } = use.options;
  return { ...rule, use: { ...use, options: { ...options, jsc: { ...jsc, target: 'es2023' } } } };
}

async function keep(file: string, code: string): Promise<void> {
  const unfinished = `${file}.${randomUUID()}`;
  await mkdir(folder, { recursive: true });
  try {
    await writeFile(unfinished, code);
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
}
