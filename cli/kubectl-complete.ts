#!/usr/bin/env node
/** The program `kubectl_complete-machine`, which kubectl asks to complete a command line of its plugin. */
import './node-version.ts';
import { toolCommands } from './commands.ts';
import { complete } from './completion/complete.ts';

await complete(toolCommands, process.argv.slice(2));
// As kubectl expects it of a program of cobra: no names of files besides.
console.log(':4');
