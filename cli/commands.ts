import { controllersCommand } from './controllers.ts';
import { runCommand } from './run.ts';
import { workerCommand } from './worker.ts';

/** The commands of `millwright`, in the order of the help. */
export const commands = [runCommand, controllersCommand, workerCommand] as const;
