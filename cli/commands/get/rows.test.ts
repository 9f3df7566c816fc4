import { expect, it } from '@jest/globals';
import { labels } from '../../../api/gardener/names.ts';
import type { Machine } from '../../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../../../api/gardener/schema/machine-set.ts';
import { validDeploymentSpec, validSetSpec } from '../../../test/support/valid.ts';
import { parseOptions } from '../../options.ts';
import { changesOf, growingTable, listedMachine, listText, noneText, sortedBy, toListed } from './rows.ts';

const narrow = { isWide: false, hasNamespaces: false };

it('lists objects in columns, without those that nothing has a value for', () => {
  const nowMs = Date.parse('2026-11-23T10:10:00Z');
  const created = '2026-11-21T10:00:00Z';
  const running = {
    namespace: 'n',
    name: 'a',
    created,
    phase: 'Running',
    node: 'node-a',
    since: '2026-11-21T10:00:00Z',
  };
  const waiting = {
    namespace: 'n',
    name: 'b',
    created,
    phase: 'Pending',
    since: '2026-11-23T10:09:00Z',
    waitsFor: 'its Node to join',
  };

  expect(listText([running, waiting], nowMs, narrow).split('\n')).toEqual([
    'NAME  PHASE    NODE    FOR    WAITS FOR',
    'a     Running  node-a  2 d',
    'b     Pending          1 min  its Node to join',
  ]);
});

it('shows age and provider ID in a wide table alone', () => {
  const listed = [{ namespace: 'n', name: 'a', providerID: 'aws:///i-1', created: '2026-11-23T10:00:00Z' }];
  const nowMs = Date.parse('2026-11-23T10:05:00Z');

  expect(listText(listed, nowMs, narrow)).toBe('NAME\na');
  expect(listText(listed, nowMs, { ...narrow, isWide: true })).toBe(
    'NAME  AGE    PROVIDER ID\na     5 min  aws:///i-1',
  );
});

it('tells what has changed and what is gone', () => {
  const created = '2026-11-23T10:00:00Z';
  const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ namespace: 'n', name, created }));

  expect(changesOf([a!, b!], [{ ...a!, phase: 'Running' }, c!])).toEqual({
    changed: [{ ...a, phase: 'Running' }, c],
    gone: [b],
  });
});

it('says for how long a deployment waits: since its last progress, or since the wait began if that was later', () => {
  const meta = (name: string, creationTimestamp: string) => ({
    name,
    namespace: 'n',
    uid: name,
    resourceVersion: '1',
    creationTimestamp,
  });
  const at = (minute: number) => `2026-11-23T10:0${minute}:00Z`;
  const controlledBy = (kind: string, name: string) => [{ apiVersion: 'v1', kind, name, uid: name, controller: true }];
  const owned = (frozen: boolean, machineSince?: string) => {
    const condition = { status: 'True', reason: 'r', message: '' };
    const deployment: MachineDeployment = {
      metadata: { ...meta('pool', at(0)), ...(frozen && { labels: { [labels.freeze]: 'True' } }) },
      spec: { ...validDeploymentSpec, replicas: 1 },
      status: {
        conditions: [
          { ...condition, type: 'Progressing', lastUpdateTime: at(1) },
          ...(frozen ? [{ ...condition, type: 'Frozen', lastTransitionTime: at(5) }] : []),
        ],
      },
    };
    const set: MachineSet = {
      metadata: { ...meta('pool-a', at(0)), ownerReferences: controlledBy('MachineDeployment', 'pool') },
      spec: validSetSpec,
    };
    const machine = machineSince && {
      metadata: { ...meta('pool-a-1', machineSince), ownerReferences: controlledBy('MachineSet', 'pool-a') },
    };
    return { deployments: [deployment], sets: [set], machines: machine ? [machine] : [] };
  };
  const sinceOf = (...of: Parameters<typeof owned>) => toListed('MachineDeployment', owned(...of))[0]?.since;

  expect([sinceOf(true), sinceOf(false, at(3)), sinceOf(false, at(0))]).toEqual([at(5), at(3), at(1)]);
});

