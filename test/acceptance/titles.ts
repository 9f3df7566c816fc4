/** Finds the titles of tests by reading their sources, so that a checked-in document needs no test run. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CallExpression, type Expression, parseSync } from '@swc/core';

/** A test as its source has it. */
export interface TestTitle {
  /** Path from the root of the repository, with slashes. */
  readonly file: string;
  /** As jest's `fullName`: the titles of every describe around the test, then its own. `…` stands for a value. */
  readonly title: string;
}

/** The tests in every `*.test.ts` below a folder, in the order of file names and sources. */
export function findTestTitles(root: string): TestTitle[] {
  const hidden = (name: string) => name === 'node_modules' || name.startsWith('.');
  return globSync('**/*.test.ts', { cwd: root, exclude: hidden })
    .toSorted()
    .flatMap((file) => titlesIn(readFileSync(join(root, file), 'utf8')).map((title) => ({ file, title })));
}

/** The full titles of the tests in one source text. A title that is not written in its call becomes `…`. */
export function titlesIn(source: string): string[] {
  return titlesBelow(parseSync(source, { syntax: 'typescript', target: 'es2023' }), []);
}

function titlesBelow(node: unknown, describes: readonly string[]): string[] {
  if (typeof node !== 'object' || node === null) return [];
  const below = (around: readonly string[]) => Object.values(node).flatMap((child) => titlesBelow(child, around));
  if (!isCall(node)) return below(describes);

  const titles = [...describes, textOf(node.arguments[0]?.expression)];
  switch (calleeOf(node.callee)) {
    case 'describe':
      return below(titles);
    case 'it':
    case 'test':
      return [titles.join(' ')];
    default:
      return below(describes);
  }
}

function isCall(node: object): node is CallExpression {
  return 'type' in node && node.type === 'CallExpression';
}

/** `it` of `it(…)`, `it.only(…)` and `it.each(…)(…)`. */
function calleeOf(callee: CallExpression['callee']): string | undefined {
  switch (callee.type) {
    case 'Identifier':
      return callee.value;
    case 'MemberExpression':
      return calleeOf(callee.object);
    case 'CallExpression':
      return calleeOf(callee.callee);
    default:
      return undefined;
  }
}

function textOf(title: Expression | undefined): string {
  if (title?.type === 'StringLiteral') return title.value;
  if (title?.type === 'TemplateLiteral') return title.quasis.map(({ cooked }) => cooked).join('…');
  return '…';
}
