import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import type { MachineDeployment, MachineDeploymentSpec } from '../gardener/schema/machine-deployment.ts';
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

function problemOf(change: Partial<MachineDeploymentSpec>): string | undefined {
  return problemOfDeployment(api, { metadata, spec: { ...good, ...change } } as MachineDeployment);
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

  it.each([...common, ...strategies])('says: %s', (text, change) => {
    expect(problemOf(change)).toContain(text);
  });

  it.each(common)('says of a set: %s', (text, change) => {
    expect(problemOfSet(api, { metadata, spec: { ...ofSet, ...change } })).toContain(text);
  });

  it('is there for an owner without a spec, and none for a good set', () => {
    expect(problemOfDeployment(api, { metadata })).toContain('spec.selector');
    expect(problemOfSet(api, { metadata, spec: ofSet })).toBeUndefined();
  });
});
