/** What the Temporal UI calls a remote codec server: it gets payloads as they are stored, and answers what they say. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { PayloadCodec } from '@temporalio/common';
import { z } from 'zod';
import { payloadFromJson, payloadToJson } from '../../../temporal/decode.ts';
import { forAllowedHosts } from '../../process/allowed-hosts.ts';
import { listen } from '../../process/listen.ts';

export interface CodecServerOptions {
  readonly codec: PayloadCodec;
  /** 0: any free port. */
  readonly port: number;
  /** Origin of the pages that may read the answers, such as https://temporal.example.com. undefined: no page may. */
  readonly origin: string | undefined;
  /** Besides those that are always allowed. */
  readonly allowedHosts: readonly string[];
}

/** Bytes of a request: Temporal answers no more in one call. */
const maxBytes = 16 * 1024 * 1024;

const Payloads = z.object({
  payloads: z.array(z.object({ metadata: z.record(z.string(), z.base64()).optional(), data: z.base64().optional() })),
});

/** A request that cannot be answered, for its sender. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Serves on 127.0.0.1 until closed. Throws an Error that names the flag when it cannot listen. */
export async function startCodecServer(
  options: CodecServerOptions,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const { codec, port, origin: allowed } = options;

  async function answer(request: IncomingMessage): Promise<object> {
    const { method, url = '' } = request;
    const [path] = url.split('?');
    if (path !== '/decode' && path !== '/encode') throw new Refusal(404, 'only /decode and /encode are here');
    if (method !== 'POST') throw new Refusal(405, 'only POST');
    const { payloads } = await readPayloads(request);
    const given = payloads.map(payloadFromJson);
    const answered = await (path === '/decode' ? codec.decode(given) : codec.encode(given)).catch((error: unknown) => {
      throw new Refusal(400, error instanceof Error ? error.message : String(error));
    });
    return { payloads: answered.map(payloadToJson) };
  }

  const listener = forAllowedHosts(options.allowedHosts, (request, response) => {
    const { origin } = request.headers;
    if (origin !== undefined && origin !== allowed) {
      const error = `pages of ${origin} are refused: if this is the Temporal UI, start codec-server with it in --temporal-ui`;
      return send(response, 403, { error });
    }
    if (origin !== undefined) response.setHeaders(corsHeaders(origin));
    if (request.method === 'OPTIONS') return void response.writeHead(204).end();
    answer(request).then(
      (body) => send(response, 200, body),
      (error: unknown) => {
        if (!request.complete) response.setHeader('connection', 'close'); // what it still sends is not read
        send(response, error instanceof Refusal ? error.status : 500, { error: String(error) });
      },
    );
  });
  return listen(createServer(listener), { address: '127.0.0.1', port }, '--codec-port');
}

function corsHeaders(origin: string): Map<string, string> {
  return new Map([
    ['access-control-allow-origin', origin],
    ['access-control-allow-methods', 'POST'],
    // What the UI sends: the Temporal namespace, and if it is set up so, its token and cookies.
    ['access-control-allow-headers', 'authorization, content-type, x-namespace'],
    ['access-control-allow-credentials', 'true'],
    ['vary', 'origin'],
  ]);
}

async function readPayloads(request: IncomingMessage): Promise<z.output<typeof Payloads>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Refusal(413, `a request has at most ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  try {
    return Payloads.parse(JSON.parse(Buffer.concat(chunks).toString()));
  } catch {
    throw new Refusal(400, 'the body is no JSON {"payloads": [{"metadata": {…}, "data": "…"}]} with bytes in base64');
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response
    .writeHead(status, {
      ...{ 'content-type': 'application/json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' },
    })
    .end(JSON.stringify(body));
}
