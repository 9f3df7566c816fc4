import { expect, it } from '@jest/globals';
import { changesOf, listText } from './rows.ts';

it('lists objects in columns, without those that nothing has a value for', () => {
  const nowMs = Date.parse('2026-11-23T10:10:00Z');
  const created = '2026-11-21T10:00:00Z';
  const running = { name: 'a', created, phase: 'Running', node: 'node-a', since: '2026-11-21T10:00:00Z' };
  const waiting = { name: 'b', created, phase: 'Pending', since: '2026-11-23T10:09:00Z', waitsFor: 'its Node to join' };

  expect(listText([running, waiting], nowMs).split('\n')).toEqual([
    'NAME  PHASE    NODE    FOR    WAITS FOR',
    'a     Running  node-a  2 d',
    'b     Pending          1 min  its Node to join',
  ]);
});

it('shows age and provider ID in a wide table alone', () => {
  const listed = [{ name: 'a', providerID: 'aws:///i-1', created: '2026-11-23T10:00:00Z' }];
  const nowMs = Date.parse('2026-11-23T10:05:00Z');

  expect(listText(listed, nowMs)).toBe('NAME\na');
  expect(listText(listed, nowMs, true)).toBe('NAME  AGE    PROVIDER ID\na     5 min  aws:///i-1');
});

it('tells what has changed and what is gone', () => {
  const created = '2026-11-23T10:00:00Z';
  const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name, created }));

  expect(changesOf([a!, b!], [{ ...a!, phase: 'Running' }, c!])).toEqual({
    changed: [{ ...a, phase: 'Running' }, c],
    gone: ['b'],
  });
});
