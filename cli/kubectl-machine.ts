#!/usr/bin/env node
/**
 * The plugin `kubectl machine`: the commands that are no servers, with kubeconfig and namespace of kubectl. A directory of PATH
 * has to have it as `kubectl-machine`.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { loadKubeconfig } from '../kube/config.ts';
import { toolCommands } from './commands.ts';
import { envOf } from './options.ts';
import { runProgram } from './program.ts';

// As kubectl. The flags and their variables take precedence.
const given = envOf('targetKubeconfig').find((name) => process.env[name]);
if (given === undefined) process.env['KUBECONFIG'] = join(homedir(), '.kube/config');
for (const name of envOf('namespace')) process.env[name] ??= namespaceOf(process.env[given ?? 'KUBECONFIG'] ?? '');

/** Namespace of the current context. A kubeconfig that cannot be read is reported by the command. */
function namespaceOf(kubeconfig: string): string {
  try {
    return loadKubeconfig(kubeconfig).namespace ?? 'default';
  } catch {
    return 'default';
  }
}

process.exit(await runProgram('kubectl machine', toolCommands));
