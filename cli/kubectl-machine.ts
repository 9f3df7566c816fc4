#!/usr/bin/env node
/** The plugin `kubectl machine`: the commands that are no servers. A directory of PATH has to have it as `kubectl-machine`. */
import './node-version.ts';
import { toolCommands } from './commands.ts';
import { runProgram } from './program.ts';

process.exit(await runProgram('kubectl machine', toolCommands));
