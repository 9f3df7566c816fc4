import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findServer } from './servers.ts';

const folder = fileURLToPath(new URL('../crds/', import.meta.url));

/** Applies deploy/crds to a cluster and waits until it serves them. Returns how many there are. */
export async function installCrds(kubeconfig: string): Promise<number> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.yaml'));
  if (files.length === 0) return 0;
  const kubectl = await findServer('kubectl');
  const run = promisify(execFile);
  await run(kubectl, ['--kubeconfig', kubeconfig, 'apply', '--server-side', '-f', folder]);
  await run(kubectl, [
    '--kubeconfig',
    kubeconfig,
    'wait',
    '--for=condition=Established',
    '--timeout=30s',
    '-f',
    folder,
  ]);
  return files.length;
}
