import { describe, expect, it } from '@jest/globals';
import { ApplicationFailure, asyncLocalStorage, CancelledFailure, type Context } from '@temporalio/activity';
import { parse } from 'yaml';
import { z } from 'zod';
import { failures, isFailureCode } from '../api/failures.ts';
import { ConnectionError, RateLimitError, StatusError } from '../kube/errors.ts';
import { inActivity } from '../test/support/in-activity.ts';
import { until } from '../test/support/until.ts';
import { boundary, currentCall, toFailure } from './boundary.ts';
import { hideSecret } from './providers/kit/masks.ts';
import { ProviderError } from './providers/provider.ts';

const running = new AbortController().signal;
const remote = { elapsedMs: 0, isLocal: false };

function failureOf(error: unknown, signal = running): ApplicationFailure {
  const failure = toFailure(error, signal, remote);
  if (!(failure instanceof ApplicationFailure)) throw new Error(`not an ApplicationFailure: ${failure.name}`);
  return failure;
}

describe('toFailure', () => {
  for (const code of Object.keys(failures).filter(isFailureCode)) {
    it(`makes ${code} of a provider ${failures[code].transient ? 'retryable' : 'final'}`, () => {
      const failure = failureOf(new ProviderError(code, 'the cloud says no', { cloudCode: 'No', requestId: 'r-1' }));

      expect(failure).toMatchObject({
        type: code,
        message: 'the cloud says no',
        nonRetryable: !failures[code].transient,
        details: [{ cloudCode: 'No', requestId: 'r-1' }],
      });
    });
  }

  it('hands on how long the cloud asks to wait', () => {
    const failure = failureOf(new ProviderError('Unavailable', 'throttled', { retryAfterMs: 7000 }));

    expect(failure).toMatchObject({ nextRetryDelay: 7000, nonRetryable: false, details: [{ retryAfterMs: 7000 }] });
  });

  it.each([
    ['that has lasted long', undefined, 15_000],
    ['after which the cloud asks for a long pause', 10_000, 0],
  ])('leaves it to the workflow, which shows it, to try a call again %s', (_, retryAfterMs, elapsedMs) => {
    const error = new ProviderError('Unavailable', 'throttled', { retryAfterMs });

    expect(toFailure(error, running, { elapsedMs, isLocal: false })).toMatchObject({ nonRetryable: true });
  });

  it.each([
    ['an API server', (ms: number) => new StatusError('GET /', 503, { reason: 'ServiceUnavailable' }, ms)],
    ['our own rate limit', (ms: number) => new RateLimitError(ms)],
  ])('leaves a pause of over a second that %s asks a local activity for to the workflow', (_, errorOf) => {
    const failures = [1_000, 1_001, 30_000].map((ms) => toFailure(errorOf(ms), running, { ...remote, isLocal: true }));

    expect(failures).toMatchObject([{ nonRetryable: false }, { nonRetryable: true }, { nonRetryable: true }]);
    expect(failures[2]).toMatchObject({ details: [{ retryAfterMs: 30_000 }] });
  });

  it('waits 10 s at most between two tries of a remote activity, whatever an API server asks for', () => {
    const failure = failureOf(new StatusError('GET /', 503, { reason: 'ServiceUnavailable' }, 3_600_000));

    expect(failure).toMatchObject({ nonRetryable: false, nextRetryDelay: 10_000 });
  });

  const answers = [
    [400, 'BadRequest', 'InvalidArgument'],
    [401, 'Unauthorized', 'Unauthenticated'],
    [403, 'Forbidden', 'PermissionDenied'],
    [404, 'NotFound', 'NotFound'],
    [409, 'AlreadyExists', 'AlreadyExists'],
    [409, 'Conflict', 'Aborted'],
    [422, 'Invalid', 'InvalidArgument'],
    [429, 'TooManyRequests', 'Unavailable'],
    [500, 'InternalError', 'Unknown'],
    [500, 'ServerTimeout', 'Unavailable'],
    [503, 'ServiceUnavailable', 'Unavailable'],
    [504, 'Timeout', 'DeadlineExceeded'],
  ] as const;
  for (const [status, reason, code] of answers) {
    it(`makes ${code} of ${status} ${reason} of an API server`, () => {
      const error = new StatusError('GET /api/v1/nodes/a', status, { reason, message: 'no' }, 2000);

      expect(failureOf(error)).toMatchObject({
        type: code,
        details: [{ cloudCode: reason }],
        nextRetryDelay: 2000,
        message: `GET /api/v1/nodes/a: ${status} ${reason}: no`,
      });
    });
  }

  it.each([
    ['', 'etcdserver: request timed out', 'Unavailable'],
    ['', 'rpc error: code = Unavailable desc = error reading from server: EOF', 'Unavailable'],
    ['', 'context deadline exceeded', 'Unavailable'],
    ['InternalError', 'Internal error occurred: etcdserver: leader changed', 'Unavailable'],
    ['InternalError', 'Internal error occurred: failed calling webhook "a": context deadline exceeded', 'Unknown'],
    ['', 'conversion webhook for machine.sapcloud.io/v1alpha1, Kind=Machine failed: Post "https://a": EOF', 'Unknown'],
    ['InternalError', 'Internal error occurred: failed calling webhook "a": rpc error: code = Unavailable', 'Unknown'],
  ])(
    'distinguishes an API server without its etcd from one whose webhook fails: 500 %s: %s',
    (reason, message, code) => {
      expect(failureOf(new StatusError('GET /', 500, { reason, message }))).toMatchObject({ type: code });
    },
  );

  it('makes Unavailable of an API server that does not answer and of our own rate limit', () => {
    const lost = new ConnectionError('GET /readyz: no answer', { cause: undefined, notSent: true });

    expect(failureOf(lost)).toMatchObject({ type: 'Unavailable', nonRetryable: false });
    expect(failureOf(new RateLimitError(1500))).toMatchObject({ type: 'Unavailable', nextRetryDelay: 1500 });
  });

  it('says where an API server or our own rate limit only asks for a pause, which is no outage', () => {
    const detailsOf = (error: Error) => failureOf(error).details;
    const throttled = [{ isThrottled: true }];

    expect(detailsOf(new RateLimitError(1500))).toMatchObject(throttled);
    expect(detailsOf(new StatusError('GET /', 429, { reason: 'TooManyRequests' }))).toMatchObject(throttled);
    expect(detailsOf(new StatusError('GET /', 503, { reason: 'ServiceUnavailable' }))).not.toMatchObject(throttled);
  });

  it('makes Internal with the fields of what a schema refuses, as it may be the answer to a create', () => {
    const { error } = z.object({ machine: z.object({ uid: z.string() }) }).safeParse({ machine: {} });

    expect(failureOf(error)).toMatchObject({
      type: 'Internal',
      message: expect.stringContaining('machine.uid: '),
    });
  });

  it('[invariant 8 partly] reports of an unknown error no more than its name and place', () => {
    const secret = 'canary-7f3a';
    let error: unknown;
    try {
      JSON.parse(secret);
    } catch (thrown) {
      error = thrown;
    }

    const failure = failureOf(new Error(`wrapped ${secret}`, { cause: error }));
    const others = [
      failureOf(error),
      failureOf(secret),
      failureOf(Object.assign(new Error(secret), { stack: secret })),
    ];

    expect(failure).toMatchObject({ type: 'Unknown', nonRetryable: false });
    expect(failure.message).toMatch(/^unexpected Error at .*boundary\.test\.ts/);
    for (const { message, stack, details, cause } of [failure, ...others]) {
      expect(JSON.stringify([message, stack, details, cause])).not.toContain(secret);
    }
  });

  it('says of an error that came up in a package where our own code has called it, and no path of the worker', () => {
    let error: unknown;
    try {
      parse('a: [');
    } catch (thrown) {
      error = thrown;
    }
    expect(String((error as Error).stack)).toContain('node_modules');

    const { message } = failureOf(error);

    expect(message).toMatch(/^unexpected YAMLParseError at .*activities\/boundary\.test\.ts/);
    expect(message).not.toContain('node_modules');
    expect(message).not.toContain(process.cwd());
  });

  it('shortens the message of a server', () => {
    const failure = failureOf(new StatusError('GET /', 500, { message: 'no'.repeat(2_000) }));

    expect(failure.message).toHaveLength(2_000);
  });

  it('[invariant 8 partly] hides what the activity has in hand, in details and in failures of its own, too', () => {
    const secret = 'canary-7f3a';
    const own = ApplicationFailure.create({ type: 'Unknown', message: `no ${secret}`, details: [{ of: [secret] }] });
    const refused = new ProviderError('Unavailable', `no ${secret}`, { cloudCode: `Bad-${secret}`, requestId: secret });

    const failures = inActivity({}, () => {
      hideSecret({ token: secret });
      return [failureOf(own), failureOf(refused), failureOf(new StatusError('GET /', 500, { message: secret }))];
    });

    expect(failures).toMatchObject([
      { type: 'Unknown', message: 'no (hidden)', details: [{ of: ['(hidden)'] }] },
      { type: 'Unavailable', details: [{ cloudCode: 'Bad-(hidden)', requestId: '(hidden)' }] },
      { message: 'GET /: 500: (hidden)' },
    ]);
    for (const { message, stack, details } of failures)
      expect(JSON.stringify([message, stack, details])).not.toContain(secret);
  });

  it('passes failures and cancellations that an activity made by itself', () => {
    const own = [ApplicationFailure.nonRetryable('mine', 'Mine'), new CancelledFailure('mine')];

    expect(own.map((error) => toFailure(error, running, remote))).toEqual(own);
  });

  it('makes a cancellation of what the cancelled activity aborts', () => {
    const cancel = new AbortController();
    const reason = new CancelledFailure('CANCELLED');
    cancel.abort(reason);

    expect(toFailure(new DOMException('aborted', 'AbortError'), cancel.signal, remote)).toBe(reason);
  });

  it('makes Canceled of an abort that nobody asked the activity for', () => {
    expect(failureOf(new DOMException('aborted', 'AbortError'))).toMatchObject({
      type: 'Canceled',
      nonRetryable: true,
    });
  });
});

it('[invariant 8 partly] a heartbeat hides what the activity has in hand', async () => {
  const beats: unknown[] = [];
  const info = { heartbeatTimeoutMs: 10 };
  const context = { info, cancellationSignal: running, heartbeat: (said: unknown) => beats.push(said) };
  const { execute } = boundary(context as unknown as Context).inbound;

  await asyncLocalStorage.run(context as unknown as Context, () =>
    execute({ args: [], headers: {} }, async () => {
      hideSecret({ token: 'canary-7f3a' });
      currentCall().heartbeat({ with: 'canary-7f3a' });
      await until('it has beaten', () => beats.length > 0);
    }),
  );

  expect(beats).toContainEqual({ with: '(hidden)' });
});
