/**
 * A process of Millwright that is started again whenever it ends, can be frozen, and keeps how each of its runs ended.
 */
import { type Exit, type MillwrightOptions, type MillwrightProcess, startMillwright } from '../support/millwright.ts';
import { supervise } from '../support/supervised.ts';

/** The end of a run of a process. */
export interface Ending extends Exit {
  readonly process: string;
  /** RFC 3339. */
  readonly at: string;
  /** Its last lines: the SDK logs some more after the reason. */
  readonly lastLines: string;
}

/** Something that acts kill and freeze. */
export interface Victim {
  readonly name: string;
  readonly pid: number;
  kill(): Promise<void>;
  /** Resolves when it is there again after a kill. */
  comeBack(): Promise<void>;
}

export interface ChaosProcess extends Victim {
  readonly endings: readonly Ending[];
  /** What all its runs have logged. */
  logs(): string;
  stop(): Promise<void>;
}

/** Starts a process, and again whenever it has ended. Resolves when it is ready. */
export async function startChaosProcess(name: string, options: MillwrightOptions): Promise<ChaosProcess> {
  const endings: Ending[] = [];
  let current: MillwrightProcess | undefined;
  const supervised = await supervise(async () => {
    const started = await startMillwright(options);
    current = started;
    void started.exited.then((exit) => {
      const lastLines = started.logs().split('\n').slice(-50).join('\n');
      endings.push({ process: name, at: new Date().toISOString(), ...exit, lastLines });
    });
    return started;
  });
  return {
    name,
    get pid() {
      return current?.pid ?? 0;
    },
    endings,
    kill: supervised.kill,
    comeBack: async () => undefined, // it comes by itself
    logs: supervised.logs,
    stop: supervised.stop,
  };
}
