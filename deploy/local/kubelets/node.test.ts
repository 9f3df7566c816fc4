import { expect, it } from '@jest/globals';
import { type Host, heartbeatOf } from './node.ts';

const host = { joinsAt: Date.parse('2026-08-18T10:00:00Z') } as Host;

it.each([
  ['when it joins', undefined, '2026-08-18T10:00:00Z'],
  ['the same while it is', { status: 'True', lastTransitionTime: '2026-08-18T11:00:00Z' }, '2026-08-18T11:00:00Z'],
  ['now when it was Unknown', { status: 'Unknown', lastTransitionTime: '2026-08-18T11:00:00Z' }, undefined],
])('a kubelet says since when it is Ready: %s', (_, before, expected) => {
  const { conditions } = heartbeatOf(host, before && [{ type: 'Ready', ...before }]);
  const ready = conditions.find(({ type }) => type === 'Ready');
  expect(ready).toMatchObject({ status: 'True', lastTransitionTime: expected ?? ready?.lastHeartbeatTime });
});
