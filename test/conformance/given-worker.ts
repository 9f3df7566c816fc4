/** The worker of `--worker`: a program of somebody else. */
import { fileURLToPath } from 'node:url';
import { makeProviderAccount } from '../support/provider-account.ts';
import type { Servers } from './providers.ts';

const rights = fileURLToPath(new URL('rights.yaml', import.meta.url));

/**
 * Makes the account of the worker that a shell command starts. The worker finds the servers, its installation and its
 * account in its environment, which is added to `baseEnvironment`. `remove` deletes the files of the account.
 * @param dir folder of these files. Default: that of the system for temporary files
 */
export async function prepareGivenWorker(
  command: string,
  { kubeconfig, temporalAddress }: Servers,
  installation: string,
  dir?: string,
) {
  const account = { name: 'provider', rights, dir };
  const { env, remove } = await makeProviderAccount(kubeconfig, installation, account);
  const temporal = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: 'default' };
  return {
    program: 'sh',
    args: ['-c', command],
    env: { ...env, ...temporal, MILLWRIGHT_INSTALLATION: installation },
    remove,
  };
}
