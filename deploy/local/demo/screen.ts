/** The output: lines that stay and, on a terminal, a part below them that is repainted. */
export interface Screen {
  readonly isTerminal: boolean;
  print(text: string): void;
  /** Replaces the part below, up to the height of the terminal. Does nothing without a terminal. */
  paint(lines: readonly string[]): void;
  /** Removes the part below and ignores later calls. */
  close(): void;
}

export function createScreen(out: NodeJS.WriteStream): Screen {
  let painted: readonly string[] = [];
  let isClosed = false;

  /** Escape sequences that remove the painted part. */
  const erased = () => (painted.length === 0 ? '' : `\x1b[${painted.length}A\x1b[0J`);

  return {
    isTerminal: out.isTTY,
    print(text) {
      if (isClosed) return;
      out.write(`${erased()}${toLines([text, ...painted])}`);
    },
    paint(lines) {
      if (!out.isTTY || isClosed) return;
      const shown = lines.slice(0, out.rows - 1).map((line) => line.slice(0, out.columns - 1));
      const same = shown.length === painted.length && shown.every((line, i) => line === painted[i]);
      if (same) return;
      const erase = erased();
      painted = shown;
      out.write(`${erase}${toLines(shown)}`);
    },
    close() {
      out.write(erased());
      isClosed = true;
    },
  };
}

function toLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}
