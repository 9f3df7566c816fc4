/** The provider of deploy/examples/python-provider as a process. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { ensureVenv } from '../../deploy/local/python.ts';
import { makeProviderAccount } from './provider-account.ts';

const example = fileURLToPath(new URL('../../deploy/examples/python-provider', import.meta.url));

/** A Python with the packages of the example. Makes it at the first call in a checkout. */
export function findProviderPython(): Promise<string> {
  return ensureVenv('python-provider', join(example, 'requirements.txt'));
}

/**
 * Makes what the example needs to serve an installation, with no more than the rights it asks for. `remove` deletes its
 * files.
 */
export async function preparePythonProvider(kubeconfig: string, temporalAddress: string, installation: string) {
  const account = { name: 'millwright-provider-python', rights: join(example, 'rights.yaml') };
  const { env, remove } = await makeProviderAccount(kubeconfig, installation, account);
  return {
    program: await findProviderPython(),
    args: [join(example, 'provider.py')],
    env: { ...env, TEMPORAL_ADDRESS: temporalAddress, MILLWRIGHT_INSTALLATION: installation },
    remove,
  };
}

/** Writes a class of it for a simulated cloud, with its Secret. Answers the flags of `npm run demo`. @param cloudUrl of the cloud */
export async function writePythonClass(dir: string, cloudUrl: string): Promise<string[]> {
  const providerSpec = { endpoint: cloudUrl, region: 'here', machineType: 'small', tags: { cluster: 'demo' } };
  const documents = [
    {
      ...{ apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineClass', metadata: { name: 'small' } },
      ...{ provider: 'python', secretRef: { name: 'pool' }, providerSpec },
    },
    {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'pool' } },
      stringData: { token: 'letmein', userData: '#!/bin/sh' },
    },
  ];
  const path = join(dir, 'class.yaml');
  await writeFile(path, documents.map((each) => stringify(each)).join('---\n'));
  return ['--class', path, '--worker', `${await findProviderPython()} ${join(example, 'provider.py')}`];
}
