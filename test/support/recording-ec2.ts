/** An endpoint of EC2 and STS that keeps the requests as they were sent, and answers what a test has said. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { keepAliveTimeout } from '../../deploy/local/keep-alive.ts';

/** A request: its action, and its parameters by the names of the EC2 Query API, as `NetworkInterface.1.SubnetId`. */
export interface SentRequest {
  readonly action: string;
  readonly params: Readonly<Record<string, string>>;
  /** Access key ID that signed it; empty for a request that is not signed. */
  readonly signedBy: string;
}

/** What it answers: the body of an answer, or an error. */
export type Ec2Answer = string | { readonly code: string; readonly message?: string; readonly status?: number };

/** Answers by action; one that is not named is answered with an empty body. */
export type Ec2Answers = Readonly<Record<string, Ec2Answer | ((params: SentRequest['params']) => Ec2Answer)>>;

export type RecordingEc2 = Awaited<ReturnType<typeof startRecordingEc2>>;

/** Starts it on a free port of this host. */
export async function startRecordingEc2() {
  const requests: SentRequest[] = [];
  let answers: Ec2Answers = {};
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { Action: action = '', ...params } = Object.fromEntries(new URLSearchParams(await text(request)));
    const signedBy = /Credential=([^/]+)/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    requests.push({ action, params, signedBy });
    const given = answers[action] ?? '';
    const answer = typeof given === 'function' ? given(params) : given;
    if (typeof answer === 'string') {
      response.end(`<${action}Response>${answer}</${action}Response>`);
      return;
    }
    const { code, message = 'no', status = 400 } = answer;
    response.writeHead(status, { 'x-amzn-requestid': 'r-1' });
    const error = `<Error><Code>${code}</Code><Message>${message}</Message></Error>`;
    const isOfSts = action === 'AssumeRoleWithWebIdentity';
    response.end(
      isOfSts ? `<ErrorResponse>${error}</ErrorResponse>` : `<Response><Errors>${error}</Errors></Response>`,
    );
  }
  const server = createServer({ keepAliveTimeout }, (request, response) => {
    serve(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    /** All so far, oldest first. */
    requests: (action?: string) => requests.filter((each) => action === undefined || each.action === action),
    /** Forgets the requests, and answers so from now on. */
    answer(next: Ec2Answers) {
      requests.length = 0;
      answers = next;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
