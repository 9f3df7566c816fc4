import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import type { MachineDeployment, MachineDeploymentSpec } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { problemOfDeployment, problemOfSet } from './problem.ts';

const metadata = { name: 'pool', uid: 'pool', resourceVersion: '1', creationTimestamp: '2026-08-19T10:00:00Z' };
const machineClass = { kind: 'MachineClass', name: 'small' };
const good: MachineDeploymentSpec = {
  replicas: 1,
  selector: { matchLabels: { name: 'pool' } },
  template: { metadata: { labels: { name: 'pool', more: 'yes' } }, spec: { class: machineClass } },
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '25%', maxUnavailable: 0 } },
};
const labelled = (labels: Record<string, string>) => ({ metadata: { labels }, spec: { class: machineClass } });
const limited = (limits: object) => ({ ...good.template, spec: { class: machineClass, ...limits } });
const rolling = (maxSurge: number | string) => ({
  type: 'RollingUpdate',
  rollingUpdate: { maxSurge, maxUnavailable: 1 },
});
const { strategy: _, ...ofSet } = good;

const common: [string, Partial<MachineDeploymentSpec>][] = [
  ['spec.replicas is -1', { replicas: -1 }],
  ['spec.selector is missing', { selector: undefined } as unknown as Partial<MachineDeploymentSpec>],
  ['spec.selector is missing or selects everything', { selector: {} }],
  ['spec.selector is missing or selects everything', { selector: { matchLabels: {}, matchExpressions: [] } }],
  ['spec.template.metadata.labels is empty', { template: { spec: { class: machineClass } } }],
  ['spec.selector.matchLabels has name=pool', { template: labelled({ name: 'other' }) }],
  ['spec.selector.matchLabels has name=pool', { template: labelled({ toString: 'pool' }) }],
  ['spec.template.spec.class.kind is missing', { template: { metadata: { labels: { name: 'pool' } } } }],
  [
    'spec.template.spec.class.name is missing',
    { template: { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass' } } } },
  ],
  ['spec.template.spec.drainTimeout is "soon"', { template: limited({ drainTimeout: 'soon' }) }],
  ['spec.template.spec.creationTimeout is ""', { template: limited({ creationTimeout: '' }) }],
  ['spec.template.spec.healthTimeout is "-5m"', { template: limited({ healthTimeout: '-5m' }) }],
  ['spec.template.spec.machinePreserveTimeout is "1d"', { template: limited({ machinePreserveTimeout: '1d' }) }],
  ['spec.template.spec.maxEvictRetries is -1', { template: limited({ maxEvictRetries: -1 }) }],
];
const ofNode = (nodeTemplate: object) => ({ template: limited({ nodeTemplate }) });
const labelsOfNode = (labels: Record<string, string>) => ofNode({ metadata: { labels } });
const withMetadata = (metadata: object) => ({
  template: { metadata: { labels: { name: 'pool' }, ...metadata }, spec: { class: machineClass } },
});
const forSets: [string, Partial<MachineDeploymentSpec>][] = [
  ['spec.template.metadata.labels has version="2.0 rc"', { template: labelled({ name: 'pool', version: '2.0 rc' }) }],
  ['spec.template.metadata.labels has the key "bad key!"', { template: labelled({ name: 'pool', 'bad key!': 'a' }) }],
  ['spec.template.metadata.annotations has the key "a/b/c"', withMetadata({ annotations: { 'a/b/c': 'a' } })],
  ['spec.template.metadata.annotations has 262146 bytes', withMetadata({ annotations: { a: 'x'.repeat(262_145) } })],
  ['spec.template.metadata.finalizers has "not one"', withMetadata({ finalizers: ['not one'] })],
];
const forNodes: [string, Partial<MachineDeploymentSpec>][] = [
  ['spec.template.spec.nodeTemplate.metadata.labels has team="two words"', labelsOfNode({ team: 'two words' })],
  [
    'spec.template.spec.nodeTemplate.spec.taints has dedicated:NoSchedul',
    ofNode({ spec: { taints: [{ key: 'dedicated', effect: 'NoSchedul' }] } }),
  ],
];
const strategies: [string, Partial<MachineDeploymentSpec>][] = [
  ["spec.strategy.type is ''", { strategy: {} }],
  ["spec.strategy.type is 'rolling'", { strategy: { type: 'rolling' } }],
  ["spec.strategy.rollingUpdate.maxUnavailable is ''", { strategy: { type: 'RollingUpdate' } }],
  ["spec.strategy.rollingUpdate.maxSurge is '25'", { strategy: rolling('25') }],
  ["spec.strategy.rollingUpdate.maxSurge is '-1'", { strategy: rolling(-1) }],
  [
    "spec.strategy.inPlaceUpdate.orchestrationType is ''",
    { strategy: { type: 'InPlaceUpdate', inPlaceUpdate: { maxSurge: 0, maxUnavailable: 1 } } },
  ],
  [
    "spec.strategy.inPlaceUpdate.maxUnavailable is ''",
    { strategy: { type: 'InPlaceUpdate', inPlaceUpdate: { orchestrationType: 'Auto' } } },
  ],
];

function problemOf(change: Partial<MachineDeploymentSpec>, own: readonly MachineSet[] = []): string | undefined {
  return problemOfDeployment(api, { metadata, spec: { ...good, ...change } } as MachineDeployment, own);
}

describe('the problem of an owner', () => {
  it.each<[string, Partial<MachineDeploymentSpec>]>([
    ['a deployment', {}],
    ['no replicas', { replicas: 0 }],
    ['expressions alone', { selector: { matchExpressions: [{ key: 'name', operator: 'Exists' }] } }],
    ['numbers', { strategy: rolling(2) }],
    ['limits', { template: limited({ drainTimeout: '0', healthTimeout: '1h30m', maxEvictRetries: 0 }) }],
    ['Recreate, whatever else is there', { strategy: { ...rolling('x'), type: 'Recreate' } }],
    [
      'in place',
      {
        strategy: {
          type: 'InPlaceUpdate',
          inPlaceUpdate: { orchestrationType: 'Manual', maxSurge: 0, maxUnavailable: 1 },
        },
      },
    ],
  ])('is none for %s', (_name, change) => {
    expect(problemOf(change)).toBeUndefined();
  });

  it.each([...common, ...forSets, ...forNodes, ...strategies])('says: %s', (text, change) => {
    expect(problemOf(change)).toContain(text);
  });

  it.each([...common, ...forSets])('says of a set: %s', (text, change) => {
    expect(problemOfSet(api, { metadata, spec: { ...ofSet, ...change } })).toContain(text);
  });

  it('names all that is wrong at once', () => {
    const all = problemOf({ replicas: -1, selector: {}, strategy: { type: 'Sudden' as never } });
    expect(all?.split('; ')).toEqual([
      expect.stringContaining('spec.replicas'),
      expect.stringContaining('spec.selector'),
      expect.stringContaining('spec.strategy.type'),
    ]);
  });

  it('is that the names of its sets would be too long', () => {
    const named = (length: number) => ({ metadata: { ...metadata, name: 'x'.repeat(length) }, spec: good });
    expect(problemOfDeployment(api, named(247) as MachineDeployment, [])).toBeUndefined();
    expect(problemOfDeployment(api, named(248) as MachineDeployment, [])).toContain(
      'metadata.name has 248 characters, and 247 is the most',
    );
  });

  it('is not what a set has already that machines are made of: an owner that has worked so goes on', () => {
    const setOf = (template: MachineDeploymentSpec['template']) => ({ metadata, spec: { ...ofSet, template } });
    const wrong = labelsOfNode({ team: 'two words' });
    const worse = labelsOfNode({ team: 'two words', pool: 'a b' });
    const own = [setOf(good.template), setOf(wrong.template)];

    expect(problemOf(wrong, own)).toBeUndefined();
    expect(problemOf(labelsOfNode({ team: 'two words', more: 'yes' }), own)).toBeUndefined();
    expect(problemOf(worse, own)).toContain('pool="a b"');
    expect(problemOf(wrong, [setOf(good.template)])).toContain('team="two words"');
    expect(problemOfSet(api, setOf(wrong.template))).toBeUndefined();
  });

  it('is there for an owner without a spec, and none for a good set', () => {
    expect(problemOfDeployment(api, { metadata }, [])).toContain('spec.selector');
    expect(problemOfSet(api, { metadata, spec: ofSet })).toBeUndefined();
  });
});
