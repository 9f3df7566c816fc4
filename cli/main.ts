#!/usr/bin/env node
/** The command `millwright`. */
import './node-version.ts';
import { keepCompiledCode } from './compile-cache.ts';

keepCompiledCode();
const [, , first, ...words] = process.argv;
const { commands } = await import('./commands.ts');
// What the script of `millwright completion` asks at each Tab.
if (first === '__complete') {
  const { complete } = await import('./completion/complete.ts');
  await complete(commands, words);
  process.exit(); // a server that does not answer keeps no shell waiting
} else {
  const { runProgram } = await import('./program.ts');
  process.exit(await runProgram('millwright', commands));
}
