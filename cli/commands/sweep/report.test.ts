import { expect, it } from '@jest/globals';
import type { KeptReason } from '../../../workflows/orphansweep/messages.ts';
import { approvalText, progressText, reportText } from './report.ts';

it('the progress of a sweep says what it does, until when, and what it has come to', () => {
  const until = new Date(2026, 0, 2, 3, 4, 5).toISOString();
  const counts = { groups: 2, listed: 1, seen: 3, candidates: 1, deleted: 0, failed: 0 };

  expect(progressText({ doing: 'waiting to look again', since: until, until, ...counts })).toBe(
    'waiting to look again, until 03:04:05; 1 of 2 class groups listed, 3 resources; 1 orphan',
  );
});

const orphansOf = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ key: `${i}`, named: [{ kind: 'vm', id: `cloud:///${i}`, name: '' }] }));

it('of orphans that wait it says how to keep one, and the command that deletes them', () => {
  const [a, b] = orphansOf(2);
  const several = { key: 'c', named: [...a!.named, { kind: 'nic', id: "it's", name: '' }] };
  const text = approvalText({ reasons: [], count: 2, orphans: [several, b!] }, 'n', { installation: 'blue' });
  expect(text).toMatch(
    / To keep a resource, leave its id out, and restore its Machine or remove the tags of the class .* The sweep ends by itself /,
  );
  expect(text).toMatch(
    / To delete them: millwright sweep approve cloud:\/\/\/0 'it'\\''s' cloud:\/\/\/1 -n n --installation blue$/,
  );
});

it('of many orphans that wait it names the first', () => {
  const text = approvalText({ reasons: [], count: 600, orphans: orphansOf(500) }, 'n', {});
  expect(text).toMatch(/ To delete the first 20 of 600: millwright sweep approve( cloud:\/\/\/\d+){20} -n n$/);
});

it.each([
  ['cameBack', 'was an orphan when the sweep checked first, and was none when it checked again'],
  ['seenOnce', 'became an orphan only after the first check of this sweep: the next sweep checks it again'],
  ['unattributed', 'has the tags of the class and is no VM, but no UID tag says of which Machine it is'],
] as const)('a report says of which class something is kept, and why: %s', (reason: KeptReason, why) => {
  const resources = [{ kind: 'disk', id: 'd-1', name: '' }];
  const none = { count: 0, resources: [] };
  const group = { provider: 'simulated', sources: ['small'], seen: 1, kept: [{ reason, count: 1, resources }] };
  const report = { dryRun: false, startedAt: '', endedAt: '', releasedSources: [] };
  const text = reportText({ ...report, groups: [{ ...group, deleted: none, failed: [], failedCount: 0 }] });

  expect(text).toContain(`kept disk d-1: ${why}`);
  expect(text.replaceAll(/ {2,}/g, '  ')).toContain(`simulated small  kept  1  ${why}`);
});
