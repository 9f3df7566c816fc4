/** The log of a process. */
import { type DestinationStream, type Logger, type LoggerOptions, pino, stdSerializers } from 'pino';
import { prettyFactory } from 'pino-pretty';
import { createTokenBucket, type TokenBucket } from '../../kube/rate-limit.ts';
import type { Options } from '../options.ts';
import { isTerminal, visible } from '../terminal.ts';

type LoggerFlags = Options<'logLevel' | 'logFormat'>;

/**
 * Logs to standard output: pretty on a terminal, else JSON lines. Messages are static. Their objects are in fields with
 * the same names everywhere: `cluster namespace machine uid node providerID phase err`. Unless the level is debug,
 * repeated warnings are left out: see `limitWarnings`.
 * @param out Default: standard output, synchronously, as the last lines before a process ends are the most important.
 */
export function createLogger(
  { logLevel, logFormat }: LoggerFlags,
  out: DestinationStream = pino.destination({ sync: true }),
): Logger {
  const isPretty = (logFormat ?? (isTerminal ? 'pretty' : 'json')) === 'pretty';
  const options = {
    level: logLevel,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: serializeError },
    ...(logLevel !== 'debug' && { hooks: limitWarnings() }),
  };
  const toText = isPretty ? prettyLines() : visible;
  return pino(options, { write: (line) => out.write(toText(line)) });
}

/** Makes JSON lines pretty. What was escaped in them is made visible before pino-pretty adds its colours. */
function prettyLines(): (line: string) => string {
  const toPretty = prettyFactory({});
  return (line) =>
    toPretty(JSON.parse(line, (_, value: unknown) => (typeof value === 'string' ? visible(value) : value)));
}

/** Lines of each kind of warning in a burst, and seconds between further lines. */
const burst = 3;
const secondsPerLine = 10;
/** Bounds the memory: messages of libraries may all differ. */
const mostKinds = 1_000;
/** Objects named in `others`. */
const mostNamed = 10;

/** Warnings with the same message and the same kind of error: an outage does not hide other warnings. */
interface Kind {
  readonly bucket: TokenBucket;
  leftOut: number;
  readonly others: Set<unknown>;
}

/**
 * Leaves out warnings that repeat a recent one. The next line of the kind has their number in `leftOut` and some of
 * their objects in `others`.
 */
function limitWarnings(): NonNullable<LoggerOptions['hooks']> {
  const kinds = new Map<string, Kind>();
  return {
    logMethod(args, method, level) {
      const [fields, message]: unknown[] = args;
      if (level !== pino.levels.values.warn || typeof message !== 'string') return method.apply(this, args);
      const { err, key, node }: { err?: unknown; key?: unknown; node?: unknown } = Object(fields);
      const id = `${message} ${err instanceof Error ? err.name : ''}`;
      if (kinds.size >= mostKinds) kinds.clear();
      const kind = kinds.get(id) ?? {
        bucket: createTokenBucket(1 / secondsPerLine, burst),
        leftOut: 0,
        others: new Set(),
      };
      kinds.set(id, kind);
      const nowMs = performance.now();
      if (kind.bucket.waitMs(nowMs) > 0) {
        kind.leftOut++;
        const object = key ?? node;
        if (object !== undefined && kind.others.size < mostNamed) kind.others.add(object);
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

/** Errors of other systems. Their stack traces in our code say nothing about the cause. */
const fromOutside = new Set(['ConnectionError', 'StatusError', 'RateLimitError', 'ServiceError', 'ApplicationFailure']);

function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  if (!fromOutside.has(error.name)) return stdSerializers.errWithCause(error);
  const { name: type, message, cause } = error;
  const hasCause = !(cause instanceof Error) || message.includes(cause.message);
  return { type, message: hasCause ? message : `${message}: ${cause.message}` };
}
