import { describe, expect, it } from '@jest/globals';
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
    / To delete them: millwright sweep approve -n n --installation blue -- cloud:\/\/\/0 'it'\\''s' cloud:\/\/\/1$/,
  );
});

it('of many orphans that wait the command names the first, and the text says what becomes of the others', () => {
  const text = approvalText({ reasons: [], count: 600, orphans: orphansOf(500) }, 'n', {});
  expect(text).toMatch(
    / To delete the first 20 of 600 and leave the others to the next sweep: millwright sweep approve -n n --( cloud:\/\/\/\d+){20}$/,
  );
});

describe('ids that a cloud has made up', () => {
  const heldAs = (...ids: string[]) => {
    const orphans = ids.map((id) => ({ key: id, named: [{ kind: 'vm', id, name: '' }] }));
    return approvalText({ reasons: [], count: ids.length, orphans }, 'n', {});
  };

  it('are no flags of the command', () => {
    expect(heldAs('--temporal-address=evil:7233', '=ls')).toMatch(
      / millwright sweep approve -n n -- --temporal-address=evil:7233 '=ls'$/,
    );
  });

  it('are left out if they have characters that nobody sees, which the text says', () => {
    expect(heldAs('a\u202eb', 'c', 'd\n')).toMatch(
      / To delete the first 1 of 3 and leave the others, 2 with invisible characters in their ids, to the next sweep: millwright sweep approve -n n -- c$/,
    );
    expect(heldAs('a\u200bb')).toMatch(/ No command is given here: the ids have invisible characters\.$/);
  });
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
