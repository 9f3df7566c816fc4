/** What the Secrets of a class say about credentials. */
import { createSecureContext } from 'node:tls';
import { z } from 'zod';
import type { Credentials, NameOrId, TlsOptions } from './client/index.ts';

/** Keys of Secrets, by the names that machine-controller-manager-provider-openstack knows. */
export const credentialKeys = [
  'authURL',
  'username',
  'password',
  'applicationCredentialID',
  'applicationCredentialName',
  'applicationCredentialSecret',
  'domainName',
  'domainID',
  'userDomainName',
  'userDomainID',
  'tenantName',
  'tenantID',
  'caCert',
  'clientCert',
  'clientKey',
  'insecure',
] as const;

export const secretKeys: readonly string[] = ['password', 'applicationCredentialSecret', 'clientKey'];

/** Where to log in, as whom. */
export interface OpenstackCredentials {
  readonly authUrl: string;
  readonly credentials: Credentials;
  readonly tls: TlsOptions;
}

const key = z.string().optional();
type Keys = Readonly<Partial<Record<(typeof credentialKeys)[number], string | undefined>>>;
const Keys = z.object(Object.fromEntries(credentialKeys.map((name) => [name, key]))) as unknown as z.ZodType<Keys>;

/**
 * An application credential where there is one, by its ID before its name; else a user with a password, as in MCM's
 * provider.
 */
export const OpenstackCredentials = Keys.transform((keys, context): OpenstackCredentials => {
  const problems = [...problemsOfUrl(keys), ...problemsOfTls(keys)];
  const credentials = credentialsOf(keys);
  if ('missing' in credentials) problems.push(credentials.missing);
  for (const problem of problems) context.addIssue(problem);
  if (problems.length > 0 || 'missing' in credentials) return z.NEVER;
  const { authURL: authUrl = '', caCert: ca, clientCert: cert, clientKey, insecure } = keys;
  return { authUrl, credentials, tls: { ca, cert, key: clientKey, insecure: insecure === 'true' } };
});

function credentialsOf(keys: Keys): Credentials | { readonly missing: string } {
  const { applicationCredentialID: id, applicationCredentialName: name, applicationCredentialSecret: secret } = keys;
  const { username, password } = keys;
  const domain = nameOrId(keys.domainName, keys.domainID);
  const userDomain = nameOrId(keys.userDomainName, keys.userDomainID) ?? domain;
  const kind = 'applicationCredential';
  if (id !== undefined || name !== undefined) {
    if (secret === undefined) return { missing: 'add the key applicationCredentialSecret' };
    if (id !== undefined) return { kind, id, secret };
    if (username === undefined || userDomain === undefined || name === undefined) {
      return {
        missing: 'applicationCredentialName needs the keys username and domainName, or use applicationCredentialID',
      };
    }
    return { kind, name, username, userDomain, secret };
  }
  const project = nameOrId(keys.tenantName, keys.tenantID);
  if (username === undefined || password === undefined) {
    const message =
      'no Secret has credentials: add the keys applicationCredentialID and applicationCredentialSecret, or username and password';
    return { missing: message };
  }
  if (userDomain === undefined) return { missing: 'add the key domainName or domainID' };
  if (project === undefined) return { missing: 'add the key tenantName or tenantID' };
  return { kind: 'password', username, userDomain, password, project, projectDomain: domain ?? userDomain };
}

/** The ID wins, as it is unique. */
function nameOrId(name: string | undefined, id: string | undefined): NameOrId | undefined {
  if (id !== undefined) return { id };
  return name === undefined ? undefined : { name };
}

function problemsOfUrl({ authURL }: Keys): string[] {
  if (authURL === undefined) return ['add the key authURL, the address of keystone'];
  return /^https?:\/\/[^/]/.test(authURL) && URL.canParse(authURL)
    ? []
    : ['authURL is no address: give one that begins with https:// or http://'];
}

function problemsOfTls({ caCert, clientCert, clientKey, insecure }: Keys): string[] {
  const problems = [];
  if ((clientCert === undefined) !== (clientKey === undefined))
    problems.push('give both clientCert and clientKey, or neither');
  if (insecure !== undefined && insecure !== 'true' && insecure !== 'false')
    problems.push('insecure must be true or false');
  const isRefused = (options: Parameters<typeof createSecureContext>[0]) => {
    try {
      createSecureContext(options);
      return false;
    } catch {
      return true;
    }
  };
  if (caCert !== undefined && (!caCert.includes('BEGIN CERTIFICATE') || isRefused({ ca: caCert }))) {
    problems.push('caCert has no certificate in PEM');
  }
  if (clientCert !== undefined && clientKey !== undefined && isRefused({ cert: clientCert, key: clientKey })) {
    problems.push('clientCert and clientKey are no certificate with its key in PEM');
  }
  return problems;
}
