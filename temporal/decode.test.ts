import { expect, it } from '@jest/globals';
import { ApplicationFailure, defaultPayloadConverter, type Payload } from '@temporalio/common';
import { encodeErrorToFailure } from '@temporalio/common/lib/internal-non-workflow/codec-helpers.js';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { failureConverter } from '../workflows/failure-converter.ts';
import { createCodec } from './codec.ts';
import { decodeHistory } from './decode.ts';
import { readable } from './history.ts';

const codec = createCodec(() => ({ current: 'a', keys: new Map([['a', Buffer.alloc(32, 7)]]) }));
const converter = {
  payloadCodecs: [codec],
  payloadConverter: defaultPayloadConverter,
  failureConverter: failureConverter!,
};
const toPayload = (value: unknown) => defaultPayloadConverter.toPayload(value) as Payload;

/** A history with an input, and with the failure of an activity. */
async function historyOf(encrypted: boolean): Promise<string> {
  const inputs = [{ name: 'node-17' }, undefined].map(toPayload);
  const cause = ApplicationFailure.create({
    type: 'Unavailable',
    message: 'no answer for node-17',
    details: ['node-17'],
  });
  const message = 'node-17 waits';
  const failure = await encodeErrorToFailure(
    encrypted ? converter : { ...converter, payloadCodecs: [] },
    ApplicationFailure.create({ type: 'Unavailable', message, cause }),
  );
  const at = { seconds: 1, nanos: 0 };
  const json = historyToJSON({
    events: [
      {
        ...{ eventId: 1 as never, eventType: 1, eventTime: at as never },
        workflowExecutionStartedEventAttributes: {
          workflowType: { name: 'machine' },
          input: { payloads: encrypted ? await codec.encode(inputs) : inputs },
        },
      },
      {
        ...{ eventId: 2 as never, eventType: 12, eventTime: at as never },
        activityTaskFailedEventAttributes: { failure },
      },
    ],
  });
  return json;
}

it('decrypts the payloads of a history, and gives failures their messages', async () => {
  const history = await historyOf(true);
  const decoded = await decodeHistory(converter, history);
  const [started, failed] = readable(decoded);

  expect(history).not.toContain('node-17');
  expect(started).toMatchObject({
    workflowExecutionStartedEventAttributes: { input: { payloads: [{ json: { name: 'node-17' } }, {}] } },
  });
  expect(failed).toMatchObject({
    activityTaskFailedEventAttributes: {
      failure: {
        message: 'node-17 waits',
        applicationFailureInfo: { type: 'Unavailable' },
        cause: {
          message: 'no answer for node-17',
          applicationFailureInfo: { details: { payloads: [{ json: 'node-17' }] } },
        },
      },
    },
  });
  expect(JSON.stringify(failed)).not.toContain('encodedAttributes');
  expect(historyFromJSON(JSON.parse(decoded)).events).toHaveLength(2);
});

it('gives failures their messages also where nothing is encrypted', async () => {
  const decoded = await decodeHistory({}, await historyOf(false));

  expect(readable(decoded)[1]).toMatchObject({
    activityTaskFailedEventAttributes: { failure: { message: 'node-17 waits' } },
  });
});

it('leaves alone what has nothing to decode, and what is no history', async () => {
  const plain = JSON.stringify({ events: [{ eventId: '1', input: { payloads: [toPayload(1)] } }] });

  expect(await decodeHistory(converter, plain)).toBe(plain);
  expect(await decodeHistory(converter, '{ "encodedAttributes"')).toBe('{ "encodedAttributes"');
});

it('says which key is missing', async () => {
  const history = await historyOf(true);

  await expect(decodeHistory({ payloadCodecs: [createCodec()] }, history)).rejects.toThrow("the key 'a'");
});
