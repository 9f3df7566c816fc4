import { describe, expect, it, jest } from '@jest/globals';
import { recordingLogger } from '../test/support/kube.ts';
import { grpcCodes, TemporalAwayError } from './connection.ts';
import { untilTemporalAnswers } from './patience.ts';

describe('untilTemporalAnswers', () => {
  it('tries again and again while Temporal is away, and logs that every 30 s', async () => {
    let seconds = 0;
    const now = jest.spyOn(performance, 'now').mockImplementation(() => seconds * 1_000);
    const logger = recordingLogger();
    let attempts = 0;
    const attempt = async () => {
      attempts += 1;
      seconds = 10 * (attempts - 1);
      if (attempts % 2 === 0) throw Object.assign(new Error('no connection'), { code: grpcCodes.unavailable });
      if (attempts < 9) throw new TemporalAwayError('Temporal does not answer at temporal:7233');
      return 'there';
    };

    expect(await untilTemporalAnswers(attempt, { logger, retryEveryMs: 1 })).toBe('there');
    expect(attempts).toBe(9);
    now.mockRestore();
    const line = { level: 'warn', message: 'waiting for Temporal' };
    const first = { reason: 'Temporal does not answer at temporal:7233', waitedSeconds: 0 };
    expect(logger.lines).toMatchObject([
      { ...line, fields: first },
      { ...line, fields: { waitedSeconds: 30 } },
      { ...line, fields: { waitedSeconds: 60 } },
    ]);
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
