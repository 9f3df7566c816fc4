import { describeCommand } from './commands/describe/command.ts';
import { replayCommand } from './commands/replay/command.ts';
import { rolloutCommand } from './commands/rollout/command.ts';
import { controllersCommand, runCommand, workerCommand } from './commands/serve/command.ts';
import { sweepCommand } from './commands/sweep/command.ts';

/** The commands of `millwright`, in the order of the help. */
export const commands = [
  runCommand,
  controllersCommand,
  workerCommand,
  describeCommand,
  rolloutCommand,
  replayCommand,
  sweepCommand,
] as const;
