/** The log of a process. */
import { type DestinationStream, type Logger, type LoggerOptions, pino, stdSerializers } from 'pino';
import pretty from 'pino-pretty';
import { createTokenBucket, type TokenBucket } from '../kube/rate-limit.ts';
import type { Options } from './options.ts';

type LoggerFlags = Options<'logLevel' | 'logFormat'>;

/**
 * Logs to standard output: pretty on a terminal, JSON lines else. Messages are static; what they are about is in fields
 * that are called the same everywhere: `cluster namespace machine uid node providerID phase err`. Above level debug an
 * outage that thousands of calls run into takes few lines: see `fewWarnings`.
 */
export function createLogger(flags: LoggerFlags, destination: DestinationStream = standardOutput(flags)): Logger {
  const { logLevel } = flags;
  const options = {
    level: logLevel,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: serializeError },
    ...(logLevel !== 'debug' && { hooks: fewWarnings() }),
  };
  return pino(options, destination);
}

/** Synchronous: what is logged last, before a process ends, is what one wants to read. */
function standardOutput({ logFormat }: LoggerFlags): DestinationStream {
  const format = logFormat ?? (process.stdout.isTTY ? 'pretty' : 'json');
  return format === 'json' ? pino.destination({ sync: true }) : pretty({ sync: true });
}

/** Of each message that warns, so many lines at once, and then one each time these seconds have passed. */
const burst = 3;
const secondsPerLine = 10;
/** Ours are static and few, those of a library may not be. */
const mostMessages = 1_000;

/** Leaves warnings out that say what was just said; the next one tells in `leftOut` how many those were. */
function fewWarnings(): NonNullable<LoggerOptions['hooks']> {
  const said = new Map<string, { readonly bucket: TokenBucket; leftOut: number }>();
  return {
    logMethod(args, method, level) {
      const [fields, message]: unknown[] = args;
      if (level !== pino.levels.values.warn || typeof message !== 'string') return method.apply(this, args);
      if (said.size >= mostMessages) said.clear();
      const before = said.get(message) ?? { bucket: createTokenBucket(1 / secondsPerLine, burst), leftOut: 0 };
      said.set(message, before);
      const nowMs = performance.now();
      if (before.bucket.waitMs(nowMs) > 0) {
        before.leftOut++;
        return;
      }
      before.bucket.reserve(nowMs);
      const { leftOut } = before;
      before.leftOut = 0;
      method.call(this, leftOut === 0 ? fields : Object.assign({}, fields, { leftOut }), message);
    },
  };
}

/** Errors that tell of somebody else: the place where we heard of it says nothing about them. */
const fromOutside = new Set(['ConnectionError', 'StatusError', 'RateLimitError', 'ServiceError', 'ApplicationFailure']);

function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  if (!fromOutside.has(error.name)) return stdSerializers.errWithCause(error);
  const { name: type, message, cause } = error;
  const isTold = !(cause instanceof Error) || message.includes(cause.message);
  return { type, message: isTold ? message : `${message}: ${cause.message}` };
}