it('says once that a deployment lacks machines as it is frozen', () => {
  const meta = (name: string) => ({ name, namespace: 'n', uid: name, resourceVersion: '1', creationTimestamp: '1' });
  const deployment: MachineDeployment = {
    metadata: { ...meta('pool'), labels: { [labels.freeze]: 'True' } },
    spec: validDeploymentSpec,
  };
  const owner = { apiVersion: 'v1', kind: 'MachineDeployment', name: 'pool', uid: 'pool', controller: true };
  const set: MachineSet = {
    metadata: { ...meta('pool-a'), ownerReferences: [owner] },
    spec: validSetSpec,
  };

  expect(toListed('MachineDeployment', { deployments: [deployment], sets: [set], machines: [] })).toMatchObject([
    { waitsFor: 'no machine may be created in MachineSet pool-a, as it or its deployment is frozen' },
  ]);
});

it('names the deployment of each machine by its owner, whatever its labels say', () => {
  const meta = (name: string) => ({ name, namespace: 'n', uid: name, resourceVersion: '1', creationTimestamp: '1' });
  const ownedBy = (kind: string, name: string) => ({
    ownerReferences: [{ apiVersion: 'v1', kind, name, uid: name, controller: true }],
  });
  const labelled = { labels: { name: 'a' } };
  const sets = ['a', 'b'].map((name) => ({
    metadata: { ...meta(`${name}-1`), ...labelled, ...ownedBy('MachineDeployment', name) },
  }));
  const machines = ['a', 'b'].map((name) => ({
    metadata: { ...meta(`${name}-1-x`), ...labelled, ...ownedBy('MachineSet', `${name}-1`) },
  }));

  expect(toListed('Machine', { sets, machines })).toMatchObject([
    { name: 'a-1-x', deployment: 'a' },
    { name: 'b-1-x', deployment: 'b' },
  ]);
});

it.each([
  ['Create', 'Creating machine on cloud provider', undefined, 'the cloud to create its VM'],
  ['Create', 'Creating machine on cloud provider', 'simulated:///a', 'its Node to join'],
  [
    'HealthCheck',
    'Machine a is unhealthy - changing MachinePhase to Unknown',
    'simulated:///a',
    'its Node to become healthy',
  ],
  ['Delete', 'Initiate node drain', 'simulated:///a', 'its pods to leave the Node'],
  ['Delete', 'Initiate node drain: waits for the volume v', 'simulated:///a', 'the volume v'],
  ['Delete', 'Initiate VM deletion', 'simulated:///a', 'its VM to be deleted'],
  ['Update', 'what MCM has written', undefined, 'what MCM has written'],
])('while the operation %s, %s, with VM %s, a machine waits for %s', (type, description, providerID, waitsFor) => {
  const machine: Machine = {
    metadata: { name: 'a', namespace: 'n', uid: 'a', resourceVersion: '1', creationTimestamp: '2026-11-23T10:00:00Z' },
    spec: { class: { kind: 'MachineClass', name: 'small' }, ...(providerID !== undefined && { providerID }) },
    status: { currentStatus: { phase: 'Pending' }, lastOperation: { type, state: 'Processing', description } },
  };

  expect(listedMachine(machine)).toMatchObject({ waitsFor });
});

it('prints further rows of a table without its header, in the columns that the kind has', () => {
  const created = '2026-11-23T10:00:00Z';
  const nowMs = Date.parse('2026-11-23T10:00:20Z');
  const table = growingTable('MachineDeployment', { isWide: false, hasNamespaces: true });

  expect(table([{ namespace: 'n', name: 'pool', desired: 2, machines: 1, created }], nowMs).split('\n')).toEqual([
    'NAMESPACE  NAME  DESIRED  MACHINES  OLD  AVAILABLE  FOR  WAITS FOR',
    'n          pool  2        1',
  ]);
  expect(table([{ namespace: 'n', name: 'pool', created, waitsFor: '(gone)' }], nowMs)).toBe(
    'n          pool                                          (gone)',
  );
});

