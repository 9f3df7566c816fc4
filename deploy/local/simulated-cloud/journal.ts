import { existsSync, mkdirSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/**
 * An append-only file of JSON lines. Every entry is written before `append` returns, so it survives `kill -9` of the
 * process (not a power cut).
 */
export interface Journal<E> {
  append(entry: E): void;
}

/** Opens `journal.jsonl` in the folder `directory`, made when missing, and replays what it holds, oldest first. */
export function openJournal<E>(directory: string, replay: (entry: E) => void): Journal<E> {
  mkdirSync(directory, { recursive: true });
  const path = join(directory, 'journal.jsonl');
  if (existsSync(path)) {
    const text = readFileSync(path, 'utf8');
    const end = text.lastIndexOf('\n') + 1;
    // A write that the kill cut in two has had no answer, so it did not happen.
    if (end < text.length) truncateSync(path, Buffer.byteLength(text.slice(0, end)));
    for (const line of text.slice(0, end).split('\n')) if (line !== '') replay(JSON.parse(line));
  }
  const file = openSync(path, 'a');
  return { append: (entry) => writeSync(file, `${JSON.stringify(entry)}\n`) };
}
