/** A client for OpenStack's APIs that the counterpart itself uses. */
import { request } from 'undici';

/** Who asks, and in which project. */
export interface Login {
  /** Of keystone, without `/v3`. */
  readonly identityUrl: string;
  readonly username: string;
  readonly password: string;
  readonly project: string;
}

/** A request that OpenStack has refused. */
export class Refused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export type Api = Awaited<ReturnType<typeof logIn>>;

/** Logs in, again whenever the token has expired. Users and projects are in the domain Default. */
export async function logIn({ identityUrl, username, password, project }: Login) {
  const domain = { id: 'default' };
  const auth = {
    identity: { methods: ['password'], password: { user: { name: username, domain, password } } },
    scope: { project: { name: project, domain } },
  };
  let token = await newToken();

  async function newToken() {
    const { statusCode, headers, body } = await request(`${identityUrl}/v3/auth/tokens`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ auth }),
    });
    const text = await body.text();
    if (statusCode >= 300) throw new Refused(statusCode, `login of ${username}: ${statusCode} ${text}`);
    const { user, project } = JSON.parse(text).token;
    return { value: String(headers['x-subject-token']), userId: String(user.id), projectId: String(project.id) };
  }

  async function call<T>(
    method: 'GET' | 'PUT' | 'POST' | 'DELETE',
    url: string,
    json?: unknown,
    headers: Readonly<Record<string, string>> = {},
    isRetry = false,
  ): Promise<T> {
    const { statusCode, body } = await request(url, {
      method,
      headers: { 'x-auth-token': token.value, 'content-type': 'application/json', ...headers },
      ...(json !== undefined && { body: typeof json === 'string' ? json : JSON.stringify(json) }),
    });
    const text = await body.text();
    if (statusCode === 401 && !isRetry) {
      token = await newToken();
      return call(method, url, json, headers, true);
    }
    if (statusCode >= 300) throw new Refused(statusCode, `${method} ${url}: ${statusCode} ${text}`);
    return JSON.parse(text || 'null');
  }

  return { userId: token.userId, projectId: token.projectId, call };
}
