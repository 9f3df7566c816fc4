import { describe, expect, it } from '@jest/globals';
import { annotations, labels } from '../../../api/gardener/names.ts';
import type { MachineTemplate } from '../../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import { toHistory } from './history.ts';

const metadata = { name: 'pool', uid: 'md-1', resourceVersion: '5', creationTimestamp: '2026-08-19T10:00:00Z' };

function template(className: string, hash?: string): MachineTemplate {
  const own = { name: 'pool', ...(hash !== undefined && { [labels.templateHash]: hash }) };
  return { metadata: { labels: own }, spec: { class: { kind: 'MachineClass', name: className } } };
}

function set(name: string, revision: number, replicas: number, className: string): MachineSet {
  const own = { [annotations.revision]: String(revision) };
  return {
    metadata: { ...metadata, name, uid: name, annotations: own },
    spec: { replicas, template: template(className, name) },
  };
}

const deployment = (className: string): MachineDeployment => ({ metadata, spec: { template: template(className) } });
const sets = [set('pool-b', 2, 1, 'large'), set('pool-a', 3, 2, 'small')];

describe('toHistory', () => {
  it('marks the revision of the current template, even if another set has machines', () => {
    expect(toHistory(deployment('large'), sets).split('\n')).toEqual([
      'REVISION     SET     REPLICAS  CLASS  ANNOTATIONS',
      '2 (current)  pool-b  1         large',
      '3            pool-a  2         small',
    ]);
  });

  it('says that a new template has no revision yet', () => {
    expect(toHistory(deployment('medium'), sets).split('\n')).toEqual([
      'REVISION  SET     REPLICAS  CLASS  ANNOTATIONS',
      '2         pool-b  1         large',
      '3         pool-a  2         small',
      'the current template has no revision yet',
    ]);
  });
});
