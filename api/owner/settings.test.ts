import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { gardener } from '../gardener/index.ts';
import { annotations } from '../gardener/names.ts';
import type { KubeObject } from '../objects.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { isBehind, settingsOfMachine, settingsOfSet } from './settings.ts';

const metadata = { namespace: 'n', name: 'm', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
const set = (spec: object, more: object = {}) => ({ metadata, spec: { ...more, template: { spec } } }) as OwnerSet;
const deployment = (spec: object, more: object = {}, own: object = {}) =>
  ({ metadata: { ...metadata, annotations: own }, spec: { ...more, template: { spec } } }) as OwnerDeployment;
const machine = (spec: object, own: object = {}, phase = 'Running') =>
  ({
    metadata: { ...metadata, annotations: own },
    spec,
    status: { currentStatus: { phase } },
  }) as unknown as KubeObject;

/** RFC 7386. */
function applied(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> = { ...(typeof target === 'object' && !Array.isArray(target) ? target : {}) };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = applied(result[key], value);
  }
  return result;
}

const anyMap = fc.dictionary(fc.constantFrom('a', 'b'), fc.constantFrom('1', '2'));
const anySpec = fc.record(
  {
    class: fc.record({ name: fc.constantFrom('small', 'large') }),
    nodeTemplate: fc.record(
      {
        metadata: fc.record({ labels: anyMap, creationTimestamp: fc.constant(null) }, { requiredKeys: [] }),
        spec: fc.record({
          taints: fc.array(fc.record({ key: fc.constantFrom('a', 'b'), effect: fc.constant('NoSchedule') })),
        }),
      },
      { requiredKeys: [] },
    ),
    drainTimeout: fc.constantFrom('1h', '2h'),
    maxEvictRetries: fc.constantFrom(0, 1),
    disableHealthTimeout: fc.boolean(),
  },
  { requiredKeys: ['class'] },
);

describe('settingsOfMachine', () => {
  it('makes everything of a machine that follows the template as it says, and nothing else', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (has, wanted) => {
        const patch = settingsOfMachine(gardener, set(wanted), machine(has));
        const after = applied(machine(has), patch ?? {}) as KubeObject & { spec: typeof has };
        expect(settingsOfMachine(gardener, set(wanted), after)).toBeUndefined();
        expect(after.spec.class).toEqual(has.class);
        expect(after.spec.drainTimeout).toBe(wanted.drainTimeout);
        expect(after.spec.disableHealthTimeout ?? false).toBe(wanted.disableHealthTimeout ?? false);
        expect(after.spec.maxEvictRetries).toBe(wanted.maxEvictRetries);
        expect(after.spec.nodeTemplate?.metadata?.labels ?? {}).toEqual(wanted.nodeTemplate?.metadata?.labels ?? {});
      }),
    );
  });

  it('removes what the template has no more', () => {
    const before = { nodeTemplate: { metadata: { labels: { pool: 'a', old: '1' } } }, drainTimeout: '1h' };

    expect(
      settingsOfMachine(gardener, set({ nodeTemplate: { metadata: { labels: { pool: 'a' } } } }), machine(before)),
    ).toEqual({ spec: { nodeTemplate: { metadata: { labels: { old: null } } }, drainTimeout: null } });
  });

  it.each([
    [
      'Go writes durations',
      { drainTimeout: '90m', healthTimeout: '.5h' },
      { drainTimeout: '1h30m0s', healthTimeout: '30m0s' },
    ],
    ['false is left out', { disableHealthTimeout: false }, {}],
    [
      'empty maps and lists are left out, or written',
      { nodeTemplate: { metadata: { labels: {}, annotations: null }, spec: { taints: [] } } },
      { nodeTemplate: { metadata: { creationTimestamp: null }, spec: {} } },
    ],
  ])('changes nothing where others only store it in another form: %s', (_, wanted, has) => {
    expect(settingsOfMachine(gardener, set(wanted), machine(has))).toBeUndefined();
    expect(settingsOfMachine(gardener, set(has), machine(wanted))).toBeUndefined();
  });

  it.each([
    ['another duration', { drainTimeout: '2h' }, { drainTimeout: '1h' }],
    ['0 retries', { maxEvictRetries: 0 }, {}],
    [
      'a label that only looks like the same duration',
      { nodeTemplate: { metadata: { labels: { a: '60m' } } } },
      { nodeTemplate: { metadata: { labels: { a: '1h' } } } },
    ],
  ])('changes what means something else: %s', (_, wanted, has) => {
    expect(settingsOfMachine(gardener, set(wanted), machine(has))).toEqual({ spec: wanted });
  });

  it('leaves a machine its own creation timeout, which an annotation has given it', () => {
    const own = { [annotations.effectiveCreationTimeout]: '5m' };

    expect(settingsOfMachine(gardener, set({ creationTimeout: '20m' }), machine({ creationTimeout: '5m' }, own))).toBe(
      undefined,
    );
    expect(settingsOfMachine(gardener, set({ creationTimeout: '20m' }), machine({ creationTimeout: '5m' }))).toEqual({
      spec: { creationTimeout: '20m' },
    });
  });
});

describe('isBehind', () => {
  it.each([
    ['Running', true],
    ['Pending', true],
    ['Unknown', true],
    ['Failed', false],
    ['Terminating', false],
  ])('counts a machine that is %s: %s', (phase, expected) => {
    expect(isBehind(gardener, set({ drainTimeout: '1h' }), machine({}, {}, phase))).toBe(expected);
  });
});

describe('settingsOfSet', () => {
  it('is what a deployment says of its set and of machines that exist', () => {
    const before = set({ drainTimeout: '1h', class: { name: 'small' } }, { minReadySeconds: 5 });
    const own = { note: 'a', [annotations.revision]: '3' };
    const after = deployment(
      { drainTimeout: '2h', class: { name: 'small' } },
      { minReadySeconds: 10, replicas: 7 },
      own,
    );

    expect(settingsOfSet(gardener, after, before)).toEqual({
      metadata: { annotations: { note: 'a' } },
      spec: { minReadySeconds: 10, template: { spec: { drainTimeout: '2h' } } },
    });
  });

  it('is undefined where a set lacks no more than numbers of 0, which others leave out', () => {
    const numbers = { minReadySeconds: 0, autoPreserveFailedMachineMax: 0 };

    expect(settingsOfSet(gardener, deployment({}, numbers), set({}))).toBeUndefined();
    expect(settingsOfSet(gardener, deployment({}), set({}, numbers))).toBeUndefined();
  });

  it('is undefined for a set that has it, whatever else is on it', () => {
    const spec = { drainTimeout: '1h' };

    expect(
      settingsOfSet(gardener, deployment(spec), {
        ...set(spec, { replicas: 3 }),
        metadata: { ...metadata, annotations: { theirs: '1' } },
      }),
    ).toBeUndefined();
  });
});
