/**
 * The names of machine-controller-manager (MCM), and the versions that write them, compared with the sources of three
 * versions.
 */
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from '@jest/globals';
import * as names from '../api/gardener/names.ts';

const versions = ['v0.60.0', 'v0.61.3', 'v0.62.1'] as const;
type Version = (typeof versions)[number];

/**
 * The words of the column *written by MCM*, with the versions in which a mark has to be. What has none is not asked
 * for.
 */
const writers: Readonly<Record<string, readonly Version[]>> = {
  all: versions,
  'from v0.61 on': ['v0.61.3', 'v0.62.1'],
  'v0.61': ['v0.61.3'],
  'from v0.62 on': ['v0.62.1'],
  'v0.63': [],
  'names; from v0.61 on `name~time`': versions,
};
/** Rows that no literal of the sources can prove, with the reason. */
const unproved: Readonly<Record<string, string>> = {
  'v0.60': 'the annotation is also in later versions, on another kind',
  'v0.62': 'a cordon has no name',
};

/** Names of `names.ts` that are not in the sources of v0.62.1, with the reason. */
const notThere: Readonly<Record<string, string>> = {
  [names.annotations.effectiveCreationTimeout]: 'v0.63',
  [names.annotations.machineJoinDuration]: 'v0.63',
  [names.taints.preserved.key]: 'v0.63',
  [names.annotations.awsPlacement]: 'of the provider AWS',
  [names.annotations.lastAppliedConfiguration]: 'a constant of k8s.io/api',
};
/** Names that MCM does not write. They are in no row of the table. */
const ofOthers: Readonly<Record<string, string>> = {
  [names.annotations.unfreeze]: 'users',
  [names.annotations.awsPlacement]: 'users',
  [names.annotations.lastAppliedConfiguration]: 'kubectl apply',
  [names.labels.name]: 'users',
  [names.labels.forceDeletion]: 'users',
  [names.labels.forceDrain]: 'users',
};

const keys: readonly string[] = [
  ...[names.annotations, names.labels, names.finalizers].flatMap((each) => Object.values(each)),
  ...Object.values(names.taints).map(({ key }) => key),
];
/** Other words of the contract that the sources have as literals. */
const words: readonly string[] = [
  ...[names.phases, names.operationTypes, names.operationStates, names.nodeConditionTypes, names.terminatingReasons],
  ...[names.inPlaceMessages, names.updateResults, names.strategies, names.orchestrationTypes, names.preserveValues],
  ...[names.machineSetConditionTypes, names.machineSetConditionReasons],
  ...[names.machineDeploymentConditionTypes, names.machineDeploymentConditionReasons],
]
  .flatMap((each: object) => Object.keys(each))
  .concat(
    [
      ...[names.preservedReasons, names.preservedMessages, names.inPlaceMessages, names.deletionSteps],
      ...[names.descriptions, names.userDataPlaceholders, names.leases],
    ].flatMap((each) => Object.values<string>(each)),
  )
  .filter((word) => word !== '');

interface Row {
  /** What stands in backticks in its first cell, without a value. */
  readonly marks: readonly string[];
  readonly writtenBy: string;
  /** What Millwright does with it. */
  readonly use: string;
}

function readDoc(name: string): string {
  return readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8');
}

/** The rows of the table of marks. */
function rowsOfPage(): Row[] {
  const page = readDoc('how-to/back-to-mcm.md');
  const [, after = ''] = page.split(/^\| mark \| written by MCM \|.*\n.*\n/m);
  const [table = ''] = after.split('\n\n');
  return table.split('\n').map((line) => {
    const [, cell = '', writtenBy = '', use = ''] = line.split('|');
    const marks = [...cell.matchAll(/`([^`:]+)(: [^`]*)?`/g)].map(([, mark = '']) => mark);
    return { marks, writtenBy: writtenBy.trim(), use };
  });
}

/** Whether a literal is the mark, which may be without its prefix, or only its beginning or end. */
function isMark(literal: string, mark: string): boolean {
  if (mark.endsWith('…')) return literal.startsWith(mark.slice(0, -1));
  if (mark.startsWith('-')) return literal.endsWith(mark);
  return literal === mark || literal.endsWith(`/${mark}`);
}

