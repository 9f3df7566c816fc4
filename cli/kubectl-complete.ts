#!/usr/bin/env node
/** The program `kubectl_complete-machine`, which kubectl asks to complete a command line of its plugin. */
import './node-version.ts';
import { keepCompiledCode } from './compile-cache.ts';

keepCompiledCode();
const [{ toolCommands }, { complete }, { say }] = await Promise.all([
  import('./commands.ts'),
  import('./completion/complete.ts'),
  import('./terminal.ts'),
]);
await complete(toolCommands, process.argv.slice(2));
// As kubectl expects it of a program of cobra: no names of files besides.
say(':4');
process.exit(); // a server that does not answer keeps no shell waiting
