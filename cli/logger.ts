/** The log of a process. */
import { type Logger, pino, stdSerializers } from 'pino';
import pretty from 'pino-pretty';
import type { Options } from './options.ts';

/**
 * Logs to standard output: pretty on a terminal, JSON lines else. Messages are static; what they are about is in fields
 * that are called the same everywhere: `cluster namespace machine uid node providerID phase err`.
 */
export function createLogger({ logLevel, logFormat }: Options<'logLevel' | 'logFormat'>): Logger {
  const format = logFormat ?? (process.stdout.isTTY ? 'pretty' : 'json');
  const options = {
    level: logLevel,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: stdSerializers.errWithCause },
  };
  // Synchronous: what is logged last, before a process ends, is what one wants to read.
  return format === 'json' ? pino(options, pino.destination({ sync: true })) : pino(options, pretty({ sync: true }));
}
