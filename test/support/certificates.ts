/** Certificate authorities that a test makes and drops. */
import { generate } from 'selfsigned';

/** A certificate with its key, both PEM. */
export interface Issued {
  readonly crt: Buffer;
  readonly key: Buffer;
}

export interface Authority {
  /** PEM */
  readonly crt: Buffer;
  /** A certificate for the host `localhost`, or for a client with this name. */
  issue(commonName: string): Promise<Issued>;
}

const options = { keyType: 'ec', algorithm: 'sha256' } as const;

export async function createAuthority(commonName: string): Promise<Authority> {
  const own = await generate(named(commonName), {
    ...options,
    extensions: [{ name: 'basicConstraints', cA: true, critical: true }],
  });
  return {
    crt: Buffer.from(own.cert),
    async issue(name) {
      const { cert, private: key } = await generate(named(name), {
        ...options,
        ca: { key: own.private, cert: own.cert },
        extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] }],
      });
      return { crt: Buffer.from(cert), key: Buffer.from(key) };
    },
  };
}

function named(value: string) {
  return [{ name: 'commonName', value }];
}
