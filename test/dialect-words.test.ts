/**
 * What keeps Gardener behind its door: no other room spells its words in code. Comments may explain where a rule comes
 * from.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { gardener } from '../api/gardener/index.ts';
import * as names from '../api/gardener/names.ts';

const rooms = ['api', 'activities', 'workflows', 'controllers', 'temporal', 'kube', 'cli'];

/**
 * Where the words belong: the dialect, what names the dialect of the command line, a format of classes with its API
 * version, and the folder of tokens that Secrets name.
 */
const homes = ['api/gardener/', 'cli/dialect.ts', 'activities/providers/openstack/schema.ts', 'api/secret.ts'];

/** Words of names.ts that Kubernetes, Temporal or the engine use as well, so that they give nothing away. */
const shared = new Set([
  ...['', 'Pending', 'Available', 'Running', 'Unknown', 'Failed', 'Terminating', 'Unhealthy', 'ScaleDown'],
  ...['Create', 'Update', 'Delete', 'Processing', 'Successful', 'node', 'name', 'freeze', 'userData'],
]);

/** Parts of names: prefixes of labels, annotations, finalizers and Leases. */
const prefixes = ['sapcloud', 'gardener.cloud', '-by-mcm', ...Object.values(names.leases)];

const { annotations, labels, finalizers, taints } = names;
const ofDialect = [annotations, labels, finalizers, taints]
  .flatMap(textsOf)
  .filter((text) => prefixes.some((prefix) => text.includes(prefix)));

/** All that code may not spell, longest first, so that a text is reported as the whole that it is. */
const words = [
  ...[...prefixes, ...ofDialect, `'${gardener.name}'`, 'MachineClass'],
  ...[...Object.keys(names.phases), ...Object.keys(names.operationTypes), ...Object.keys(names.operationStates)],
  ...[...textsOf(names.deletionSteps), ...textsOf(names.descriptions), ...textsOf(names.userDataPlaceholders)],
]
  .filter((word) => !shared.has(word))
  .toSorted((a, b) => b.length - a.length);

describe('code outside of a dialect', () => {
  it.each(rooms)('in %s/ spells none of its words', async (room) => {
    const found: string[] = [];
    for (const file of await sourcesOf(room)) {
      const text = withoutComments(await readFile(file, 'utf8'));
      const word = words.find((each) => text.includes(each));
      if (word !== undefined) found.push(`${file}: ${word}`);
    }
    expect(found).toEqual([]);
  });

  it('is read without its comments and imports', () => {
    const text = "import { x } from './sapcloud.ts';\n/** sapcloud */\nconst a = 1; // sapcloud\nconst b = 'http://x';";
    expect(withoutComments(text)).toBe("import { x } ;\n\nconst a = 1;\nconst b = 'http://x';");
  });
});

/** All texts in a table of names.ts. */
function textsOf(table: object): string[] {
  return Object.values(table).flatMap((value: unknown) => {
    if (typeof value === 'string') return [value];
    return typeof value === 'object' && value !== null ? textsOf(value) : [];
  });
}

async function sourcesOf(room: string): Promise<string[]> {
  const entries = await readdir(room, { recursive: true });
  return entries
    .map((entry) => join(room, entry))
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .filter((file) => !homes.some((home) => file.startsWith(home)) && file !== 'api/dialects.ts');
}

function withoutComments(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|\s)\/\/ .*$/gm, '')
    .replace(/from '[^']*'/g, '');
}
