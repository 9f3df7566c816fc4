/** The log of a process. */
import { type DestinationStream, type Logger, type LoggerOptions, pino, stdSerializers } from 'pino';
import pretty from 'pino-pretty';
import { createTokenBucket, type TokenBucket } from '../../kube/rate-limit.ts';
import type { Options } from '../options.ts';

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

/** Of each kind of warning, so many lines at once, and then one each time these seconds have passed. */
const burst = 3;
const secondsPerLine = 10;
/** Ours are few, those of a library may not be. */
const mostKinds = 1_000;
/** Objects that are named although their lines were left out. */
const mostNamed = 10;

/** Warnings with one message and one kind of error, so that an outage does not hide what else goes wrong. */
interface Kind {
  readonly bucket: TokenBucket;
  leftOut: number;
  readonly others: Set<unknown>;
}

/**
 * Leaves warnings out that say what was just said. The next one tells in `leftOut` how many those were, and in `others`
 * what some of them were about.
 */
function fewWarnings(): NonNullable<LoggerOptions['hooks']> {
  const said = new Map<string, Kind>();
  return {
    logMethod(args, method, level) {
      const [fields, message]: unknown[] = args;
      if (level !== pino.levels.values.warn || typeof message !== 'string') return method.apply(this, args);
      const { err, key, node }: { err?: unknown; key?: unknown; node?: unknown } = Object(fields);
      const id = `${message} ${err instanceof Error ? err.name : ''}`;
      if (said.size >= mostKinds) said.clear();
      const kind = said.get(id) ?? {
        bucket: createTokenBucket(1 / secondsPerLine, burst),
        leftOut: 0,
        others: new Set(),
      };
      said.set(id, kind);
      const nowMs = performance.now();
      if (kind.bucket.waitMs(nowMs) > 0) {
        kind.leftOut++;
        const about = key ?? node;
        if (about !== undefined && kind.others.size < mostNamed) kind.others.add(about);
        return;
      }
      kind.bucket.reserve(nowMs);
      const { leftOut, others } = kind;
      const more = leftOut > 0 && { leftOut, ...(others.size > 0 && { others: [...others] }) };
      method.call(this, more ? Object.assign({}, fields, more) : fields, message);
      kind.leftOut = 0;
      others.clear();
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
