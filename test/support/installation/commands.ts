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
  const servers = ['-n', namespace, '--temporal-address', temporalAddress, '--target-kubeconfig', targetKubeconfig];
  return {
    /** Runs a command of `millwright` for this installation to its end. */
    async command(...args: readonly string[]): Promise<CommandOutcome> {
      const { exited, logs } = startProcess([...args, ...servers]);
      const { code } = await exited;
      return { code, output: logs() };
    },
  };
}
