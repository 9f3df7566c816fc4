import { expect, it } from '@jest/globals';
import type { EventRecord } from '../kube/events.ts';
import { recordingLogger } from '../test/support/kube.ts';
import { createOrderActivities } from './orders.ts';

it('an order is in the log and in an Event of its object, with the command and who has run it', async () => {
  const recorded: EventRecord[] = [];
  const logger = recordingLogger();
  const events = { record: (event: EventRecord) => void recorded.push(event), flush: async () => undefined };
  const ref = { dialect: 'gardener', namespace: 'n', name: 'm', uid: 'u' };
  const order = { command: 'drain --force', by: 'admin at host' };

  await createOrderActivities({ events, logger }).recordOrder({ ...order, kind: 'Machine', ref });

  expect(logger.lines).toMatchObject([
    { level: 'info', message: 'a person has given an order', fields: { namespace: 'n', name: 'm', ...order } },
  ]);
  expect(recorded).toMatchObject([
    {
      regarding: { kind: 'Machine', namespace: 'n', name: 'm', uid: 'u' },
      reason: 'Ordered',
      note: '`millwright drain --force` by admin at host',
    },
  ]);
});
