import { Client } from '@temporalio/client';
import { connectClient, type TemporalServer } from '../temporal/connection.ts';
import type { Installation } from '../temporal/workflows.ts';
import { dataConverterOf } from './data-converter.ts';
import type { temporalFlags } from './flag-groups.ts';
import { identityOf } from './identity.ts';
import type { KubeconfigOptions } from './kubeconfig.ts';
import type { Options } from './options.ts';
import { temporalServer } from './temporal-server.ts';

type InstallationOptions = Options<'namespace' | 'installation' | (typeof temporalFlags)[number]> & KubeconfigOptions;

/** An installation at a server to which there is a connection. */
interface OpenInstallation {
  readonly installation: Installation;
  readonly server: TemporalServer;
  close(): Promise<void>;
}

/** Connects to Temporal. Throws an Error of one line when Temporal does not answer. */
export async function openInstallation(options: InstallationOptions): Promise<OpenInstallation> {
  const server = temporalServer(options);
  const connection = await connectClient(server);
  try {
    const client = new Client({
      ...{ connection, namespace: server.namespace, identity: identityOf(options) },
      dataConverter: dataConverterOf(options),
    });
    const installation = { client, name: options.installation ?? options.namespace };
    return { installation, server, close: () => connection.close() };
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** The same for as long as `run` takes. */
export async function withInstallation<T>(
  options: InstallationOptions,
  run: (installation: Installation, server: TemporalServer) => Promise<T>,
): Promise<T> {
  const { installation, server, close } = await openInstallation(options);
  try {
    return await run(installation, server);
  } finally {
    await close();
  }
}
