import { expect, it } from '@jest/globals';
import { classEvents, machineEvents } from '../../api/events.ts';
import { eventsDoc } from './events.ts';

it('eventsDoc has every reason with its type', () => {
  const rows = eventsDoc().matchAll(/^\| `(\w+)` \| (Normal|Warning) \|/gm);

  expect([...rows].map(([, reason, type]) => [reason, type])).toEqual(
    Object.entries({ ...machineEvents, ...classEvents }).map(([reason, { type }]) => [reason, type]),
  );
});
