import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import { annotations, annotationsNotCopied, finalizers } from '../gardener/names.ts';
import type { MachineDeployment } from '../gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../gardener/schema/machine-set.ts';
import { toNewMachine, toNewMachineSet } from './new-objects.ts';

const metadata = {
  name: 'pool-a',
  namespace: 'shoot',
  uid: 'md-1',
  resourceVersion: '5',
  generation: 4,
  creationTimestamp: '2026-08-19T10:00:00Z',
};
const deployment: MachineDeployment = {
  metadata,
  spec: {
    replicas: 3,
    selector: { matchLabels: { pool: 'a' }, matchExpressions: [{ key: 'pool', operator: 'Exists' }] },
    template: {
      metadata: { labels: { pool: 'a', name: 'pool-a' }, annotations: { note: 'x' }, finalizers: ['example.com/f'] },
      spec: { class: { kind: 'MachineClass', name: 'small' }, drainTimeout: '1h' },
    },
    strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    minReadySeconds: 7,
    autoPreserveFailedMachineMax: 2,
  },
};
const planned = { name: 'pool-a-45678', hash: '4242', replicas: 2 };

function setOf(revision: string | undefined): MachineSet {
  return { metadata: { ...metadata, annotations: revision === undefined ? {} : { [annotations.revision]: revision } } };
}

describe('toNewMachineSet', () => {
  it('[mcm 70 partly] carries the hash in its labels, its selector and its template', () => {
    const set = toNewMachineSet(api, deployment, [], planned);
    expect(set.metadata).toMatchObject({
      name: 'pool-a-45678',
      namespace: 'shoot',
      labels: { pool: 'a', name: 'pool-a', 'machine-template-hash': '4242' },
      finalizers: [finalizers.machine],
      ownerReferences: [
        {
          apiVersion: 'machine.sapcloud.io/v1alpha1',
          kind: 'MachineDeployment',
          name: 'pool-a',
          uid: 'md-1',
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    });
    expect(set.spec).toEqual({
      replicas: 2,
      selector: {
        matchLabels: { pool: 'a', 'machine-template-hash': '4242' },
        matchExpressions: [{ key: 'pool', operator: 'Exists' }],
      },
      template: {
        metadata: {
          labels: { pool: 'a', name: 'pool-a', 'machine-template-hash': '4242' },
          annotations: { note: 'x' },
          finalizers: ['example.com/f'],
        },
        spec: { class: { kind: 'MachineClass', name: 'small' }, drainTimeout: '1h' },
      },
      minReadySeconds: 7,
      autoPreserveFailedMachineMax: 2,
    });
  });

  it('copies the annotations of the deployment but those that are about the deployment alone', () => {
    const kept = { 'example.com/kept': '1', [annotations.effectiveCreationTimeout]: '30m' };
    const dropped = Object.fromEntries(annotationsNotCopied.map((key) => [key, 'x']));
    const set = toNewMachineSet(
      api,
      { ...deployment, metadata: { ...metadata, annotations: { ...kept, ...dropped } } },
      [],
      planned,
    );
    expect(set.metadata.annotations).toEqual({
      ...kept,
      [annotations.revision]: '1',
      [annotations.desiredReplicas]: '3',
      [annotations.maxReplicas]: '4',
    });
  });

  it.each([
    [[], '1'],
    [['1'], '2'],
    [['7', '3', undefined], '8'],
    [['none', '2'], '3'],
  ])('gets a revision above those of the sets before it: %p', (revisions, revision) => {
    const set = toNewMachineSet(api, deployment, revisions.map(setOf), planned);
    expect(set.metadata.annotations[annotations.revision]).toBe(revision);
  });
});

describe('toNewMachine', () => {
  const set: MachineSet = {
    metadata: { ...metadata, name: 'pool-a-45678', uid: 'ms-1', annotations: {} },
    spec: toNewMachineSet(api, deployment, [], planned).spec as NonNullable<MachineSet['spec']>,
  };

  it('[mcm 59 partly] is owned by its set and has what the template says', () => {
    expect(toNewMachine(api, set, 'pool-a-45678-x')).toEqual({
      metadata: {
        name: 'pool-a-45678-x',
        namespace: 'shoot',
        labels: { pool: 'a', name: 'pool-a', 'machine-template-hash': '4242' },
        annotations: { note: 'x', [annotations.priority]: '3' },
        finalizers: ['example.com/f'],
        ownerReferences: [
          {
            apiVersion: 'machine.sapcloud.io/v1alpha1',
            kind: 'MachineSet',
            name: 'pool-a-45678',
            uid: 'ms-1',
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: { class: { kind: 'MachineClass', name: 'small' }, drainTimeout: '1h' },
    });
  });

  it('[invariant 3 partly] begins without our finalizer, even if the template has it', () => {
    const template = { metadata: { labels: { pool: 'a' }, finalizers: [finalizers.machine, 'example.com/f'] } };
    const machine = toNewMachine(api, { ...set, spec: { ...set.spec, template } }, 'x');
    expect(machine.metadata.finalizers).toEqual(['example.com/f']);
  });

  it('keeps the priority of the template', () => {
    const template = { metadata: { annotations: { [annotations.priority]: '5' } } };
    const machine = toNewMachine(api, { ...set, spec: { ...set.spec, template } }, 'x');
    expect(machine.metadata.annotations[annotations.priority]).toBe('5');
  });

  it('has the creation timeout that the deployment had when the set was made', () => {
    const annotated = {
      ...set,
      metadata: { ...set.metadata, annotations: { [annotations.effectiveCreationTimeout]: '30m' } },
    };
    const machine = toNewMachine(api, annotated, 'x');
    expect(machine.spec).toMatchObject({ creationTimeout: '30m' });
    expect(machine.metadata.annotations[annotations.effectiveCreationTimeout]).toBe('30m');
  });
});
