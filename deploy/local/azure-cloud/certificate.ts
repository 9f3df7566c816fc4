import { generate } from 'selfsigned';

/** A certificate for 127.0.0.1 that is its own authority, PEM. */
export async function makeCertificate() {
  const { cert, private: key } = await generate([{ name: 'commonName', value: '127.0.0.1' }], {
    ...({ keyType: 'ec', algorithm: 'sha256' } as const),
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] },
    ],
  });
  return { cert, key };
}
