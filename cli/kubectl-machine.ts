#!/usr/bin/env node
/**
 * The plugin `kubectl machine`: the commands that are no servers, with the kubeconfig of kubectl. A directory of PATH has to
 * have it as `kubectl-machine`.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { toolCommands } from './commands.ts';
import { envOf } from './options.ts';
import { runProgram } from './program.ts';

// As kubectl; --target-kubeconfig and its variables take precedence.
if (!envOf('targetKubeconfig').some((name) => process.env[name])) {
  process.env['KUBECONFIG'] = join(homedir(), '.kube/config');
}

process.exit(await runProgram('kubectl machine', toolCommands));
