import { expect, it } from '@jest/globals';
import { deploymentEvents, machineEvents, setEvents, sourceEvents } from '../../api/events.ts';
import { eventsDoc } from './events.ts';

it('eventsDoc has every reason with its type', () => {
  const rows = eventsDoc().matchAll(/^\| `(\w+)` \| (Normal|Warning) \|/gm);

  const expected = [machineEvents, sourceEvents, setEvents, deploymentEvents].flatMap((events) =>
    Object.entries(events),
  );
  expect([...rows].map(([, reason, type]) => [reason, type])).toEqual(
    expected.map(([reason, { type }]) => [reason, type]),
  );
});
