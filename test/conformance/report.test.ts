import { describe, expect, it } from '@jest/globals';
import { caseLines, exitCodeOf, totalsLine, unprovenLines } from './report.ts';
import type { CaseResult } from './run-cases.ts';

const ok: CaseResult = { title: 'create', state: 'ok', promise: 'It makes one.', section: 'ensureVm', seconds: 1 };
const notRun: CaseResult = {
  ...ok,
  title: 'lost answer',
  state: 'not run',
  why: 'needs a cloud',
  promise: 'It finds it.',
};
const failed: CaseResult = {
  ...ok,
  state: 'failed',
  why: 'there is no VM',
  calls: ['ensureVm {}: a', 'listVms {}: b'],
};
const of = (...results: CaseResult[]) => [{ provider: 'acme', results }];

describe('the report of a run', () => {
  it('is a pass only if every case has passed', () => {
    expect([of(ok), of(ok, notRun), of(notRun, failed)].map(exitCodeOf)).toEqual([0, 3, 1]);
  });

  it('says what is not known about a provider of which a case was not run', () => {
    expect(unprovenLines(of(ok))).toEqual([]);
    expect(unprovenLines(of(ok, notRun))).toEqual([
      'It is not known whether acme keeps these promises, because their cases were not run:',
      '  lost answer: It finds it.',
      '',
    ]);
    expect(totalsLine(of(ok, notRun))).toBe('1 passed, 0 failed, 1 not run');
  });

  it('shows of a case that has failed what was promised and seen, the calls, and where to read more', () => {
    expect(caseLines(failed).split('\n').slice(1)).toEqual([
      '           contract  It makes one.',
      '           seen      there is no VM',
      '           calls     ensureVm {}: a',
      '                     listVms {}: b',
      '           see       docs/providers.md, "ensureVm"',
    ]);
  });
});
