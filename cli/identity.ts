import { hostname, userInfo } from 'node:os';
import { accessTo, type KubeconfigOptions } from './kubeconfig.ts';

/**
 * Who runs a command, as histories, Events and logs name the one who gives an order: the account and the host, and the
 * user of the kubeconfig. Nobody proves it.
 */
export function identityOf(options: KubeconfigOptions): string {
  const user = kubeconfigUser(options);
  return `${accountName()}@${hostname()}${user === undefined ? '' : ` (user ${user} of the kubeconfig)`}`;
}

function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.()}`; // has no entry in the list of accounts, as in many containers
  }
}

/** undefined: there is no kubeconfig that can be used, which some commands do without. */
function kubeconfigUser(options: KubeconfigOptions): string | undefined {
  try {
    return accessTo('control', options).user;
  } catch {
    return undefined;
  }
}
