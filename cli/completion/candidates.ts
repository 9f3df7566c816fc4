/** What may come next on a command line. Pure. */
import { z } from 'zod';
import type { Command } from '../command.ts';
import { type Flag, type FlagName, flags } from '../flags.ts';
import { flagOf } from '../options.ts';

/** What a shell offers: words, or names, which have to be read from the cluster, the kubeconfig or Temporal. */
export interface Candidates {
  readonly words: readonly string[];
  /** Kind of kubectl whose names are offered, namespaces among them, or contexts, or orphans that wait for approval. */
  readonly namesOf?: string;
  /** What is before each name in the word that is being typed. Default: nothing. */
  readonly prefix?: string;
}

const nothing: Candidates = { words: [] };

/**
 * @param words of the command line after the name of the program; the last one is being typed and may be empty
 */
export function candidatesFor(commands: readonly Command[], words: readonly string[]): Candidates {
  const [first = '', ...rest] = words;
  if (rest.length === 0) {
    const ofProgram = first.startsWith('-') ? ['--help', '--version'] : [...commands.map(({ name }) => name), 'help'];
    return { words: startingWith(first, ofProgram) };
  }
  const command = commands.find(({ name }) => name === first);
  if (command === undefined) return nothing;
  const typed = rest.at(-1) ?? '';
  const [, inline] = /^(--[\w-]+)=/.exec(typed) ?? [];
  if (inline !== undefined) {
    const flag = command.flags.find((name) => flagOf(name) === inline);
    const values = valuesOf(flag);
    return {
      ...namesFor(flag),
      prefix: `${inline}=`,
      words: startingWith(
        typed,
        values.map((value) => `${inline}=${value}`),
      ),
    };
  }
  const before = flagCalled(command, rest.at(-2));
  if (before !== undefined && !isSwitch(before)) {
    return { ...namesFor(before), words: startingWith(typed, valuesOf(before)) };
  }
  if (typed.startsWith('-')) {
    return { words: startingWith(typed, [...command.flags.filter(isNoVariable).map(flagOf), '--help']) };
  }
  return positional(command, positionalsOf(command, rest.slice(0, -1)), typed);
}

function positional(command: Command, given: readonly string[], typed: string): Candidates {
  const { arguments: declared = [] } = command;
  const last = declared.at(-1);
  const [label, , values = []] = declared[given.length] ?? (last?.[0].includes('...') ? last : ['', '']);
  const kindAt = declared.findIndex(([name]) => name === 'kind');
  // As in `mc/a`: the first one says that the kind is before each name.
  const [, kind] = /^([\w.]+)\//.exec(typed || (given[kindAt] ?? '')) ?? [];
  if (kind !== undefined && /^\[?(kind|machine|name)\b/.test(label)) {
    return { words: [], namesOf: kind, prefix: `${kind}/` };
  }
  if (values.length > 0) return { words: startingWith(typed, values) };
  if (/^\[?machine\b/.test(label)) return { words: [], namesOf: 'machines' };
  if (/^\[?orphan\b/.test(label)) return { words: [], namesOf: 'orphans' };
  if (!/^\[?name\b/.test(label)) return nothing;
  return { words: [], namesOf: kindAt >= 0 ? (given[kindAt] ?? '') : 'deployments' };
}

/** The words that are neither flags nor their values. */
function positionalsOf(command: Command, words: readonly string[]): string[] {
  return words.filter((word, i) => {
    const before = flagCalled(command, words[i - 1]);
    return !word.startsWith('-') && (before === undefined || isSwitch(before));
  });
}

function flagCalled(command: Command, word: string | undefined): FlagName | undefined {
  if (word === undefined || word.includes('=')) return undefined;
  return command.flags.find((name) => {
    const { short }: Flag = flags[name];
    return flagOf(name) === word || (short !== undefined && `-${short}` === word);
  });
}

function isSwitch(name: FlagName): boolean {
  return flags[name].value === 'true|false';
}

function isNoVariable(name: FlagName): boolean {
  const { envOnly }: Flag = flags[name];
  return envOnly === undefined;
}

/** Names that a flag takes. */
function namesFor(name: FlagName | undefined): Pick<Candidates, 'namesOf'> {
  if (name === 'namespace') return { namesOf: 'namespaces' };
  return name === 'context' ? { namesOf: 'contexts' } : {};
}

/** The values that a flag takes, where they are few. */
function valuesOf(name: FlagName | undefined): readonly string[] {
  if (name === undefined) return [];
  if (isSwitch(name)) return ['true', 'false'];
  const { schema }: Flag = flags[name];
  return schema instanceof z.ZodEnum ? schema.options.map(String) : [];
}

function startingWith(typed: string, words: readonly string[]): string[] {
  return words.filter((word) => word.startsWith(typed));
}
