/**
 * A reporter of jest that writes the costs of each test file: wall time, CPU of its process and of the processes that
 * it started, and its share of the CPU of the servers that all files share, which is divided among the files that run.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { cpuBelow } from './cpu.ts';
import { costsVariable, type FileCost, notesOf } from './table.ts';

interface Running {
  readonly since: number;
  servers: number;
}

const isWorker = (commandLine: string) => commandLine.includes('jest-worker');

export default class CostReporter {
  readonly #costs = process.env[costsVariable];
  readonly #running = new Map<string, Running>();
  readonly #done = new Map<string, { wall: number; servers: number }>();
  #servers = 0;

  onRunStart(): void {
    if (this.#costs !== undefined)
      for (const file of [this.#costs, notesOf(this.#costs)]) rmSync(file, { force: true });
    this.#servers = cpuBelow(process.pid, isWorker);
  }

  onTestFileStart({ path }: { path: string }): void {
    this.#divide();
    this.#running.set(path, { since: performance.now(), servers: 0 });
  }

  onTestFileResult({ path }: { path: string }): void {
    this.#divide();
    const running = this.#running.get(path);
    this.#running.delete(path);
    if (running) this.#done.set(path, { wall: (performance.now() - running.since) / 1000, servers: running.servers });
  }

  onRunComplete(): void {
    if (this.#costs === undefined) return;
    const notes = notesOf(this.#costs);
    if (!existsSync(notes)) return; // no file has run
    const lines = readFileSync(notes, 'utf8').trim().split('\n');
    const costs: Record<string, FileCost> = {};
    for (const line of lines) {
      const { file, own, children } = JSON.parse(line) as { file: string; own: number; children: number };
      const { wall = 0, servers = 0 } = this.#done.get(file) ?? {};
      costs[relative('.', file)] = { wall, own, children, servers };
    }
    writeFileSync(this.#costs, JSON.stringify(costs));
    rmSync(notes);
  }

  /** What the shared servers have used since the last call goes to the files that run. */
  #divide(): void {
    const now = cpuBelow(process.pid, isWorker);
    const share = Math.max(0, now - this.#servers) / Math.max(1, this.#running.size);
    this.#servers = now;
    for (const running of this.#running.values()) running.servers += share;
  }
}
