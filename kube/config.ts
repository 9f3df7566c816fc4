/** Where a cluster is and how to log in to it. */
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { delimiter, dirname, resolve } from 'node:path';
import { parse } from 'yaml';

/** What a connection needs at this moment. */
export interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: {
    readonly ca?: string | Buffer;
    readonly cert?: string | Buffer;
    readonly key?: string | Buffer;
    readonly servername?: string;
    readonly rejectUnauthorized?: boolean;
  };
}

/** Access to one cluster. Made by `loadKubeconfig`. */
export interface KubeconfigAccess {
  /** Base URL without a trailing slash; may have a path. */
  readonly server: string;
  /** Namespace of the current context or of the pod's service account. */
  readonly namespace?: string;
  /** Name of the user in the kubeconfig, or of the one that it impersonates; left out where it has none. */
  readonly user?: string;
  /**
   * Reads files again, which finds rotated ones, and runs a plugin when its credential has expired. `refused`, after a
   * 401, always runs it.
   */
  credentials(options?: { refused: boolean }): Promise<Credentials>;
}

interface Cluster {
  server: string;
  'certificate-authority'?: string;
  'certificate-authority-data'?: string;
  'insecure-skip-tls-verify'?: boolean;
  'tls-server-name'?: string;
  'proxy-url'?: string;
}

interface ExecPlugin {
  apiVersion?: string;
  command: string;
  args?: string[];
  env?: { name: string; value: string }[];
}

interface User {
  token?: string;
  tokenFile?: string;
  username?: string;
  password?: string;
  as?: string;
  'client-certificate'?: string;
  'client-certificate-data'?: string;
  'client-key'?: string;
  'client-key-data'?: string;
  exec?: ExecPlugin;
  'auth-provider'?: object;
}

interface Kubeconfig {
  'current-context'?: string;
  contexts?: { name: string; context?: { cluster: string; user?: string; namespace?: string } | null }[];
  clusters?: { name: string; cluster?: Cluster | null }[];
  users?: { name: string; user?: User | null }[];
}

/** No context of a kubeconfig is chosen, or one that it does not have. */
export class ContextError extends Error {}

const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Access through a context of a kubeconfig file, or through the service account of the pod we run in.
 * Understands certificates, tokens, token files, basic auth, impersonated users, exec plugins and auth providers.
 * Throws an Error that names file, field and fix when the file cannot be used.
 * @param paths - Several, separated as in PATH, are merged as kubectl merges them: the first one that has an entry
 * wins, and those that do not exist are left out.
 * @param contextName - Default: the current context.
 */
export function loadKubeconfig(paths: string | 'inClusterConfig', contextName?: string): KubeconfigAccess {
  if (paths === 'inClusterConfig') return loadServiceAccount();
  const configs = readKubeconfigs(paths);
  if (!configs.some(({ clusters }) => Array.isArray(clusters))) {
    throw new Error(`kubeconfig ${paths} has no clusters: give a kubeconfig of kind Config`);
  }
  const name = contextName ?? configs.find((config) => config['current-context'])?.['current-context'];
  const contexts = entriesOf(configs, 'contexts');
  const found = contexts.find((entry) => entry.name === name);
  if (found === undefined) throw new ContextError(contextProblem(paths, contexts, name));
  const context = found.context ?? { cluster: '' };
  const namedBy = <T extends { name: string }>(field: 'cluster' | 'user', list: readonly T[], wanted: string): T => {
    const entry = list.find((each) => each.name === wanted);
    if (entry !== undefined) return entry;
    const fix =
      list.length === 0
        ? `add it to ${field}s, which has no entries`
        : `give one of ${namesOf(list)}, which ${field}s has`;
    throw new Error(`kubeconfig ${paths}: in context '${name}', context.${field} is '${wanted}': ${fix}`);
  };
  const { cluster, file: clusterFile } = namedBy('cluster', entriesOf(configs, 'clusters'), context.cluster);
  const named = context.user ? namedBy('user', entriesOf(configs, 'users'), context.user) : undefined;
  const user = named?.user ?? {};
  const files = { clusterFile, userFile: named?.file ?? clusterFile };
  const access = clusterAccess(cluster ?? { server: '' }, user, files);
  const userName = user.as ?? context.user;
  return {
    ...access,
    ...(context.namespace !== undefined && { namespace: context.namespace }),
    ...(userName !== undefined && { user: userName }),
  };
}

/** Names of the contexts of kubeconfig files. Parameter and errors as of `loadKubeconfig`. */
export function contextNames(paths: string | 'inClusterConfig'): readonly string[] {
  if (paths === 'inClusterConfig') return [];
  return [...new Set(entriesOf(readKubeconfigs(paths), 'contexts').map(({ name }) => name))];
}

function readKubeconfigs(paths: string): (Kubeconfig & { readonly file: string })[] {
  const files = paths.split(delimiter).filter(Boolean);
  const present = files.filter((file) => files.length === 1 || existsSync(file));
  return (present.length > 0 ? present : files.slice(0, 1)).map((file) => ({ ...readKubeconfig(file), file }));
}

/** The entries of all files, each with its file. */
function entriesOf<F extends 'contexts' | 'clusters' | 'users'>(
  configs: readonly (Kubeconfig & { readonly file: string })[],
  field: F,
) {
  return configs.flatMap(({ file, ...config }) =>
    (config[field] ?? []).map((entry) => ({ ...(entry as NonNullable<Kubeconfig[F]>[number]), file })),
  );
}

