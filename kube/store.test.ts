import { describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import type { KubeObject } from '../api/objects.ts';
import { createStore } from './store.ts';

function object(name: string, uid: string, resourceVersion: string, labels: Record<string, string> = {}): KubeObject {
  return { metadata: { name, namespace: 'n', uid, resourceVersion, creationTimestamp: '', labels } };
}

const byColor = { color: ({ metadata }: KubeObject) => (metadata.labels?.color ? [metadata.labels.color] : []) };

describe('a store', () => {
  it('reports what a state changed', () => {
    const { put, remove } = createStore<KubeObject>();
    const [first, second] = [object('a', '1', '10'), object('a', '1', '11')];

    expect(put(first)).toEqual([{ kind: 'added', object: first }]);
    expect(put(first)).toEqual([]);
    expect(put(second)).toEqual([{ kind: 'updated', object: second, previous: first }]);
    expect(remove(object('a', '1', '12'))).toMatchObject([{ kind: 'deleted', previous: second }]);
    expect(remove(second)).toEqual([]);
  });

  it('knows since when the server has answered without an outage', () => {
    const now = jest.spyOn(performance, 'now').mockReturnValue(1_000);
    const { store, setReachable } = createStore<KubeObject>({}, 30);
    const reachAt = (ms: number, isReachable: boolean) => {
      now.mockReturnValue(ms);
      setReachable(isReachable);
      return store.answersForMs;
    };

    expect(store.answersForMs).toBe(0);
    expect(reachAt(1_000, true)).toBe(0);
    expect(reachAt(1_020, true)).toBe(20);
    expect(reachAt(1_020, false)).toBe(0);
    expect(reachAt(1_049, true)).toBe(49);
    expect(reachAt(1_050, false)).toBe(0);
    expect(reachAt(1_080, true)).toBe(0);
    now.mockRestore();
  });

  it('reports an object that was created again under its name as deleted and added', () => {
    const { put, store } = createStore<KubeObject>();
    const [old, again] = [object('a', '1', '10'), object('a', '2', '20')];
    put(old);

    expect(put(again)).toEqual([
      { kind: 'deleted', object: old, previous: old },
      { kind: 'added', object: again },
    ]);
    expect(store.list()).toEqual([again]);
  });

  it('does not remove an object for the deletion of its predecessor', () => {
    const { put, remove, store } = createStore<KubeObject>();
    put(object('a', '2', '20'));

    expect(remove(object('a', '1', '10'))).toEqual([]);
    expect(store.size).toBe(1);
  });

  it('names an index that was not declared', () => {
    const { store } = createStore<KubeObject>(byColor);

    expect(() => store.byIndex('colour', 'red')).toThrow("index is 'colour': declared are color");
  });

  it('finds by index what a search through all objects finds, after any history', () => {
    const name = fc.constantFrom('a', 'b', 'c');
    const step = fc.record({
      kind: fc.constantFrom('put', 'remove', 'retain'),
      name,
      uid: fc.constantFrom('1', '2'),
      color: fc.constantFrom('red', 'blue', ''),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const { put, remove, retain, store } = createStore<KubeObject>(byColor);
        for (const [index, { kind, name, uid, color }] of steps.entries()) {
          const state = object(name, `${name}${uid}`, String(index), color ? { color } : {});
          if (kind === 'put') put(state);
          else if (kind === 'remove') remove(state);
          else retain(new Set([state.metadata.uid]));
        }

        for (const color of ['red', 'blue']) {
          const expected = store.list().filter(({ metadata }) => metadata.labels?.color === color);
          expect(new Set(store.byIndex('color', color))).toEqual(new Set(expected));
          expect(store.has('color', color)).toBe(expected.length > 0);
        }
      }),
    );
  });
});
