/** What the objects of a namespace say of its limits, and how far these are used. */
import { describe, expect, it } from '@jest/globals';
import { gardener as api } from '../gardener/index.ts';
import { names } from '../names.ts';
import type { KubeObject } from '../objects.ts';
import { toLimitReading } from './limit-reading.ts';
import { limitText, toLimitWait, waitOf } from './limit-use.ts';
import { limitsOf, problemOfLimits } from './limits.ts';
import type { OwnerDeployment, OwnerSet } from './objects.ts';
import { problemOfDeployment, problemOfSet } from './problem.ts';

const metaOf = (name: string, annotations: Record<string, string> = {}, owner?: string) => ({
  ...{ name, uid: name, resourceVersion: '1', creationTimestamp: '2026-08-19T10:00:00Z', annotations },
  ...(owner !== undefined && {
    ownerReferences: [{ apiVersion: 'v1', kind: 'Owner', name: owner, uid: owner, controller: true }],
  }),
});
const annotated = (annotations: Record<string, string>) => ({ metadata: metaOf('pool', annotations) });
const machineOf = (name: string, set: string | undefined, phase: string, changes: object = {}): KubeObject =>
  ({
    metadata: { ...metaOf(name, {}, set), ...changes },
    status: { currentStatus: { phase } },
  }) as KubeObject;

describe('the annotations of an owner', () => {
  it.each([
    ['none', {}, undefined],
    ['both', { [names.maxSurge]: '5', [names.maxProvisioning]: '12' }, { surge: 5, provisioning: 12 }],
    ['one', { [names.maxSurge]: '1' }, { surge: 1 }],
    ['no number', { [names.maxSurge]: 'five' }, undefined],
  ])('say which limits it takes part in: %s', (_, annotations, limits) => {
    expect(limitsOf(annotated(annotations))).toEqual(limits);
  });

  it.each(['', '0', '-1', '5%', '1.5', 'five', ' 5', '100000'])(
    "are a problem with the value '%s', which names the annotation, the value and the fix",
    (value) => {
      for (const key of [names.maxSurge, names.maxProvisioning]) {
        const problem = `metadata.annotations['${key}'] is '${value}': set it to a whole number from 1 to 99999, or remove it`;
        expect(problemOfLimits(annotated({ [key]: value }))).toBe(problem);
      }
    },
  );

  it('are a problem of a deployment and of a set only with another value', () => {
    const spec = {
      replicas: 1,
      selector: { matchLabels: { name: 'pool' } },
      template: { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: 'small' } } },
    };
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    const problems = ['5', '0'].map((value) => {
      const owner = { ...annotated({ [names.maxSurge]: value }), spec };
      return [problemOfDeployment(api, { ...owner, spec: { ...spec, strategy } }, []), problemOfSet(api, owner)];
    });
    expect(problems).toEqual([
      [undefined, undefined],
      [expect.any(String), expect.any(String)],
    ]);
  });
});

describe('the use of the limits of a namespace', () => {
  const pool: OwnerDeployment = {
    metadata: metaOf('pool', { [names.maxSurge]: '5', [names.maxProvisioning]: '4' }),
    spec: { replicas: 2 },
  };
  const other: OwnerDeployment = { metadata: metaOf('other', { [names.maxSurge]: '3' }), spec: { replicas: 1 } };
  const rest: OwnerDeployment = { metadata: metaOf('rest'), spec: { replicas: 1 } };
  const sets: OwnerSet[] = [
    { metadata: metaOf('pool-old', {}, 'pool'), spec: { replicas: 2 } },
    { metadata: metaOf('pool-new', { [names.creating]: 'id:new-1,new-2,new-3' }, 'pool'), spec: { replicas: 3 } },
    { metadata: metaOf('other-1', {}, 'other'), spec: { replicas: 1 } },
    { metadata: metaOf('rest-1', {}, 'rest'), spec: { replicas: 1 } },
    { metadata: metaOf('lone', { [names.maxProvisioning]: '2' }), spec: { replicas: 2 } },
  ];
  const deletionTimestamp = '2026-08-19T10:00:00Z';
  const machines = [
    machineOf('old-1', 'pool-old', 'Running'),
    machineOf('old-2', 'pool-old', 'Terminating', { deletionTimestamp }),
    machineOf('new-1', 'pool-new', 'Pending'),
    { ...machineOf('named', 'pool-new', ''), spec: { providerID: 'x:///named' } },
    machineOf('new-0', 'pool-new', 'Terminating', {
      deletionTimestamp,
      annotations: { [names.replaced]: 'true' },
    }),
    machineOf('other-1-a', 'other-1', 'CrashLoopBackOff'),
    machineOf('rest-1-a', 'rest-1', 'Running'),
    machineOf('lone-a', 'lone', ''),
    machineOf('alone', undefined, 'Pending'),
  ];
  const reading = toLimitReading(api, { deployments: [pool, other, rest], sets, machines });

  it('counts machines that do not run yet, surge, what is missing and what is recorded, for each owner with any of it', () => {
    expect(reading.uses).toEqual([
      {
        ...{ kind: 'MachineDeployment', name: 'pool', uid: 'pool', limits: { surge: 5, provisioning: 4 } },
        // A Failed machine that is being replaced is no surge, one that is being deleted is.
        ...{ provisioning: 2, surplus: 2, wanted: 2, pending: ['new-2', 'new-3'] },
      },
      {
        ...{ kind: 'MachineDeployment', name: 'other', uid: 'other', limits: { surge: 3 } },
        ...{ provisioning: 1, surplus: 0, wanted: 0, pending: [] },
      },
      {
        ...{ kind: 'MachineSet', name: 'lone', uid: 'lone', limits: { provisioning: 2 } },
        ...{ provisioning: 1, surplus: -1, wanted: 1, pending: [] },
      },
      {
        ...{ kind: 'Machine', name: 'machines without a set', uid: '', provisioning: 1, surplus: 0 },
        ...{ wanted: 0, pending: [] },
      },
    ]);
  });

  it('is bounded by the lowest values', () => {
    expect(reading.limits).toEqual({ surge: 3, provisioning: 2 });
  });

  it('is told to people with its holders', () => {
    const [own] = reading.uses;
    const wait = own && waitOf(reading, own);
    expect(wait && limitText(wait)).toBe(
      "the namespace's limit of machines that do not run yet, 5 of 2 used: pool 2, other 1, lone 1, machines without a set 1",
    );
    const many = {
      limits: { surge: 1 },
      uses: Array.from({ length: 12 }, (_, i) => ({ ...own!, surplus: i, uid: `${i}` })),
    };
    expect(limitText(toLimitWait('surge', many, '3', () => 0))).toMatch(
      /^the namespace's limit of surge machines, 66 of 1 used: pool 11, .*, 1 more$/,
    );
  });
});
