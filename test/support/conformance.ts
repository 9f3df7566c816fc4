/** `npm run conformance` as a process, on the servers of the tests. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from '@jest/globals';
import { cases } from '../conformance/cases.ts';
import { fromSetup } from './installation.ts';

const main = fileURLToPath(new URL('../conformance/main.ts', import.meta.url));

/** Runs the command to its end. */
export async function conformance(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [main, ...args], { maxBuffer: 10_000_000 }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

/** Flags that name the servers of the tests. */
export function servers(): string[] {
  const [kubeconfig, address] = ['MILLWRIGHT_TEST_KUBECONFIG', 'MILLWRIGHT_TEST_TEMPORAL_ADDRESS'].map(fromSetup);
  return ['--target-kubeconfig', kubeconfig ?? '', '--temporal-address', address ?? ''];
}

/** Expects that a provider passes all cases but these, which it or its cloud cannot show: titles and reasons. */
export async function expectToPass(flags: readonly string[], ...notRun: string[]): Promise<void> {
  const { code, stdout } = await conformance(...flags, ...servers());

  expect(stdout.match(/^ {2}failed [\s\S]*?\n +see .*$/gm) ?? []).toEqual([]);
  expect(stdout.match(/(?<=not run {2}).*/g) ?? []).toEqual(notRun);
  const passed = cases.length - notRun.length;
  expect(stdout.trim().split('\n').at(-1)).toBe(`${passed} passed, 0 failed, ${notRun.length} not run`);
  expect(code).toBe(notRun.length === 0 ? 0 : 3);
}