describe('MCM', () => {
  const literals = new Map<Version, ReadonlySet<string>>();

  beforeAll(async () => {
    for (const version of versions) {
      const module = `github.com/gardener/machine-controller-manager@${version}`;
      const { stdout } = await promisify(execFile)('go', ['mod', 'download', '-json', module]);
      const { Dir } = JSON.parse(stdout) as { Dir: string };
      const files = globSync('{pkg,cmd}/**/*.go', { cwd: Dir, exclude: ['pkg/test/**', '**/*_test.go'] });
      const text = files.map((file) => readFileSync(join(Dir, file), 'utf8')).join('\n');
      // Those of struct tags have options after the name of the field.
      const found = [...text.matchAll(/"((?:[^"\\\n]|\\.)*)"/g)].map(([, literal = '']) =>
        literal.replace(/,omitempty$/, ''),
      );
      literals.set(version, new Set(found));
    }
  }, 300_000);

  const versionsWith = (mark: string) =>
    versions.filter((version) => [...literals.get(version)!].some((literal) => isMark(literal, mark)));

  it('has each name and each word of api/gardener/names.ts in its sources', () => {
    const all = [...literals.get('v0.62.1')!];
    expect(keys.filter((key) => !all.includes(key)).toSorted()).toEqual(Object.keys(notThere).toSorted());
    expect(
      words.filter((word) => !all.some((literal) => literal === word || (/ /.test(word) && literal.includes(word)))),
    ).toEqual([]);
  });

  it('has no name that api/gardener/names.ts lacks', () => {
    const ofMcm = /^([a-z-]+\.)*(machine\.sapcloud\.io|gardener\.cloud|kubernetes\.io)\/[\w-]+$/;
    const named = [...literals.get('v0.62.1')!].filter(
      (literal) => ofMcm.test(literal) && literal !== names.apiVersion,
    );
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !keys.includes(name))).toEqual([]);
  });

  it('has each mark of docs/how-to/back-to-mcm.md in the versions that the table says, and in no other', () => {
    const rows = rowsOfPage();
    const unknown = rows.filter(({ writtenBy }) => !(writtenBy in writers) && !(writtenBy in unproved));
    expect(unknown).toEqual([]);
    const ofAll = rows.filter(({ writtenBy }) => writers[writtenBy] === versions).flatMap(({ marks }) => marks);
    const isElsewhere = (mark: string) => ofAll.some((each) => isMark(each, mark));
    const found = rows.flatMap(({ marks, writtenBy }) => {
      const expected = writers[writtenBy];
      const own = expected === versions ? marks : marks.filter((mark) => !isElsewhere(mark));
      return expected === undefined ? [] : own.map((mark) => ({ mark, expected, found: versionsWith(mark) }));
    });
    expect(found.length).toBeGreaterThan(40);
    expect(found.filter((each) => each.found.join() !== each.expected.join())).toEqual([]);
    expect(versionsWith('~')).toEqual(writers['from v0.61 on']);
  });

  it('has no name that the table lacks, but for those that others write', () => {
    const marks = rowsOfPage().flatMap((row) => row.marks);
    const missing = keys.filter((key) => !marks.some((mark) => isMark(key, mark)));
    expect(missing.toSorted()).toEqual(Object.keys(ofOthers).toSorted());
  });

  it('writes alone what it does according to docs/reference/names.md, and the table says so', () => {
    const rows = rowsOfPage();
    const unwritten = [
      ...readDoc('reference/names.md').matchAll(/^\| `([^`:]+)[^|]*\|[^|]*\| machine-controller-manager only/gm),
    ]
      .map(([, name = '']) => name)
      .toSorted();
    const isUnwritten = (key: string) =>
      rows.some(
        ({ marks, use }) =>
          marks.some((mark) => isMark(key, mark)) && /not write|never writes|ignores it$/.test(use.trim()),
      );
    const byTable = keys.filter((key) => isUnwritten(key) && key !== names.annotations.triggerDeletion);
    expect([...new Set(byTable)].toSorted()).toEqual(unwritten);
  });
});
