import { expect, it } from '@jest/globals';
import { createReminders } from './reminders.ts';

/** Numbers of the rechecks at which an object that always looks the same is told so. */
function duesOf(rechecks: number): number[] {
  const reminders = createReminders();
  return Array.from({ length: rechecks }, (_, i) => {
    const isDue = reminders.isDue('key', 'same');
    reminders.count('key', 'same');
    return isDue ? i + 1 : 0;
  }).filter((number) => number > 0);
}

it('reminds at the second recheck, then ever more seldom, and at last at every tenth', () => {
  expect(duesOf(45)).toEqual([2, 3, 5, 9, 11, 17, 21, 31, 33, 41]);
});

it('begins anew when the object looks otherwise, or was forgotten', () => {
  const reminders = createReminders();
  reminders.count('key', 'same');

  expect([reminders.isDue('key', 'same'), reminders.isDue('key', 'other'), reminders.isDue('another', 'same')]).toEqual(
    [true, false, false],
  );
  reminders.forget('key');
  expect(reminders.isDue('key', 'same')).toBe(false);
});
