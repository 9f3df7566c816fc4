import { startProcess } from '../millwright.ts';

/** How the commands of an installation reach its servers. */
export interface Servers {
  readonly namespace: string;
  readonly targetKubeconfig: string;
  readonly temporalAddress: string;
}

/** Output and exit code of a command that has ended. */
export interface CommandOutcome {
  readonly code: number | null;
  readonly output: string;
}

export function commandVerbs({ namespace, targetKubeconfig, temporalAddress }: Servers) {
  const temporal = ['--temporal-address', temporalAddress];
  const cluster = ['--target-kubeconfig', targetKubeconfig];
  /** Of the commands that reach one of the two alone. */
  const serversOf: Readonly<Record<string, readonly string[]>> = { get: cluster };
  return {
    /** Runs a command of `millwright` for this installation to its end. */
    async command(...args: readonly string[]): Promise<CommandOutcome> {
      const servers = serversOf[args[0] ?? ''] ?? [...temporal, ...cluster];
      const { exited, logs } = startProcess([...args, '-n', namespace, ...servers]);
      const { code } = await exited;
      return { code, output: logs() };
    },
  };
}