function readKubeconfig(path: string): Kubeconfig {
  try {
    return parse(readFileSync(path, 'utf8')) ?? {};
  } catch (cause) {
    throw new Error(`kubeconfig ${path} cannot be read: give the path of a readable YAML or JSON file`, { cause });
  }
}

function namesOf(list: readonly { readonly name: string }[]): string {
  return list.map(({ name }) => name).join(', ');
}

/** @param name of a context that is not there; left out: none is chosen */
function contextProblem(paths: string, contexts: readonly { readonly name: string }[], name?: string): string {
  const problem = name === undefined ? 'is missing' : `is '${name}', which no context has as its name`;
  const quoted = `'${paths.replaceAll("'", `'\\''`)}'`;
  const fix =
    contexts.length === 0
      ? 'add a context, the file has none'
      : `run \`KUBECONFIG=${quoted} kubectl config use-context <name>\` with one of ${namesOf(contexts)}`;
  return `kubeconfig ${paths}: current-context ${problem}: ${fix}`;
}

function loadServiceAccount(): KubeconfigAccess {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
  if (!host || !port) {
    throw new Error('KUBERNETES_SERVICE_HOST is not set: outside of a pod set KUBECONFIG, or give a kubeconfig');
  }
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const cluster = { server, 'certificate-authority': `${serviceAccount}/ca.crt` };
  if (!existsSync(`${serviceAccount}/token`)) {
    throw new Error(
      'this Pod does not mount the token of its account: give a kubeconfig, or set automountServiceAccountToken',
    );
  }
  const namespace = readFileSync(`${serviceAccount}/namespace`, 'utf8').trim();
  const files = { clusterFile: `${serviceAccount}/ca.crt`, userFile: `${serviceAccount}/token` };
  return { ...clusterAccess(cluster, { tokenFile: files.userFile }, files), namespace };
}

/** @param files - Those that cluster and user come from, to which the paths in them are relative. */
function clusterAccess(
  cluster: Cluster,
  user: User,
  { clusterFile, userFile }: { readonly clusterFile: string; readonly userFile: string },
): KubeconfigAccess {
  if (!URL.canParse(cluster.server) || !/^https?:$/.test(new URL(cluster.server).protocol)) {
    throw new Error(`kubeconfig ${clusterFile}: cluster.server is '${cluster.server}': give an http or https URL`);
  }
  if (cluster['proxy-url'] !== undefined) {
    throw new Error(
      `kubeconfig ${clusterFile}: cluster.proxy-url is '${cluster['proxy-url']}': proxies are not supported`,
    );
  }
  const plugin = user.exec || user['auth-provider'] ? pluginCredentials(cluster, user) : undefined;
  const material = (source: string, file?: string, data?: string): Promise<Buffer> | Buffer | undefined => {
    if (data) return Buffer.from(data, 'base64');
    return file ? readFile(resolve(dirname(source), file)) : undefined;
  };
  return {
    server: cluster.server.replace(/\/+$/, ''),
    async credentials(options) {
      const [ca, cert, key, tokenFile, issued] = await Promise.all([
        material(clusterFile, cluster['certificate-authority'], cluster['certificate-authority-data']),
        material(userFile, user['client-certificate'], user['client-certificate-data']),
        material(userFile, user['client-key'], user['client-key-data']),
        material(userFile, user.tokenFile),
        plugin?.(options?.refused ?? false),
      ]);
      const authorization = authorizationHeader(user, tokenFile) ?? issued?.headers['Authorization'];
      return {
        headers: {
          ...(authorization && { authorization }),
          ...(user.as && { 'impersonate-user': user.as }),
        },
        tls: {
          ...(ca && { ca }),
          ...(cert && { cert }),
          ...(key && { key }),
          ...issued?.tls,
          ...(cluster['tls-server-name'] && { servername: cluster['tls-server-name'] }),
          ...(cluster['insecure-skip-tls-verify'] && { rejectUnauthorized: false }),
        },
      };
    },
  };
}

/** As client-go: a token file wins over a token. */
function authorizationHeader(user: User, tokenFile: Buffer | undefined): string | undefined {
  const token = tokenFile?.toString().trim() || user.token;
  if (token) return `Bearer ${token}`;
  if (!user.username) return undefined;
  return `Basic ${Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64')}`;
}

/**
 * Exec plugins and auth providers are left to client-node, which takes a second to import: only where they are used.
 */
function pluginCredentials(cluster: Cluster, user: User): (refused: boolean) => Promise<Credentials> {
  const info = { kind: 'ExecCredential', apiVersion: user.exec?.apiVersion, spec: { interactive: false } };
  const exec = user.exec && {
    ...user.exec,
    env: [...(user.exec.env ?? []), { name: 'KUBERNETES_EXEC_INFO', value: JSON.stringify(info) }],
  };
  const load = async () => {
    const { KubeConfig } = await import('@kubernetes/client-node');
    const config = new KubeConfig();
    config.loadFromOptions({
      clusters: [{ name: 'cluster', server: cluster.server, skipTLSVerify: true }],
      users: [{ name: 'user', exec, authProvider: user['auth-provider'] }],
      contexts: [{ name: 'context', cluster: 'cluster', user: 'user' }],
      currentContext: 'context',
    });
    return config;
  };
  let loading: ReturnType<typeof load> | undefined;
  return async (refused) => {
    // client-node keeps a credential until it expires; a new KubeConfig asks the plugin again.
    if (refused || loading === undefined) loading = load();
    const options: { headers?: Record<string, string>; cert?: string; key?: string } = {};
    await (await loading).applyToHTTPSOptions(options);
    return {
      headers: options.headers ?? {},
      tls: { ...(options.cert && { cert: options.cert }), ...(options.key && { key: options.key }) },
    };
  };
}
