/** The Temporal server that the flags name, and where they do not, what the `temporal` CLI would use. */
import { readFileSync } from 'node:fs';
import { type ClientConfigProfile, loadClientConfigProfile } from '@temporalio/envconfig';
import type { TemporalServer } from '../temporal/connection.ts';
import type { temporalFlags } from './flag-groups.ts';
import { flags } from './flags.ts';
import { type Options, UsageError } from './options.ts';

type TemporalOptions = Options<(typeof temporalFlags)[number]>;
type ConfigData = NonNullable<NonNullable<ClientConfigProfile['tls']>['clientCert']>;

const defaults = { address: '127.0.0.1:7233', namespace: 'default' };

/** Addresses from which nothing leaves the host, or the Pod. */
const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\]):/i;

/**
 * Reads the configuration file of Temporal and the files that it or the flags name, so it finds changed ones. Throws
 * UsageError when the configuration cannot be used or sends an API key in clear text, and the error of node:fs when a file cannot be read.
 */
export function temporalServer(options: TemporalOptions, env: NodeJS.ProcessEnv = process.env): TemporalServer {
  const { temporalTlsServerName, temporalApiKeyFile } = options;
  const profile = readProfile(options, env);
  const address = options.temporalAddress ?? profile.address ?? defaults.address;
  if (!flags.temporalAddress.schema.safeParse(address).success) {
    throw new UsageError(`the address of ${nameOf(options)} is '${address}': give host:port, without a scheme`);
  }
  const ca = pem(options.temporalTlsCa, profile.tls?.serverCACert);
  const crt = pem(options.temporalTlsCert, profile.tls?.clientCert);
  const key = pem(options.temporalTlsKey, profile.tls?.clientKey);
  const serverName = temporalTlsServerName ?? profile.tls?.serverName;
  const ownKey = (temporalApiKeyFile && readFileSync(temporalApiKeyFile, 'utf8').trim()) || options.temporalApiKey;
  const apiKey = ownKey || profile.apiKey;
  const isOff = options.temporalTls === undefined ? profile.tls?.disabled : !options.temporalTls;
  const isNamed = [profile.tls, ca, crt, serverName, apiKey].some((given) => given !== undefined);
  const isEncrypted = isOff === undefined ? isNamed : !isOff;
  const metadata = profile.grpcMeta as Record<string, string> | undefined;
  const hasKey = apiKey !== undefined || metadata?.['authorization'] !== undefined;
  if (hasKey && !isEncrypted && !loopback.test(address)) {
    const sources = `--temporal-api-key-file, MILLWRIGHT_TEMPORAL_API_KEY, TEMPORAL_API_KEY, or ${nameOf(options)}`;
    throw new UsageError(
      `TLS to ${address} is off, and the API key for Temporal would be sent in clear text: give --temporal-tls=true, ` +
        `or no API key (${sources})`,
    );
  }
  return {
    address,
    namespace: options.temporalNamespace ?? profile.namespace ?? defaults.namespace,
    ...(apiKey !== undefined && { apiKey }),
    ...(metadata && { metadata }),
    tls: isEncrypted && {
      ...(ca && { ca }),
      ...(crt && key && { client: { crt, key } }),
      ...(serverName !== undefined && { serverName }),
    },
  };
}

/** With the variables TEMPORAL_*, which win over the file. An empty variable counts as unset. */
function readProfile(options: TemporalOptions, env: NodeJS.ProcessEnv): ClientConfigProfile {
  const { temporalConfigFile, temporalProfile: profile } = options;
  const given = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && (entry[1] !== '' || entry[0].includes('GRPC_META')),
  );
  const overrideEnvVars = {
    ...Object.fromEntries(given),
    ...(temporalConfigFile !== undefined && { TEMPORAL_CONFIG_FILE: temporalConfigFile }),
  };
  try {
    return loadClientConfigProfile({ overrideEnvVars, ...(profile !== undefined && { profile }) });
  } catch (cause) {
    // The SDK cannot read a file without any profile, such as an empty one, which `temporal` takes as none.
    const hasNone = cause instanceof TypeError && cause.message.endsWith(`(reading '${profile ?? 'default'}')`);
    if (hasNone && profile === undefined) return loadClientConfigProfile({ overrideEnvVars, disableFile: true });
    const problem = hasNone ? 'it has no profile' : cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(
      `${nameOf(options)} cannot be used (${problem}): correct it, --temporal-profile or --temporal-config-file`,
      { cause },
    );
  }
}

function nameOf({ temporalConfigFile, temporalProfile = 'default' }: TemporalOptions): string {
  return `profile '${temporalProfile}' of Temporal's configuration file${temporalConfigFile ? ` ${temporalConfigFile}` : ''}`;
}

function pem(path: string | undefined, configured: ConfigData | undefined): Buffer | undefined {
  if (path !== undefined) return readFileSync(path);
  if (configured === undefined) return undefined;
  return 'path' in configured ? readFileSync(configured.path) : Buffer.from(configured.data);
}
