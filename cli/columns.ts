import { visible } from './terminal.ts';

/**
 * Rows as aligned columns, two spaces between them: one line per row, without trailing spaces. Control characters are
 * made visible.
 * @param widths of the columns of rows that are printed already; they grow
 */
export function columns(given: readonly (readonly string[])[], widths: number[] = []): string[] {
  const rows = given.map((row) => row.map(visible));
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
