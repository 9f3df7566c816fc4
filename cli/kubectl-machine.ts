#!/usr/bin/env node
/**
 * The plugin `kubectl machine`: the commands that are no servers. A directory of PATH has to have it as
 * `kubectl-machine`.
 */
import './node-version.ts';
import { keepCompiledCode } from './compile-cache.ts';

keepCompiledCode();
const [{ toolCommands }, { runProgram }] = await Promise.all([import('./commands.ts'), import('./program.ts')]);
process.exit(await runProgram('kubectl machine', toolCommands));
