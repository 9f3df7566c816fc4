import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import type { Figures } from './report.ts';

const main = fileURLToPath(new URL('main.ts', import.meta.url));
let millwright: Installation | undefined;

afterEach(async () => {
  await millwright?.stop();
  millwright = undefined;
});

/** Standard output of a bench, which has to end well. */
async function bench(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [main, ...args]);
  return stdout;
}

/** Of each measurement. */
async function figuresOf(...args: string[]): Promise<Figures[]> {
  const stdout = await bench(...args, '--json');
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Figures);
}

describe('npm run bench', () => {
  it('reports for servers of its own what each of them used, and what was asked of the API server', async () => {
    const [figures, ...more] = await figuresOf('create', '3');
    const { scenario, machines, wallSeconds, processes, requests, historyEvents } = figures!;

    expect({ scenario, machines, more }).toEqual({ scenario: 'create', machines: 3, more: [] });
    expect(wallSeconds).toBeGreaterThan(1); // a node takes that long to join
    const used = Object.entries(processes).filter(([, { cpuSeconds, endMiB }]) => cpuSeconds > 0 && endMiB > 0);
    expect(Object.fromEntries(used)).toEqual(processes);
    expect(Object.keys(processes).toSorted()).toEqual(
      ['Millwright', 'Temporal', 'bench', 'etcd', 'kube-apiserver', 'simulated cloud'].toSorted(),
    );
    expect(requests?.byKind).toMatchObject({ 'create machines': 3, 'patch nodes': 3 });
    expect(requests?.events).toBeGreaterThanOrEqual(6);
    expect(historyEvents?.machines).toBeGreaterThan(3 * 10);
    expect(historyEvents?.owners).toBeGreaterThan(0);
  });

  it('measures workers in processes of their own, and a minute of rest, in which nothing is written', async () => {
    const all = await figuresOf('create', '2', '--workers', '2', '--rest');

    expect(all.map(({ scenario }) => scenario)).toEqual(['create', 'idle']);
    const [created, idle] = all;
    expect(Object.keys(created!.processes).slice(0, 3)).toEqual(['controllers', 'worker 1', 'worker 2']);
    expect(idle).toMatchObject({ requests: { writes: 0, events: 0 }, historyEvents: { machines: 0, owners: 0 } });
    expect(idle?.requests?.leases).toBeGreaterThan(60);
  });

  it('measures creations and drains alone, and beside drains that a budget blocks', async () => {
    const [figures] = await figuresOf('blocked-drains', '2');
    const parts = ['100 creations alone', '50 drains alone', '100 creations beside', '50 drains beside'];
    expect(Object.keys(figures?.parts ?? {})).toEqual(parts);
    expect(figures?.requests?.byKind).toMatchObject({ 'delete nodes': 100 }); // the two are still blocked
  });

  it('measures installations that one process serves, and what each further one takes', async () => {
    const tables = await bench('create', '2', '--installations', '1,2');

    expect(tables).toMatch(/^create 2 \(installations: 1\)$/m);
    expect(tables).toMatch(/^create 4 \(installations: 2\)$/m);
    expect(tables).toMatch(/^ {2}create machines +4$/m);
    expect(tables).toMatch(
      /^each further installation\n\nMillwright +-?\d+\.\d\d s of CPU, -?\d+\.\d MiB at the end$/m,
    );
  });

  it('measures whatever controller works on given objects, on servers that run already', async () => {
    millwright = await startInstallation({ alone: 'its process is measured' });
    const { cloud, namespace, processes } = millwright;
    await millwright.createClass('other');
    const table = await bench(
      ...['rolling', '2', '--foreign', '--namespace', namespace, '--classes', 'small,other'],
      ...['--kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG'), '--process', `it=${processes[0]?.pid}`],
    );

    expect(table).toMatch(/^rolling 2\n/);
    expect(table).toMatch(/^it +\d+\.\d s of CPU \(\d+\.\d ms a machine\), \d+ MiB at most, \d+ at the end$/m);
    expect((await cloud.stats()).vmsEver).toBe(4);
    expect(table).not.toContain('requests');
  });

  it.each([
    [['--kubeconfig', '/no/such/file'], 'no servers to measure on: kubeconfig /no/such/file cannot be read: '],
    [['--classes', 'a,b'], '--namespace and --classes need --kubeconfig: '],
  ])('refuses %j in one line', async (args, message) => {
    const stderr = await bench('create', '3', ...args).catch((error: { stderr: string }) => error.stderr);

    expect(stderr.startsWith(message)).toBe(true);
    expect(stderr.trimEnd()).not.toContain('\n');
  });
});
