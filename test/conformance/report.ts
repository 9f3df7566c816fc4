import type { CaseResult } from './run-cases.ts';

/** Results of a provider. */
export interface ProviderResults {
  readonly provider: string;
  readonly results: readonly CaseResult[];
}

/** The line of a case; of one that failed also what the contract says, what was seen, and where to read more. */
export function caseLines({ title, state, why, promise, section, seconds }: CaseResult): string {
  const time = state === 'not run' ? '' : `${seconds.toFixed(1)} s`;
  const line = `  ${state.padEnd(8)} ${title.padEnd(48)} ${time.padStart(7)}`.trimEnd();
  if (state === 'ok') return line;
  if (state === 'not run') return `${line}: ${why}`;
  const more = [
    ['contract', promise],
    ['seen', why],
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

export function hasFailed(all: readonly ProviderResults[]): boolean {
  return all.some(({ results }) => results.some(({ state }) => state === 'failed'));
}
