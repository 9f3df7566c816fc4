/**
 * A client for keystone v3, and for the requests to nova, neutron, glance and cinder that a machine controller needs.
 * It imports nothing of Millwright.
 */
import { computeKind, createCompute } from './compute.ts';
import { createHttp, type TlsOptions } from './http.ts';
import { type Credentials, createTokens } from './identity.ts';
import { createImages, imageKind } from './image.ts';
import { createNetwork, networkKind } from './network.ts';
import { createService, type Place, type ServiceKind } from './service.ts';
import { createVolumes, volumeKind } from './volume.ts';

export type { NewServer, Server } from './compute.ts';
export { NoAnswerError, NotInCatalogueError, OpenstackError } from './errors.ts';
export type { TlsOptions } from './http.ts';
export type { Credentials, NameOrId } from './identity.ts';
export type { NewPort, Port } from './network.ts';
export type { Page, Query } from './service.ts';
export type { NewVolume, Volume } from './volume.ts';

export interface OpenstackOptions {
  /** URL of keystone, with or without `/v3`. */
  readonly authUrl: string;
  readonly credentials: Credentials;
  readonly region: string;
  /** Which endpoints of the catalogue are used. Default: public. */
  readonly interface?: Place['interface'];
  readonly tls?: TlsOptions;
  /** How long a request may take. Default: 30 000. */
  readonly timeoutMs?: number;
  /** Called with each token that keystone gives, for who has to keep it secret. */
  readonly onToken?: (token: string) => void;
}

export type Openstack = ReturnType<typeof createOpenstack>;

/**
 * Makes a client, and sends nothing. The first request gets a token, which is replaced before it expires or when a
 * service refuses it. Every function takes a signal and throws OpenstackError, NoAnswerError or NotInCatalogueError.
 */
export function createOpenstack({
  authUrl,
  credentials,
  region,
  tls = {},
  timeoutMs = 30_000,
  ...more
}: OpenstackOptions) {
  const http = createHttp(tls, timeoutMs);
  const tokens = createTokens(http, authUrl, credentials, more.onToken);
  const place = { region, interface: more.interface ?? 'public' };
  const service = (kind: ServiceKind) => createService(http, tokens, place, kind);
  return {
    compute: createCompute(service(computeKind)),
    network: createNetwork(service(networkKind)),
    image: createImages(service(imageKind)),
    volume: createVolumes(service(volumeKind)),
    /** ID of the project that the token is for. */
    projectId: async (signal: AbortSignal): Promise<string> => (await tokens.get(signal)).projectId,
  };
}
