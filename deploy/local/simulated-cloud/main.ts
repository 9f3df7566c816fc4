/** The process of the simulated cloud. Prints one line of JSON, `{"url": …}`, when it serves; SIGTERM ends it. */
import { pino } from 'pino';
import { readFlags, stopOnSignal } from '../cloud-process.ts';
import { cloudFlags, serveCloud } from './cloud.ts';

const { url, stop } = await serveCloud(readFlags(cloudFlags, ['token']), pino(pino.destination(2)));
process.stdout.write(`${JSON.stringify({ url })}\n`);
stopOnSignal(stop);
