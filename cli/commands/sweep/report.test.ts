import { expect, it } from '@jest/globals';
import { progressText } from './report.ts';

it('the progress of a sweep says what it does, until when, and what it has come to', () => {
  const until = new Date(2026, 0, 2, 3, 4, 5).toISOString();
  const counts = { groups: 2, listed: 1, seen: 3, candidates: 1, deleted: 0, failed: 0 };

  expect(progressText({ doing: 'waiting to look again', since: until, until, ...counts })).toBe(
    'waiting to look again, until 03:04:05; 1 of 2 class groups listed, 3 resources; 1 orphan',
  );
});
