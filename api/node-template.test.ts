import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { mergeTemplate, type NodeTemplate, type TemplatedNode } from './node-template.ts';

const anyMap = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.constantFrom('', '1', '2'));
const anyTaints = fc.uniqueArray(
  fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    value: fc.constantFrom('', '1', '2'),
    effect: fc.constantFrom('NoSchedule', 'NoExecute'),
  }),
  { selector: ({ key, effect }) => `${key} ${effect}`, maxLength: 4 },
);
const anyTemplate: fc.Arbitrary<NodeTemplate> = fc.record({ labels: anyMap, annotations: anyMap, taints: anyTaints });
const anyNode: fc.Arbitrary<TemplatedNode> = fc.record({
  metadata: fc.record({ labels: anyMap, annotations: anyMap }),
  spec: fc.record({ taints: anyTaints }),
});

/** The Node after the patch. */
function patched(node: TemplatedNode, applied: NodeTemplate, wanted: NodeTemplate): TemplatedNode {
  const { metadata, spec } = mergeTemplate(node, applied, wanted) ?? {};
  const merge = (live: object = {}, change: object = {}): Record<string, string> =>
    Object.fromEntries(Object.entries<string>({ ...live, ...change }).filter(([, value]) => value !== null));
  return {
    metadata: {
      labels: merge(node.metadata.labels, metadata?.labels),
      annotations: merge(node.metadata.annotations, metadata?.annotations),
    },
    spec: { taints: spec?.taints ?? node.spec?.taints ?? [] },
  };
}

const idOf = ({ key, effect }: { key: string; effect: string }) => `${key} ${effect}`;
/** Everything on a Node as `what key` to value. */
function contents({ metadata, spec }: TemplatedNode): Map<string, string> {
  return new Map([
    ...Object.entries(metadata.labels ?? {}).map(([key, value]): [string, string] => [`label ${key}`, value]),
    ...Object.entries(metadata.annotations ?? {}).map(([key, value]): [string, string] => [`annotation ${key}`, value]),
    ...(spec?.taints ?? []).map((taint): [string, string] => [`taint ${idOf(taint)}`, taint.value ?? '']),
  ]);
}
const contentsOf = ({ labels, annotations, taints }: NodeTemplate) =>
  contents({ metadata: { labels, annotations }, spec: { taints } });

describe('mergeTemplate', () => {
  it('gives the Node what is wanted, takes what was applied and is wanted no more, and leaves everything else', () => {
    fc.assert(
      fc.property(anyNode, anyTemplate, anyTemplate, (node, applied, wanted) => {
        const [before, after] = [contents(node), contents(patched(node, applied, wanted))];
        const [had, wants] = [contentsOf(applied), contentsOf(wanted)];
        for (const key of new Set([...before.keys(), ...after.keys(), ...wants.keys()])) {
          const expected = wants.get(key) ?? (had.has(key) ? undefined : before.get(key));
          expect([key, after.get(key)]).toEqual([key, expected]);
        }
      }),
    );
  });

  it('has nothing to do afterwards', () => {
    fc.assert(
      fc.property(anyNode, anyTemplate, anyTemplate, (node, applied, wanted) => {
        expect(mergeTemplate(patched(node, applied, wanted), wanted, wanted)).toBeUndefined();
      }),
    );
  });

  it('leaves the order of the taints and the times that they were added', () => {
    const added = { key: 'b', effect: 'NoExecute', timeAdded: '2026-08-19T10:00:00Z' };
    const node = { metadata: {}, spec: { taints: [added, { key: 'a', effect: 'NoSchedule' }] } };
    const nothing = { labels: {}, annotations: {}, taints: [] };
    const wanted = {
      ...nothing,
      taints: [
        { key: 'b', effect: 'NoExecute' },
        { key: 'c', effect: 'NoSchedule' },
      ],
    };

    expect(mergeTemplate(node, nothing, wanted)).toEqual({
      spec: { taints: [added, { key: 'a', effect: 'NoSchedule' }, { key: 'c', effect: 'NoSchedule' }] },
    });
  });
});
