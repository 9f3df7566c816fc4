#!/usr/bin/env node
/** The command `millwright`. */
import { commands } from './commands.ts';
import { runProgram } from './program.ts';

process.exit(await runProgram('millwright', commands));
