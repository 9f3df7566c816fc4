import { visible } from './terminal.ts';

/**
 * Rows as aligned columns, two spaces between them: one line per row, without trailing spaces. Control characters are
 * made visible.
 */
export function columns(given: readonly (readonly string[])[]): string[] {
  const rows = given.map((row) => row.map(visible));
  const widths: number[] = [];
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
