/** The provider of deploy/examples/python-provider as a process. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findServer } from '../../deploy/local/servers.ts';
import { loadKubeconfig } from '../../kube/config.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const example = join(root, 'deploy/examples/python-provider');
const run = promisify(execFile);

/** Makes what the example needs to serve an installation, with no more than the rights it asks for. `remove` deletes its files. */
export async function preparePythonProvider(kubeconfig: string, temporalAddress: string, installation: string) {
  const python = await ensurePython();
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

/** A Python with what the example requires, made once for each requirements.txt. */
async function ensurePython(): Promise<string> {
  const requirements = join(example, 'requirements.txt');
  const hash = createHash('sha256')
    .update(await readFile(requirements))
    .digest('hex')
    .slice(0, 12);
  const cache = join(root, '.cache');
  const environment = join(cache, `python-provider-${hash}`);
  const python = join(environment, 'bin/python');
  if (existsSync(python)) return python;

  await run('python3', ['-c', 'import sys, venv; sys.exit(sys.version_info < (3, 10))']).catch((error: unknown) => {
    throw new Error('the provider needs python3 of 3.10 or newer with venv on PATH: install it', { cause: error });
  });
  await mkdir(cache, { recursive: true });
  const half = await mkdtemp(join(cache, 'python-provider-'));
  await run('python3', ['-m', 'venv', half]);
  await run(join(half, 'bin/python'), ['-m', 'pip', 'install', '--quiet', '--requirement', requirements]);
  // Another run may have been quicker: then its environment is as good.
  await rename(half, environment).catch(() => rm(half, { recursive: true }));
  return python;
}
