import { codecServerCommand } from './commands/codec-server/command.ts';
import { describeCommand } from './commands/describe/command.ts';
import { doctorCommand } from './commands/doctor/command.ts';
import { getCommand } from './commands/get/command.ts';
import { optionsCommand } from './commands/options.ts';
import { replayCommand } from './commands/replay/command.ts';
import { rolloutCommand } from './commands/rollout/command.ts';
import { controllersCommand, runCommand, workerCommand } from './commands/serve/command.ts';
import { drainCommand, retryCommand } from './commands/signal/commands.ts';
import { stuckCommand } from './commands/stuck/command.ts';
import { sweepCommand } from './commands/sweep/command.ts';
import { timelineCommand } from './commands/timeline/command.ts';
import { uninstallCommand } from './commands/uninstall/command.ts';
import { versionCommand } from './commands/version/command.ts';
import { completionCommand } from './completion/command.ts';

/** Commands that look or act once: those of `kubectl machine`, too. */
export const toolCommands = [
  getCommand,
  describeCommand,
  stuckCommand,
  doctorCommand,
  timelineCommand,
  retryCommand,
  drainCommand,
  rolloutCommand,
  replayCommand,
  sweepCommand,
  uninstallCommand,
  versionCommand,
  optionsCommand,
] as const;

/** The commands of `millwright`, in the order of the help. */
export const commands = [
  ...[runCommand, controllersCommand, workerCommand],
  ...toolCommands,
  codecServerCommand,
  completionCommand,
] as const;
