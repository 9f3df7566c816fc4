import { describe, expect, it } from '@jest/globals';
import { ServiceError } from '@temporalio/client';
import { ConnectionError } from '../../kube/errors.ts';
import { createLogger } from './logger.ts';

/** Colours what follows, in both ways that a terminal knows. */
const hostile = '\u001b[31mred \u009b31mred';

function recordingLogger(logLevel: 'debug' | 'info' = 'info') {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => lines.push(JSON.parse(line));
  return { lines, logger: createLogger({ logLevel, logFormat: 'json' }, { write }) };
}

describe('the log', () => {
  it('says what many calls warn of a few times, and then how often it has not', () => {
    const { lines, logger } = recordingLogger();
    const now = performance.now;
    try {
      for (let i = 0; i < 100; i++) logger.warn({ key: `pool-${i}` }, 'handling an object failed');
      logger.warn({ resource: 'machines' }, 'watching failed: trying again');
      performance.now = () => now.call(performance) + 10_000;
      logger.warn({ key: 'pool-100' }, 'handling an object failed');
    } finally {
      performance.now = now;
    }

    expect(lines.at(-1)?.others).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12].map((i) => `pool-${i}`));
    expect(lines.map(({ key, resource, leftOut }) => [key ?? resource, leftOut])).toEqual([
      ['pool-0', undefined],
      ['pool-1', undefined],
      ['pool-2', undefined],
      ['machines', undefined],
      ['pool-100', 97],
    ]);
  });

  it('hides no error behind one of another kind that many calls run into', () => {
    const { lines, logger } = recordingLogger();
    const outage = new ConnectionError('GET /version: refused', { cause: undefined, notSent: true });
    for (let i = 0; i < 100; i++) logger.warn({ key: `pool-${i}`, err: outage }, 'handling an object failed');
    logger.warn({ key: 'odd', err: new TypeError('x is undefined') }, 'handling an object failed');

    expect(lines.map(({ key }) => key)).toEqual(['pool-0', 'pool-1', 'pool-2', 'odd']);
  });

  it('leaves out nothing else, and at level debug nothing at all', () => {
    const { lines, logger } = recordingLogger();
    for (let i = 0; i < 10; i++) logger.info({}, 'started');
    for (let i = 0; i < 10; i++) logger.error({}, 'handling an event of the watch failed');
    const debug = recordingLogger('debug');
    for (let i = 0; i < 10; i++) debug.logger.warn({}, 'handling an object failed');

    expect(lines).toHaveLength(20);
    expect(debug.lines).toHaveLength(10);
  });

  it.each(['json', 'pretty'] as const)('shows control characters of objects and clouds: %s', (logFormat) => {
    let text = '';
    const write = (line: string) => {
      text += line;
    };
    const err = new TypeError(hostile);
    createLogger({ logLevel: 'info', logFormat }, { write }).error({ err, machine: hostile }, hostile);

    expect(text.match(/\\u001b\[31mred \\u009b31mred/g)?.length).toBeGreaterThanOrEqual(3);
    for (const escaping of ['\u001b[31m', '\u009b']) expect(text).not.toContain(escaping);
  });

  it('says what is wrong with a server without a stack, and where a bug is with one', () => {
    const { lines, logger } = recordingLogger();
    const refused = new Error('connect ECONNREFUSED 127.0.0.1:7233');
    logger.error({ err: new ServiceError('Failed to signalWithStart Workflow', { cause: refused }) }, 'a');
    logger.error(
      { err: new ConnectionError(`GET /version: ${refused.message}`, { cause: refused, notSent: true }) },
      'b',
    );
    logger.error({ err: new TypeError('x is undefined') }, 'c');

    expect(lines.map(({ err }) => err)).toEqual([
      { type: 'ServiceError', message: 'Failed to signalWithStart Workflow: connect ECONNREFUSED 127.0.0.1:7233' },
      { type: 'ConnectionError', message: 'GET /version: connect ECONNREFUSED 127.0.0.1:7233' },
      expect.objectContaining({ message: 'x is undefined', stack: expect.stringContaining('logger.test.ts') }),
    ]);
  });
});
