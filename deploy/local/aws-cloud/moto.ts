import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { freePort } from '../ports.ts';
import { spawnGuarded } from '../process.ts';
import { ensureVenv } from '../python.ts';
import { type Elements, type Params, parseAnswer, Refusal } from './wire.ts';

/** The region of everything that is there from the start. */
export const region = 'eu-west-1';

export type Moto = Awaited<ReturnType<typeof startMoto>>;

/** By default moto takes any type, image and key pair, and loads hundreds of images. */
const settings = {
  MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION: 'true',
  MOTO_ENABLE_AMI_VALIDATION: 'true',
  MOTO_ENABLE_KEYPAIR_VALIDATION: 'true',
  MOTO_EC2_LOAD_DEFAULT_AMIS: 'false',
};

const program = fileURLToPath(new URL('moto_server.py', import.meta.url));

/** A Python that has moto. Makes it at the first call on a machine. */
export function findPython(): Promise<string> {
  return ensureVenv('moto', fileURLToPath(new URL('requirements.txt', import.meta.url)));
}

interface CallOptions {
  /** A region. */
  readonly in?: string | undefined;
  readonly service?: 'ec2' | 'iam';
}

/** Starts moto, which ends with this process, and resolves when it serves. Its log is standard error. */
export async function startMoto() {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  const args = [program, '-H', '127.0.0.1', '-p', String(port)];
  const child = spawnGuarded('KILL', await findPython(), args, {
    stdio: ['ignore', 2, 2],
    env: { ...process.env, ...settings },
  });
  child.once('exit', (code, signal) => {
    process.stderr.write(`moto has exited (${signal ?? code})\n`);
    process.exit(1);
  });
  while (
    !(await request(`${url}moto-api/`).then(
      ({ body }) => body.dump().then(() => true),
      () => false,
    ))
  ) {
    await sleep(25);
  }

  let last: Promise<unknown> = Promise.resolve();
  /** Sends one request after the other: moto has no locks. */
  function forward(headers: Record<string, string>, body: string): Promise<{ status: number; xml: string }> {
    const answer = last.then(async () => {
      const { statusCode, body: answered } = await request(url, { method: 'POST', headers, body });
      return { status: statusCode, xml: await answered.text() };
    });
    last = answer.catch(() => undefined);
    return answer;
  }

  return {
    /** Sends a request as it came. */
    forward,
    /** Sends a request of our own, and returns what is in the answer. Throws a Refusal. */
    async call(
      action: string,
      params: Params,
      { in: place = region, service = 'ec2' }: CallOptions = {},
    ): Promise<Elements> {
      const version = service === 'iam' ? '2010-05-08' : '2016-11-15';
      const { status, xml } = await forward(
        {
          'content-type': 'application/x-www-form-urlencoded',
          authorization: `AWS4-HMAC-SHA256 Credential=moto/20260101/${place}/${service}/aws4_request`,
        },
        new URLSearchParams({ ...params, Action: action, Version: version }).toString(),
      );
      if (status >= 300) throw toRefusal(status, xml);
      return parseAnswer(xml);
    },
  };
}

/** Errors of EC2 and of IAM are nested differently. What moto does not know at all it answers with a page of HTML. */
function toRefusal(status: number, body: string): Refusal {
  const [, code] = /<Code>([^<]*)<\/Code>/.exec(body) ?? [];
  const [, message = ''] = /<Message>([^<]*)<\/Message>/.exec(body) ?? [];
  if (code === undefined) return new Refusal(500, 'InternalError', 'moto does not know something in this request');
  return new Refusal(status, code, message);
}
