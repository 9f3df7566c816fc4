/** A simulated cloud in the process of a test: a process for each would cost a third of a second of CPU more. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import { readFlags } from '../../deploy/local/cloud-process.ts';
import {
  adminOf,
  type CloudAdmin,
  flagsOf,
  type SimulatedCloudOptions,
} from '../../deploy/local/simulated-cloud/admin.ts';
import { cloudFlags, serveCloud } from '../../deploy/local/simulated-cloud/cloud.ts';

/** Resolves when it serves. Its log is beside its state. */
export async function serveSimulatedCloud(
  options: SimulatedCloudOptions,
): Promise<CloudAdmin & { stop(): Promise<void> }> {
  await mkdir(options.dir, { recursive: true });
  const logger = pino(pino.destination({ dest: join(options.dir, 'log'), sync: true }));
  const { url, stop } = await serveCloud(readFlags(cloudFlags, ['token'], flagsOf(options)), logger);
  return { ...adminOf(url), stop };
}
