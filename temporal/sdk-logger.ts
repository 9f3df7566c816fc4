/** Writes the log of Temporal's SDK to our log. */
import type { LogLevel, LogMetadata, Logger as SdkLogger } from '@temporalio/common';
import type { Logger } from '../kube/logger.ts';

/** Our keys for fields of the SDK. */
const keys: Readonly<Record<string, string>> = {
  error: 'err',
  namespace: 'temporalNamespace',
};

/** Fields of the SDK that say nothing to people: other fields name the workflow, the activity and the attempt. */
const unread: readonly string[] = ['taskToken'];

/** A logger for the SDK's runtime. Messages become static; the field `component` marks them. */
export function toSdkLogger(logger: Logger): SdkLogger {
  function log(level: LogLevel, message: string, meta: LogMetadata = {}): void {
    const read = Object.entries(meta).filter(([key]) => !unread.includes(key));
    const renamed = read.map(([key, value]) => [keys[key] ?? key, value]);
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

/** Moves values from the text of a message to fields. */
function toStatic(message: string): { readonly text: string; readonly fields: object } {
  const [, call, retries] = /^gRPC call (\w+) retried (\d+) times$/.exec(message) ?? [];
  if (call !== undefined)
    return { text: 'Temporal does not answer: retrying', fields: { call, retries: Number(retries) } };
  const [, code, task, text] = /^(\[TMPRL\d+\]) (\S+:\d+:\d+) (.+)$/.exec(message) ?? [];
  return text === undefined ? { text: message, fields: {} } : { text: `${code} ${text}`, fields: { task } };
}

/** Information of the SDK is a detail: /readyz shows whether a worker runs. */
const methods = { TRACE: 'debug', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const;

/** The SDK warns about this, but a worker of a provider has only activities. */
function isExpected(message: string): boolean {
  return message === 'No workflows registered, not polling for workflow tasks';
}
