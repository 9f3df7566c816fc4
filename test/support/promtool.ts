/** Prometheus' own checks and query engine. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { findServer } from '../../deploy/local/servers.ts';

/**
 * A time series, with its values as https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/ has
 * them.
 */
export interface InputSeries {
  readonly series: string;
  readonly values: string;
}

/** A test in the file format of `promtool test rules`. */
export interface RuleTest {
  readonly name: string;
  readonly interval: string;
  readonly input_series: readonly InputSeries[];
  readonly alert_rule_test?: readonly object[];
  readonly promql_expr_test?: readonly object[];
}

/** Has promtool check a file of rules. Throws an Error with what it says. */
export async function checkRules(rules: string): Promise<void> {
  await withFile(rules, (file) => run('check', 'rules', '--lint=all', '--lint-fatal', file));
}

/** Has promtool run tests, those of alerts with the rules of a file. Throws an Error with what it says. */
export async function testRules(tests: readonly RuleTest[], rules?: string): Promise<void> {
  const rule_files = rules === undefined ? [] : [rules];
  await withFile(stringify({ rule_files, tests }), (file) => run('test', 'rules', file));
}

/** What promtool would have otherwise in an answer to a scrape. Throws an Error where Prometheus cannot read it. */
export async function lintMetrics(text: string): Promise<string[]> {
  const child = execFile(await findServer('promtool'), ['check', 'metrics']);
  if (!child.stdin || !child.stderr) throw new Error('promtool has no pipes');
  child.stdin.end(text);
  const [[code], said] = await Promise.all([once(child, 'close'), readAll(child.stderr)]);
  if (code !== 0 && code !== lintFound) throw new Error(`promtool check metrics:\n${said}`);
  return said.split('\n').filter(Boolean);
}

/** What promtool exits with when it only found something to improve. */
const lintFound = 3;

async function withFile(content: string, use: (file: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'millwright-promtool-'));
  try {
    const file = join(folder, 'input.yaml');
    await writeFile(file, content);
    await use(file);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function run(...args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(await findServer('promtool'), [...args]);
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`promtool ${args.slice(0, 2).join(' ')}:\n${stdout ?? ''}${stderr ?? ''}`, { cause: error });
  }
}
