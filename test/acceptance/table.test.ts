import { describe, expect, it } from '@jest/globals';
import { brokenFiles, type JestResults, rowStates, rowsIn, type System, systems } from './table.ts';

function resultsOf(...tests: readonly { fullName: string; status: string }[]): JestResults {
  return { startTime: 0, testResults: [{ name: 'a.test.ts', status: 'passed', assertionResults: [...tests] }] };
}

function stateOf(results: JestResults, system: System, row: number): string | undefined {
  return rowStates(results).find((each) => each.system === system && each.row === row)?.state;
}

describe('the tables', () => {
  it.each([
    { system: 'mcm', count: 114 },
    { system: 'kubermatic', count: 122 },
    { system: 'capi', count: 90 },
  ] as const)('list rows 1 to $count of $system, each with a title of its own', ({ system, count }) => {
    const rows = systems[system];

    expect(rows.map(({ row }) => row)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
    expect(new Set(rows.map(({ title }) => title.trim())).size).toBe(count);
    expect(rows.filter(({ title }) => !/^\S.{14,}[^\s.]$/.test(title))).toEqual([]);
  });
});

describe('rowsIn', () => {
  it('finds every row that a title carries, wherever it stands', () => {
    expect(rowsIn('a machine [mcm 43] [mcm 44 partly] goes [invariant 2], as in [capi 90] and a[0]')).toEqual([
      { system: 'mcm', row: 43, partly: false },
      { system: 'mcm', row: 44, partly: true },
      { system: 'capi', row: 90, partly: false },
    ]);
  });

  it('refuses a row that the system does not have and names those that it has', () => {
    expect(() => rowsIn('[mcm 300] flies')).toThrow(
      '[mcm 300] in the test title "[mcm 300] flies" is unknown: the rows of mcm are 1 to 114',
    );
  });

  it.each([
    { what: 'row 0', tag: '[mcm 0]' },
    { what: 'several rows', tag: '[mcm 43, 44]' },
    { what: 'a range of rows', tag: '[mcm 43-45]' },
    { what: 'another word for partly', tag: '[mcm 43 mostly]' },
    { what: 'two spaces', tag: '[mcm  4]' },
    { what: 'capitals', tag: '[MCM 4]' },
    { what: 'the name of a folder', tag: '[cluster-api 4]' },
    { what: 'no row', tag: '[mcm]' },
  ])('refuses a tag with $what, which would count for nothing', ({ tag }) => {
    expect(() => rowsIn(`${tag} drains`)).toThrow('write one tag for each row, like [mcm 11]');
  });
});

describe('rowStates', () => {
  it('has every row of every system, and none is proved without a test', () => {
    const states = rowStates(resultsOf());

    expect(states).toHaveLength(114 + 122 + 90);
    expect(states.filter(({ state }) => state !== 'none')).toEqual([]);
  });

  it('calls a row passing when all tests that carry it passed', () => {
    const results = resultsOf(
      { fullName: 'machines [mcm 7] [mcm 11] are made', status: 'passed' },
      { fullName: '[mcm 11] are made once', status: 'passed' },
    );

    expect(rowStates(results).filter(({ state }) => state === 'passing')).toEqual([
      { system: 'mcm', row: 7, state: 'passing' },
      { system: 'mcm', row: 11, state: 'passing' },
    ]);
  });

  it('calls a row partly proved while no test asserts all of it', () => {
    const part = { fullName: '[mcm 43 partly] drains', status: 'passed' };

    expect(stateOf(resultsOf(part, part), 'mcm', 43)).toBe('partly');
    expect(stateOf(resultsOf(part, { fullName: '[mcm 43] goes', status: 'passed' }), 'mcm', 43)).toBe('passing');
    expect(stateOf(resultsOf(part, { fullName: '[mcm 43 partly] goes', status: 'failed' }), 'mcm', 43)).toBe('failing');
  });

  it('calls a row failing when one test that carries it failed', () => {
    const results = resultsOf(
      { fullName: '[capi 3] pauses', status: 'passed' },
      { fullName: '[capi 3] pauses again', status: 'failed' },
      { fullName: '[capi 3] pauses later', status: 'pending' },
    );

    expect(stateOf(results, 'capi', 3)).toBe('failing');
  });

  it('does not call a row passing when a test that carries it was skipped', () => {
    const results = resultsOf(
      { fullName: '[kubermatic 5] scales', status: 'passed' },
      { fullName: '[kubermatic 5] scales twice', status: 'pending' },
    );

    expect(stateOf(results, 'kubermatic', 5)).toBe('none');
  });

  it('keeps the systems apart', () => {
    const results = resultsOf({ fullName: '[mcm 5] refuses', status: 'passed' });

    expect(stateOf(results, 'kubermatic', 5)).toBe('none');
  });

  it('refuses results with an unknown row', () => {
    expect(() => rowStates(resultsOf({ fullName: '[capi 91] waits', status: 'passed' }))).toThrow('1 to 90');
  });
});

describe('brokenFiles', () => {
  it('names the files that could not be run', () => {
    const [ran] = resultsOf({ fullName: 'adds', status: 'failed' }).testResults;
    const broken = { name: 'b.test.ts', status: 'failed', assertionResults: [] };

    expect(brokenFiles({ startTime: 0, testResults: ran ? [ran, broken] : [] })).toEqual(['b.test.ts']);
  });
});
