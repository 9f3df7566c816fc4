import { expect, it } from '@jest/globals';
import { listText } from './rows.ts';

it('lists objects in columns, without those that nothing has a value for', () => {
  const nowMs = Date.parse('2026-11-23T10:10:00Z');
  const running = { name: 'a', phase: 'Running', node: 'node-a', since: '2026-11-21T10:00:00Z' };
  const waiting = { name: 'b', phase: 'Pending', since: '2026-11-23T10:09:00Z', waitsFor: 'its Node to join' };

  expect(listText([running, waiting], nowMs).split('\n')).toEqual([
    'NAME  PHASE    NODE    FOR    WAITS FOR',
    'a     Running  node-a  2 d',
    'b     Pending          1 min  its Node to join',
  ]);
});
