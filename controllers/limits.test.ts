/** When the workflow that grants the limits of a namespace is told to look. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { gardener } from '../api/gardener/index.ts';
import { names } from '../api/names.ts';
import type { KubeObject } from '../api/objects.ts';
import type { Controller } from './controller.ts';
import { createLimitController } from './limits.ts';
import type { Change, Watches } from './watches.ts';

let deployments: KubeObject[];
let signalled: string[];
let controller: Controller;

const limits = { [names.maxSurge]: '5' };
const objectOf = (name: string, rest: object = {}, annotations: Record<string, string> = {}) =>
  ({ metadata: { namespace: 'n', name, uid: name, resourceVersion: '1', annotations }, ...rest }) as KubeObject;
const machineIn = (phase: string) => objectOf('a', { status: { currentStatus: { phase } } });
const updated = (previous: KubeObject, object: KubeObject): Change => ({ kind: 'updated', previous, object });
const deleted = (object: KubeObject): Change => ({ kind: 'deleted', object, previous: object });

beforeEach(() => {
  [deployments, signalled] = [[objectOf('pool', {}, limits)], []];
  const watches = { deployments: { list: () => deployments }, sets: { list: () => [] } };
  const getHandle = (id: string) => ({ signal: async () => signalled.push(id) });
  controller = createLimitController({
    watches: watches as unknown as Watches,
    dialect: gardener,
    installation: { client: { workflow: { getHandle } } as unknown as Client, name: 'i' },
    namespace: 'n',
  });
});

describe('a change of a machine', () => {
  it.each([
    ['it is gone', deleted(machineIn('Terminating')), true],
    ['it runs', updated(machineIn('Pending'), machineIn('Running')), true],
    ['it has failed before it ran', updated(machineIn('Pending'), machineIn('Failed')), true],
    ['it got further', updated(machineIn(''), machineIn('Pending')), false],
    ['it was created', { kind: 'added', object: machineIn('') } as Change, false],
  ])('may make room: %s', (_, change, isRoom) => {
    expect([...(controller.hears.machines?.(change) ?? [])]).toEqual(isRoom ? ['n'] : []);
    deployments = [objectOf('pool')];
    expect([...(controller.hears.machines?.(change) ?? [])]).toEqual([]);
  });

  it('is told to the workflow of the namespace', async () => {
    await controller.handle('n');
    expect(signalled).toEqual(['i/machine-limits/n']);
  });
});

describe('a change of a deployment', () => {
  const pool = (annotations: Record<string, string>, replicas = 1) =>
    objectOf('pool', { spec: { replicas } }, annotations);

  it.each([
    ['a limit is raised', updated(pool(limits), pool({ [names.maxSurge]: '6' })), true],
    ['the last limit is removed', updated(pool(limits), pool({})), true],
    ['it is scaled', updated(pool(limits), pool(limits, 2)), true],
    ['it is gone', deleted(pool(limits)), true],
    ['nothing of that', updated(pool(limits), pool({ ...limits, other: 'x' })), false],
  ])('may make room: %s', (_, change, isRoom) => {
    deployments = [];
    expect([...(controller.hears.deployments?.(change) ?? [])]).toEqual(isRoom ? ['n'] : []);
  });

  it('is nothing where no owner takes part', () => {
    deployments = [];
    expect([...(controller.hears.deployments?.(updated(pool({}), pool({}, 2))) ?? [])]).toEqual([]);
  });
});
