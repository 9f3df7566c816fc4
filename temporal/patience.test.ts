import { describe, expect, it } from '@jest/globals';
import { recordingLogger } from '../test/support/kube.ts';
import { grpcCodes, TemporalAwayError } from './connection.ts';
import { untilTemporalAnswers } from './patience.ts';

describe('untilTemporalAnswers', () => {
  it('tries again and again while Temporal is away, and logs that once in 30 s', async () => {
    const logger = recordingLogger();
    let attempts = 0;
    const attempt = async () => {
      attempts += 1;
      if (attempts % 2 === 0) throw Object.assign(new Error('no connection'), { code: grpcCodes.unavailable });
      if (attempts < 9) throw new TemporalAwayError('Temporal does not answer at temporal:7233');
      return 'there';
    };

    expect(await untilTemporalAnswers(attempt, { logger, retryEveryMs: 1 })).toBe('there');
    expect(attempts).toBe(9);
    const fields = { reason: 'Temporal does not answer at temporal:7233', waitedSeconds: 0 };
    expect(logger.lines).toEqual([{ level: 'warn', fields, message: 'waiting for Temporal' }]);
  });

  it('rejects at once with what a wait does not help against', async () => {
    const refused = new Error('there is no such namespace');
    const attempt = () => Promise.reject(refused);

    await expect(untilTemporalAnswers(attempt, { logger: recordingLogger() })).rejects.toBe(refused);
  });

  it('ends when the process ends', async () => {
    const ending = new AbortController();
    const attempt = async () => {
      ending.abort();
      throw new TemporalAwayError('away');
    };
    const waiting = untilTemporalAnswers(attempt, { logger: recordingLogger(), stopping: ending.signal });

    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
  });
});
