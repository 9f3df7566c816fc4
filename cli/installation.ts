import { Client } from '@temporalio/client';
import { connectClient, type TemporalServer } from '../temporal/connection.ts';
import type { Installation } from '../temporal/workflows.ts';
import { dataConverterOf } from './data-converter.ts';
import type { temporalFlags } from './flag-groups.ts';
import { identityOf } from './identity.ts';
import type { KubeconfigOptions } from './kubeconfig.ts';
import type { Options } from './options.ts';
import { temporalServer } from './temporal-server.ts';

/** Connects to Temporal for as long as `run` takes. Throws an Error of one line when Temporal does not answer. */
export async function withInstallation<T>(
  options: Options<'namespace' | 'installation' | (typeof temporalFlags)[number]> & KubeconfigOptions,
  run: (installation: Installation, server: TemporalServer) => Promise<T>,
): Promise<T> {
  const server = temporalServer(options);
  const connection = await connectClient(server);
  try {
    const client = new Client({
      ...{ connection, namespace: server.namespace, identity: identityOf(options) },
      dataConverter: dataConverterOf(options),
    });
    return await run({ client, name: options.installation ?? options.namespace }, server);
  } finally {
    await connection.close();
  }
}