it('lists machines of several namespaces by namespace and name, each with the deployment in its own', () => {
  const meta = (namespace: string, name: string, uid: string) => ({
    ...{ namespace, name, uid, resourceVersion: '1', creationTimestamp: '2026-11-23T10:00:00Z' },
  });
  const ownedBy = (kind: string, uid: string, name = 'pool') => ({
    ownerReferences: [{ apiVersion: 'v1', kind, name, uid, controller: true }],
  });
  const of = (namespace: string) => ({
    deployment: { metadata: meta(namespace, 'pool', `${namespace}-d`), spec: validDeploymentSpec },
    set: {
      metadata: { ...meta(namespace, 'pool-1', `${namespace}-s`), ...ownedBy('MachineDeployment', `${namespace}-d`) },
    },
    machine: {
      metadata: { ...meta(namespace, 'pool-1-x', `${namespace}-m`), ...ownedBy('MachineSet', `${namespace}-s`) },
    },
  });
  const [b, a] = [of('b'), of('a')];
  const owned = {
    deployments: [b.deployment, a.deployment],
    sets: [b.set, a.set],
    machines: [b.machine, a.machine],
  };

  expect(toListed('Machine', owned)).toMatchObject([
    { namespace: 'a', name: 'pool-1-x', deployment: 'pool' },
    { namespace: 'b', name: 'pool-1-x', deployment: 'pool' },
  ]);
  expect(toListed('MachineDeployment', owned)).toMatchObject([
    { namespace: 'a', machines: 1 },
    { namespace: 'b', machines: 1 },
  ]);
});

it('sorts by a field, the objects without it first', () => {
  const objects = (
    [
      ['c', 10, '2'],
      ['a', 9, '1'],
      ['b', undefined, undefined],
    ] as const
  ).map(([name, size, zone]) => ({
    metadata: {
      ...{ name, uid: name, resourceVersion: '1', creationTimestamp: '' },
      ...(zone !== undefined && { labels: { 'example.com/zone': zone } }),
    },
    spec: { size },
  }));
  const namesBy = (path: string) => sortedBy(objects, path)?.map(({ metadata }) => metadata.name);

  expect(namesBy('.metadata.name')).toEqual(['a', 'b', 'c']);
  expect(namesBy('{.spec.size}')).toEqual(['b', 'a', 'c']);
  expect(namesBy('.metadata.labels.example\\.com/zone')).toEqual(['b', 'a', 'c']);
  expect(namesBy('.spec.nothing')).toBeUndefined();
});

it.each(['.metadata.name', 'metadata.name', '{.metadata.name}', '{metadata.name}'])(
  'sorts names as kubectl does, by the numbers in them: --sort-by %s',
  (path) => {
    const sorted = ['a-1-x', 'a-9-y', 'a-09-x', 'a-10-x', 'a1', 'aa', 'b'];
    const objects = sorted.toReversed().map((name) => ({
      metadata: { ...{ name, uid: name, resourceVersion: '1', creationTimestamp: '' } },
    }));
    expect(parseOptions(['sortBy'], { sortBy: path }, {}).sortBy).toBe(path);
    expect(sortedBy(objects, path)?.map(({ metadata }) => metadata.name)).toEqual(sorted);
  },
);

it.each([
  [{ namespace: 'n' }, 'no Machine in namespace n'],
  [{ namespace: 'n', selector: 'a!=b' }, "no Machine in namespace n matches --selector 'a!=b'"],
  [{ allNamespaces: 'true', selector: 'a=b' }, "no Machine in any namespace matches --selector 'a=b'"],
])('says what there is none of, with %j', (given, text) => {
  expect(noneText('Machine', parseOptions(['namespace', 'allNamespaces', 'selector'], given, {}))).toBe(text);
});
