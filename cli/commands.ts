import { controllersCommand } from './commands/controllers.ts';
import { describeCommand } from './commands/describe/command.ts';
import { rolloutCommand } from './commands/rollout/command.ts';
import { runCommand } from './commands/run.ts';
import { sweepCommand } from './commands/sweep/command.ts';
import { workerCommand } from './commands/worker.ts';

/** The commands of `millwright`, in the order of the help. */
export const commands = [
  runCommand,
  controllersCommand,
  workerCommand,
  describeCommand,
  rolloutCommand,
  sweepCommand,
] as const;
