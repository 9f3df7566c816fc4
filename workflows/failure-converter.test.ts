import { expect, it } from '@jest/globals';
import {
  ActivityFailure,
  ApplicationFailure,
  defaultFailureConverter,
  defaultPayloadConverter,
} from '@temporalio/common';
import { failureConverter } from './failure-converter.ts';

const toFailure = (error: unknown) => failureConverter!.errorToFailure(error, defaultPayloadConverter);
const toError = (failure: ReturnType<typeof toFailure>) =>
  defaultFailureConverter.failureToError(failure, defaultPayloadConverter);

it('has the message and the stack trace of a failure and of its causes in payloads, and its type in plain text', () => {
  const cause = ApplicationFailure.create({ type: 'ResourceExhausted', message: 'no room for node-17' });
  const failure = toFailure(ApplicationFailure.create({ type: 'Unavailable', message: 'node-17 waits', cause }));

  expect(JSON.stringify(failure, (key, value) => (key === 'encodedAttributes' ? undefined : value))).not.toContain(
    'node-17',
  );
  expect(failure).toMatchObject({
    message: 'Encoded failure',
    stackTrace: '',
    applicationFailureInfo: { type: 'Unavailable' },
    cause: { message: 'Encoded failure', stackTrace: '', applicationFailureInfo: { type: 'ResourceExhausted' } },
  });
  expect(toError(failure)).toMatchObject({ message: 'node-17 waits', cause: { message: 'no room for node-17' } });
});

it('also encodes a cause that a program without this converter has written', () => {
  const plain = defaultFailureConverter.errorToFailure(new Error('about node-17'), defaultPayloadConverter);
  const received = toError({
    message: 'activity failed',
    activityFailureInfo: { activityType: { name: 'ensureVm' } },
    cause: plain,
  });
  expect(received).toBeInstanceOf(ActivityFailure);
  const failure = toFailure(received);

  expect(failure.cause).toMatchObject({ message: 'Encoded failure', stackTrace: '' });
  expect(toError(failure)).toMatchObject({ message: 'activity failed', cause: { message: 'about node-17' } });
});

it('gives an error that it converts twice the same message', () => {
  const received = toError(toFailure(ApplicationFailure.create({ message: 'node-17 waits' })));

  expect([toFailure(received), toFailure(received)].map((failure) => toError(failure).message)).toEqual([
    'node-17 waits',
    'node-17 waits',
  ]);
});
