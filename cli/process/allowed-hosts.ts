/** Which hosts requests may name. */
import type { RequestListener } from 'node:http';
import { isIP } from 'node:net';

/**
 * Answers 421 to a request for another host. A page of another site may send it, if the DNS of that site gives the
 * address of this process for its name: the browser would let the page read the answer.
 * @param allowed names besides those that no public DNS knows: see `isAllowedHost`
 */
export function forAllowedHosts(allowed: readonly string[], answer: RequestListener): RequestListener {
  return (request, response) => {
    const { host } = request.headers;
    if (isAllowedHost(host, allowed)) return answer(request, response);
    const error = `requests for the host '${host}' are refused: if it leads here, start Millwright with its name in --allowed-hosts`;
    response
      .writeHead(421, { 'content-type': 'application/json', 'x-content-type-options': 'nosniff' })
      .end(`${JSON.stringify({ error })}\n`);
  };
}

/**
 * Whether the host is an IP address, such as that of a Pod, a name without a dot, such as localhost, the name of a
 * Service in a cluster, or one of `allowed`.
 * @param host with or without a port and a dot at its end; undefined: the request is not that of a browser
 */
export function isAllowedHost(host: string | undefined, allowed: readonly string[]): boolean {
  if (host === undefined) return true;
  const name = host.replace(/\.?(:\d+)?$/, '').toLowerCase();
  if (isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0) return true;
  return !name.includes('.') || /\.svc(\.cluster\.local)?$/.test(name) || allowed.includes(name);
}
