/** An account in the control cluster for the process of a provider. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findServer } from '../../deploy/local/servers.ts';
import { loadKubeconfig } from '../../kube/config.ts';

const run = promisify(execFile);

interface Account {
  /** Of its ServiceAccount. */
  readonly name: string;
  /** Path of a manifest with the ServiceAccount, a Role and a RoleBinding. */
  readonly rights: string;
  /** Folder of its files. Default: that of the system for temporary files. */
  readonly dir?: string | undefined;
}

/** Makes the account. Answers the environment that says where it is; `remove` deletes the files that this names. */
export async function makeProviderAccount(kubeconfig: string, namespace: string, account: Account) {
  const { name, rights, dir: parent = tmpdir() } = account;
  const kubectl = await findServer('kubectl');
  const asAdmin = ['--kubeconfig', kubeconfig, '--namespace', namespace];
  await run(kubectl, [...asAdmin, 'apply', '-f', rights]);
  const { stdout: token } = await run(kubectl, [...asAdmin, 'create', 'token', name]);
  const { server, credentials } = loadKubeconfig(kubeconfig);
  const { ca = '' } = (await credentials()).tls;

  const dir = await mkdtemp(join(parent, 'millwright-provider-'));
  const files = { kubeconfig: join(dir, 'kubeconfig'), token: join(dir, 'token'), ca: join(dir, 'ca.crt') };
  const own = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': name },
    clusters: [{ name, cluster: { server, 'certificate-authority': files.ca } }],
    users: [{ name, user: { tokenFile: files.token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
  };
  await writeFile(files.kubeconfig, JSON.stringify(own));
  await writeFile(files.token, token, { mode: 0o600 });
  await writeFile(files.ca, ca);
  return {
    env: {
      KUBECONFIG: files.kubeconfig,
      KUBERNETES_SERVER: server,
      KUBERNETES_TOKEN_FILE: files.token,
      KUBERNETES_CA_FILE: files.ca,
    },
    remove: () => rm(dir, { recursive: true, force: true }),
  };
}
