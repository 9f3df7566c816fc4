import { expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import type { Candidate } from '../../api/model/owner.ts';
import { deletionCause } from '../../api/owner/deletion-cause.ts';
import { validDeploymentSpec } from '../../test/support/valid.ts';
import { deletingOwner } from './deleting-owner.ts';

const meta = (name: string) => ({ name, uid: name, resourceVersion: '1', creationTimestamp: '2026-11-23T10:00:00Z' });
const { template } = validDeploymentSpec;
const pool = { metadata: meta('pool'), spec: validDeploymentSpec };
const current = { metadata: meta('pool-b'), spec: { template } };
const old = {
  metadata: meta('pool-a'),
  spec: { template: { spec: { ...template.spec, class: { kind: 'MachineClass', name: 'older' } } } },
};
const candidate: Candidate = { name: 'm', uid: 'm', resourceVersion: '1', set: 'pool-b', failed: false };
const deletionTimestamp = '2026-11-23T11:00:00Z';

it.each([
  ['a scale-down', {}, current, pool, 'scale-down of MachineDeployment pool'],
  ['one of a set without a deployment', {}, current, undefined, 'scale-down of MachineSet pool-b'],
  ['a rollout', {}, old, pool, 'rollout of MachineDeployment pool: its template is an older one'],
  [
    'the deletion of its set',
    {},
    { ...current, metadata: { ...current.metadata, deletionTimestamp } },
    pool,
    'MachineSet pool-b is being deleted',
  ],
  ['a failed machine', { failed: true }, old, pool, 'it has failed, and MachineDeployment pool replaces it'],
  ['health', { isOfReplacement: true as const }, current, pool, 'MachineDeployment pool replaces an unhealthy machine'],
  [
    'the autoscaler',
    { unneeded: true as const },
    current,
    pool,
    'it is listed on MachineDeployment pool as not needed',
  ],
  [
    'the deletion of the owner',
    {},
    current,
    { ...pool, metadata: { ...pool.metadata, deletionTimestamp } },
    'MachineDeployment pool is being deleted',
  ],
])('names %s', (_cause, change, set, deployment, expected) => {
  expect(deletionCause({ ...candidate, ...change }, deletingOwner(gardener, set, deployment))).toBe(expected);
});
