import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { OwnerView, SetView } from '../model/owner.ts';
import { rollingReplicas } from './rolling.ts';

/** Rows of the table on top of rolling.ts, without its head. */
function readTable(): string[][] {
  const text = readFileSync(new URL('./rolling.ts', import.meta.url), 'utf8');
  const lines = text.split('\n').filter((line) => line.startsWith(' * |'));
  return lines.slice(2).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** @param text `x/y` for a set with x machines of which y are available, `, 1 being deleted` for one more */
function toSet(name: string, text: string): SetView[] {
  const [active = 0, available = 0, leaving = 0] = (text.match(/\d+/g) ?? []).map(Number);
  if (text === 'none') return [];
  return [
    {
      ...{ name, uid: name, resourceVersion: '1', generation: 1, isNew: name === 'new', hasOurFinalizer: true },
      ...{ deleting: false, outdated: [], closed: false, failed: 0, replacing: 0, replicas: active },
      ...{ total: active + leaving, active, available, starting: active - available },
    },
  ];
}

describe('the example of a rollout in rolling.ts', () => {
  it.each(readTable())('asks, where it sees %s and %s, for %s and %s', (oldSet, newSet, oldWanted, newWanted) => {
    const sets = [...toSet('old', oldSet!), ...toSet('new', newSet!)];
    const view: OwnerView = {
      ...{ kind: 'MachineDeployment', uid: 'o', resourceVersion: '1', generation: 1, hasOurFinalizer: true },
      ...{ deleting: false, outdated: [], paused: false, template: { setName: 'new', hash: '1' }, sets },
      ...{ replicas: 3, strategy: 'RollingUpdate', maxSurge: 1, maxUnavailable: 0, countsLeaving: 'never' },
    };
    const wanted = rollingReplicas(view, sets);
    expect([wanted.get('old'), wanted.get('new') ?? wanted.get('')].map(String)).toEqual([oldWanted, newWanted]);
  });

  it('has rows', () => expect(readTable().length).toBeGreaterThan(4));
});
