/** `millwright codec-server`: serves until a signal ends it. */
import { once } from 'node:events';
import { createCodec } from '../../../temporal/codec.ts';
import { readCodecKeys } from '../../data-converter.ts';
import { type Options, UsageError } from '../../options.ts';
import { complain, say } from '../../terminal.ts';
import { startCodecServer } from './server.ts';

/** Throws UsageError where there are no usable keys, and an Error that names the flag where it cannot listen. */
export async function serveCodec(
  options: Options<'temporalCodecKeys' | 'temporalUi' | 'codecPort' | 'allowedHosts'>,
): Promise<void> {
  const { temporalCodecKeys: folder, temporalUi, codecPort: port, allowedHosts } = options;
  if (folder === undefined) throw new UsageError('--temporal-codec-keys is missing: give the folder with the keys');
  const codec = createCodec(
    () => readCodecKeys(folder),
    (error) => complain(`the old keys stay in use: ${error instanceof Error ? error.message : String(error)}`),
  );
  const origin = temporalUi === undefined ? undefined : new URL(temporalUi).origin;
  const server = await startCodecServer({ codec, port, origin, allowedHosts });
  say(`serving ${server.url}`);
  await Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
  await server.close();
}
