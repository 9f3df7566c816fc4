import type { CaseResult } from './run-cases.ts';

/** Results of a provider. */
export interface ProviderResults {
  readonly provider: string;
  readonly results: readonly CaseResult[];
}

/**
 * The line of a case; of one that failed also what the contract says, what was seen, its last calls without what all
 * requests have in common, and where to read more.
 */
export function caseLines({ title, state, why, calls = [], promise, section, seconds }: CaseResult): string {
  const time = state === 'not run' ? '' : `${seconds.toFixed(1)} s`;
  const line = `  ${state.padEnd(8)} ${title.padEnd(48)} ${time.padStart(7)}`.trimEnd();
  if (state === 'ok') return line;
  if (state === 'not run') return `${line}: ${why}`;
  const more = [
    ['contract', promise],
    ['seen', why],
    ...calls.map((call, i) => [i === 0 ? 'calls' : '', call]),
    ['see', `docs/providers.md, "${section}"`],
  ];
  return [line, ...more.map(([name = '', text]) => `${' '.repeat(11)}${name.padEnd(9)} ${text}`)].join('\n');
}

/** `N passed, N failed, N not run`, of all providers together. */
export function totalsLine(all: readonly ProviderResults[]): string {
  const states = all.flatMap(({ results }) => results.map(({ state }) => state));
  const count = (wanted: CaseResult['state']) => states.filter((state) => state === wanted).length;
  return `${count('ok')} passed, ${count('failed')} failed, ${count('not run')} not run`;
}

/** What nobody knows after these runs: the promises of cases that were not run. Empty where all were. */
export function unprovenLines(all: readonly ProviderResults[]): string[] {
  const lines = all.flatMap(({ provider, results }) => {
    const open = results.filter(({ state }) => state === 'not run');
    if (open.length === 0) return [];
    const promises = open.map(({ title, promise }) => `  ${title}: ${promise}`);
    return [`It is not known whether ${provider} keeps these promises, because their cases were not run:`, ...promises];
  });
  return lines.length === 0 ? [] : [...lines, ''];
}

/** 0 if every case has passed, 1 if one has failed, else 3: one was not run, and that is no pass. */
export function exitCodeOf(all: readonly ProviderResults[]): 0 | 1 | 3 {
  const states = new Set(all.flatMap(({ results }) => results.map(({ state }) => state)));
  return states.has('failed') ? 1 : states.has('not run') ? 3 : 0;
}
