import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { personFlags } from './flag-groups.ts';
import { accountOf } from './kubeconfig.ts';
import { parseOptions } from './options.ts';

it.each([
  [{ targetKubeconfig: 'inClusterConfig' }, 'Pod', 'Pod'],
  [{ controlKubeconfig: 'inClusterConfig', targetKubeconfig: '/k' }, 'Pod', 'kubeconfig'],
  [{ controlKubeconfig: '/k', targetKubeconfig: 'inClusterConfig' }, 'kubeconfig', 'Pod'],
  [{ kubeconfig: '/k' }, 'kubeconfig', 'kubeconfig'],
])(
  'with %j the control cluster knows the account of the %s, and the target cluster that of the %s',
  (given, control, target) => {
    const options = parseOptions(personFlags, given, {});

    expect(accountOf('control', options)).toBe(`the account of the ${control}`);
    expect(accountOf('target', options)).toBe(`the account of the ${target}`);
  },
);

it('names the variable and the flag that everybody has, where no kubeconfig is given', async () => {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const run = promisify(execFile)(process.execPath, [main, 'get', 'machines'], { env: { HOME: '/nowhere' } });
  await expect(run).rejects.toMatchObject({
    code: 1,
    stderr: 'no kubeconfig is given, and there is no /nowhere/.kube/config: set KUBECONFIG, or give --kubeconfig\n',
  });
});
