/** What Temporal's SDK logs, in our log. */
import type { LogLevel, LogMetadata, Logger as SdkLogger } from '@temporalio/common';
import type { Logger } from '../kube/logger.ts';

/** The SDK's fields that say what ours say, under our keys. */
const keys: Readonly<Record<string, string>> = {
  error: 'err',
  namespace: 'temporalNamespace',
};

/** A logger for the SDK's runtime. Its messages are static or made so; `component` tells them from ours. */
export function toSdkLogger(logger: Logger): SdkLogger {
  function log(level: LogLevel, message: string, meta: LogMetadata = {}): void {
    const renamed = Object.entries(meta).map(([key, value]) => [keys[key] ?? key, value]);
    const method = isExpected(message) ? 'debug' : methods[level];
    const { text, fields } = toStatic(message);
    logger[method]({ component: 'temporal', ...Object.fromEntries(renamed), ...fields }, text);
  }
  return {
    log,
    trace: (message, meta) => log('TRACE', message, meta),
    debug: (message, meta) => log('DEBUG', message, meta),
    info: (message, meta) => log('INFO', message, meta),
    warn: (message, meta) => log('WARN', message, meta),
    error: (message, meta) => log('ERROR', message, meta),
  };
}

/** The messages of the SDK that are about something say so in the text. */
function toStatic(message: string): { readonly text: string; readonly fields: object } {
  const [, call, retries] = /^gRPC call (\w+) retried (\d+) times$/.exec(message) ?? [];
  if (call !== undefined)
    return { text: 'Temporal does not answer: trying again', fields: { call, retries: Number(retries) } };
  const [, code, task, text] = /^(\[TMPRL\d+\]) (\S+:\d+:\d+) (.+)$/.exec(message) ?? [];
  return text === undefined ? { text: message, fields: {} } : { text: `${code} ${text}`, fields: { task } };
}

/** Its news are details to us: that a worker runs is what /readyz tells. */
const methods = { TRACE: 'debug', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const;

/** What the SDK takes for an oversight: a worker of a provider has activities alone. */
function isExpected(message: string): boolean {
  return message === 'No workflows registered, not polling for workflow tasks';
}
