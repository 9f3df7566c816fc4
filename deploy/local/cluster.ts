import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { stringify } from 'yaml';
import { freePort } from './ports.ts';
import type { ServerHandle, StartServer } from './process.ts';

/** One Kubernetes API. */
export interface Cluster {
  /** Path of a kubeconfig of a user in the group `system:masters`. */
  readonly kubeconfig: string;
  /** `https://127.0.0.1:<port>` */
  readonly url: string;
  readonly apiServer: ServerHandle;
  readonly controllerManager: ServerHandle | undefined;
  /** Audit log, if the server writes one: an `audit.k8s.io/v1` Event in JSON per line and answered request. */
  readonly auditLog: string | undefined;
}

export interface ClusterOptions {
  /** Name of the cluster in its kubeconfig, and its prefix in etcd. */
  readonly name: string;
  readonly dir: string;
  readonly etcdPort: number;
  /** Program of kube-apiserver. */
  readonly apiServer: string;
  /** Program of kube-controller-manager. Left out: none is started. */
  readonly controllerManager: string | undefined;
  /** Whether the API server writes a line for each request to `auditLog`. */
  readonly isAudited: boolean;
}

/** Controllers that work without nodes and service accounts. */
const controllers = [
  'garbage-collector-controller',
  'namespace-controller',
  'disruption-controller',
  'replicaset-controller',
  'deployment-controller',
];

/** Starts an API server on an etcd and, if asked, a controller manager. Resolves when both are ready. */
export async function startCluster(
  start: StartServer,
  { name, dir, etcdPort, isAudited, ...programs }: ClusterOptions,
): Promise<Cluster> {
  await mkdir(dir, { recursive: true });
  const token = randomBytes(16).toString('hex');
  const tokenFile = join(dir, 'tokens.csv');
  await writeFile(tokenFile, `${token},admin,admin,system:masters\n`, { mode: 0o600 });
  const keyFile = await ensureServiceAccountKey(dir);
  const port = await freePort();
  const url = `https://127.0.0.1:${port}`;
  const certFile = join(dir, 'apiserver.crt'); // the API server creates it when it is missing
  const auditLog = isAudited ? join(dir, 'audit.log') : undefined;

  const apiServer = await start({
    name: `kube-apiserver of ${name}`,
    executable: programs.apiServer,
    args: [
      ...['--bind-address=127.0.0.1', `--secure-port=${port}`, `--cert-dir=${dir}`],
      // The advertised address must not depend on the network of the machine. Nobody uses the `kubernetes` Service.
      ...['--advertise-address=127.0.0.1', '--endpoint-reconciler-type=none'],
      ...[`--etcd-servers=http://127.0.0.1:${etcdPort}`, `--etcd-prefix=/${name}`],
      ...[`--token-auth-file=${tokenFile}`, '--authorization-mode=RBAC'],
      ...['--service-cluster-ip-range=10.0.0.0/24', '--allow-privileged', '--profiling=false'],
      // No controllers and kubelets here that would fulfil what these three wait for.
      '--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection',
      // Tokens of service accounts can still be requested.
      ...[`--service-account-issuer=${url}`, `--service-account-key-file=${keyFile}`],
      `--service-account-signing-key-file=${keyFile}`,
      ...(auditLog === undefined ? [] : await auditFlags(dir, auditLog)),
    ],
    logFile: join(dir, 'kube-apiserver.log'),
    ready: () => isReady(`${url}/readyz`, certFile, token),
  });
  const kubeconfig = join(dir, 'kubeconfig');
  await writeFile(kubeconfig, kubeconfigText(name, url, token, await authorityOf(certFile)), { mode: 0o600 });
  return {
    kubeconfig,
    url,
    apiServer,
    auditLog,
    controllerManager:
      programs.controllerManager === undefined
        ? undefined
        : await startControllerManager(start, programs.controllerManager, name, dir, kubeconfig),
  };
}

/** Requests without their bodies. */
async function auditFlags(dir: string, auditLog: string): Promise<string[]> {
  const policyFile = join(dir, 'audit-policy.yaml');
  const omitStages = ['RequestReceived', 'ResponseStarted'];
  const policy = { apiVersion: 'audit.k8s.io/v1', kind: 'Policy', omitStages, rules: [{ level: 'Metadata' }] };
  await writeFile(policyFile, stringify(policy));
  // In one file: otherwise another one begins after 100 MB, which are some thousand machines.
  return [`--audit-policy-file=${policyFile}`, `--audit-log-path=${auditLog}`, '--audit-log-maxsize=10000'];
}

async function startControllerManager(
  start: StartServer,
  executable: string,
  name: string,
  dir: string,
  kubeconfig: string,
): Promise<ServerHandle> {
  const port = await freePort();
  return start({
    name: `kube-controller-manager of ${name}`,
    executable,
    args: [
      ...[`--kubeconfig=${kubeconfig}`, `--controllers=${controllers.join(',')}`, '--leader-elect=false'],
      ...['--bind-address=127.0.0.1', `--secure-port=${port}`, `--cert-dir=${dir}`, '--profiling=false'],
      '--authorization-always-allow-paths=/healthz',
    ],
    logFile: join(dir, 'kube-controller-manager.log'),
    ready: () => isReady(`https://127.0.0.1:${port}/healthz`, join(dir, 'kube-controller-manager.crt')),
  });
}

async function isReady(url: string, certFile: string, token?: string): Promise<boolean> {
  const dispatcher = new Agent({ connect: { ca: await authorityOf(certFile) } });
  try {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const { statusCode, body } = await request(url, { dispatcher, headers });
    await body.dump();
    return statusCode === 200;
  } finally {
    await dispatcher.destroy();
  }
}

/** The self-signed CA certificate, which Kubernetes servers write after their own certificate. */
async function authorityOf(certFile: string): Promise<string> {
  const certificates = (await readFile(certFile, 'utf8')).split(/(?=-----BEGIN)/);
  const authority = certificates[1];
  if (!authority) throw new Error(`${certFile} has no second certificate`);
  return authority;
}

async function ensureServiceAccountKey(dir: string): Promise<string> {
  const file = join(dir, 'service-account.key');
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    await writeFile(file, privateKey.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 });
  }
  return file;
}

function kubeconfigText(name: string, server: string, token: string, authority: string): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority-data': Buffer.from(authority).toString('base64') } }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name, context: { cluster: name, user: 'admin' } }],
    'current-context': name,
  });
}
