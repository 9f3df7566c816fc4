import { describe, expect, it } from '@jest/globals';
import type { KubeObject } from '../../api/objects.ts';
import { verdictAnnotations } from '../../api/verdict.ts';
import { type WorkflowKind, workflowId } from '../../api/workflow-id.ts';
import type { Node } from '../../kube/core.ts';
import { createStore } from '../../kube/store.ts';
import type { BlockedWorkflow } from '../../temporal/blocked.ts';
import { dialect, dialectName } from '../dialect.ts';
import { listStuck, maxStuck } from './stuck.ts';

const namespace = 'default';

const object = (name: string, more: object = {}, metadata: object = {}): KubeObject =>
  ({
    metadata: {
      namespace,
      name,
      uid: name,
      resourceVersion: '1',
      creationTimestamp: '2026-11-23T10:00:00Z',
      ...metadata,
    },
    ...more,
  }) as KubeObject;

function storesOf(objects: Partial<Record<'deployments' | 'sets' | 'sources' | 'secrets', KubeObject[]>>) {
  const store = (list: readonly KubeObject[] = []) => {
    const writable = createStore<KubeObject>();
    for (const each of list) writable.put(each);
    return writable.store;
  };
  const { deployments, sets, sources, secrets } = objects;
  return {
    ...{ machines: store(), deployments: store(deployments), sets: store(sets) },
    ...{ sources: store(sources), secrets: store(secrets), nodes: createStore<Node>().store },
  };
}

/** The workflow of an object, or another one. */
function blockedBy(type: string, blockedOn: BlockedWorkflow['blockedOn'], kind?: WorkflowKind, name = type) {
  const ref = { dialect: dialectName, namespace, name, uid: name };
  const id = kind === undefined ? `default/${name}` : workflowId('default', kind, ref);
  return [id, { workflowId: id, type, blockedOn, start: '2026-11-23T10:00:00Z' }] as const;
}

/** A class with the verdict on a version, by default the one that it has. */
function refusedClass(name: string, version?: string) {
  const versionOf = (source: KubeObject) => dialect.source.versionOf(source, []);
  const problems = ['machineType is hugee: no such type', 'region is empty'];
  const annotations = verdictAnnotations({ version: version ?? versionOf(object(name)), problems });
  return object(name, {}, { annotations });
}

describe('what the fleet page lists as stuck besides machines', () => {
  it('is a class whose present version is refused', () => {
    const stores = storesOf({
      sources: [refusedClass('new'), refusedClass('corrected', 'another'), object('unchecked')],
    });
    expect(listStuck(stores, 'default', new Map(), new Map()).stuck).toEqual([
      {
        ...{ kind: 'MachineClass', name: 'new', blockedOn: 'Source' },
        problem: 'machineType is hugee: no such type; region is empty',
      },
    ]);
  });

  it('is an owner whose spec is refused, also before its workflow is listed, or whose workflow is blocked', () => {
    const conditions = [{ type: 'Progressing', status: 'False', reason: 'InvalidSpec', message: 'replicas is -1' }];
    const ofSet = [{ type: 'ReplicaFailure', status: 'True', reason: 'InvalidSpec', message: 'no selector' }];
    const status = { [dialect.owner.setConditions]: ofSet };
    const owned = { ownerReferences: [{ kind: 'MachineDeployment', name: 'web', uid: 'web', controller: true }] };
    const stores = storesOf({
      deployments: [object('web', { status: { conditions } }), object('late'), object('good')],
      sets: [object('alone', { status }), object('owned', { status }, owned)],
    });
    const blocked = new Map([
      blockedBy('rollout', 'Rollout', 'MachineDeployment', 'late'),
      blockedBy('machine', 'CloudCapacity', 'Machine'),
    ]);
    expect(listStuck(stores, 'default', blocked, new Map()).stuck).toEqual([
      { kind: 'MachineDeployment', name: 'web', blockedOn: 'OwnerSpec', problem: 'replicas is -1' },
      { kind: 'MachineDeployment', name: 'late', blockedOn: 'Rollout' },
      { kind: 'MachineSet', name: 'alone', blockedOn: 'OwnerSpec', problem: 'no selector' },
    ]);
  });

  it('is a sweep with its own words, and any other workflow that belongs to no object', () => {
    const blocked = new Map([blockedBy('orphanSweep', 'Brake'), blockedBy('tagUpdate', 'WorkflowTask')]);
    const said = new Map([['default/orphanSweep', { problem: 'waits for approval: 6 orphans', unblock: 'Approve' }]]);
    expect(listStuck(storesOf({}), 'default', blocked, said)).toEqual({
      stuck: [
        {
          ...{ kind: 'orphan sweep', name: 'default/orphanSweep', blockedOn: 'Brake' },
          ...{ problem: 'waits for approval: 6 orphans', unblock: 'Approve' },
        },
        { kind: 'workflow tagUpdate', name: 'default/tagUpdate', blockedOn: 'WorkflowTask' },
      ],
      more: 0,
    });
  });

  it('is limited', () => {
    const sources = Array.from({ length: maxStuck + 7 }, (_, i) => refusedClass(`class-${i}`));
    const { stuck, more } = listStuck(storesOf({ sources }), 'default', new Map(), new Map());
    expect([stuck.length, more]).toEqual([maxStuck, 7]);
  });
});
