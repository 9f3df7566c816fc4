/** The provider of deploy/examples/python-provider as a process. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ensureVenv } from '../../deploy/local/python.ts';
import { findServer } from '../../deploy/local/servers.ts';
import { loadKubeconfig } from '../../kube/config.ts';

const example = fileURLToPath(new URL('../../deploy/examples/python-provider', import.meta.url));
const run = promisify(execFile);

/** A Python with the packages of the example. Makes it at the first call in a checkout. */
export function findProviderPython(): Promise<string> {
  return ensureVenv('python-provider', join(example, 'requirements.txt'));
}

/**
 * Makes what the example needs to serve an installation, with no more than the rights it asks for. `remove` deletes its
 * files.
 */
export async function preparePythonProvider(kubeconfig: string, temporalAddress: string, installation: string) {
  const python = await findProviderPython();
  const kubectl = await findServer('kubectl');
  const asAdmin = ['--kubeconfig', kubeconfig, '--namespace', installation];
  await run(kubectl, [...asAdmin, 'apply', '-f', join(example, 'rights.yaml')]);
  const { stdout: token } = await run(kubectl, [...asAdmin, 'create', 'token', 'millwright-provider-python']);
  const access = loadKubeconfig(kubeconfig);
  const { tls } = await access.credentials();

  const dir = await mkdtemp(join(tmpdir(), 'millwright-python-'));
  const files = { token: join(dir, 'token'), ca: join(dir, 'ca.crt') };
  await writeFile(files.token, token, { mode: 0o600 });
  await writeFile(files.ca, tls.ca ?? '');
  return {
    program: python,
    args: [join(example, 'provider.py')],
    env: {
      TEMPORAL_ADDRESS: temporalAddress,
      MILLWRIGHT_INSTALLATION: installation,
      KUBERNETES_SERVER: access.server,
      KUBERNETES_TOKEN_FILE: files.token,
      KUBERNETES_CA_FILE: files.ca,
    },
    remove: () => rm(dir, { recursive: true, force: true }),
  };
}
