import { controllersCommand } from './controllers.ts';
import { describeCommand } from './describe.ts';
import { rolloutCommand } from './rollout.ts';
import { runCommand } from './run.ts';
import { sweepCommand } from './sweep.ts';
import { workerCommand } from './worker.ts';

/** The commands of `millwright`, in the order of the help. */
export const commands = [
  runCommand,
  controllersCommand,
  workerCommand,
  describeCommand,
  rolloutCommand,
  sweepCommand,
] as const;
