#!/usr/bin/env node
/** The command `millwright`. */
import './node-version.ts';
import { commands } from './commands.ts';
import { complete } from './completion/complete.ts';
import { runProgram } from './program.ts';

const [, , first, ...words] = process.argv;
// What the script of `millwright completion` asks at each Tab.
if (first === '__complete') await complete(commands, words);
else process.exit(await runProgram('millwright', commands));
