import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { toCrd } from '../api/crds.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import type { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import { machineDeploymentDefinition } from '../api/gardener/schema/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/schema/machine-set.ts';
import { defineResource, type Resource } from '../api/objects.ts';
import { installCrd } from '../deploy/local/crds.ts';
import { createKubeClient, type KubeClient } from '../kube/client.ts';
import { loadKubeconfig } from '../kube/config.ts';
import { customResourceDefinitions, namespaces } from '../kube/core.ts';
import { StatusError } from '../kube/errors.ts';
import { mergePatch } from '../kube/patch.ts';
import { until } from './support/until.ts';
import { validDeploymentSpec, validSetSpec, validTemplate } from './support/valid.ts';

const kubeconfig = process.env.MILLWRIGHT_TEST_KUBECONFIG ?? '';
const suffix = randomBytes(4).toString('hex');
const namespace = `validation-${suffix}`;
let client: KubeClient;

beforeAll(async () => {
  client = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'test', qps: 500, burst: 500 });
  await client.create(namespaces, { metadata: { name: namespace } });
});

afterAll(() => client.close());

let made = 0;
function newMetadata() {
  made += 1;
  return { namespace, name: `object-${made}` };
}

/** `field: message` of all that the server finds wrong. Fails when it accepts the object. */
async function refusal<T extends MachineSet | MachineDeployment>(resource: Resource<T>, spec?: T['spec']) {
  const object = { metadata: newMetadata(), ...(spec && { spec }) } as never;
  const error = await client.create(resource, object).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof StatusError)) throw error ?? new Error('the server has accepted the object');
  return (error.status.details?.causes ?? []).map(({ field, message }) => `${field}: ${message}`);
}

describe('what the controllers of the original only log is refused with field, value and fix', () => {
  const notAmong = 'must be among template.metadata.labels: give the template the same labels';
  const cases = [
    {
      what: 'negative replicas',
      wrong: { replicas: -1 },
      says: '.spec.replicas: Invalid value: -1: should be a non-negative integer',
    },
    {
      what: 'no selector',
      wrong: { selector: undefined },
      says: 'spec.selector: Required value: set selector.matchLabels to labels that template.metadata.labels has',
    },
    {
      what: 'a selector that the template does not match',
      wrong: { selector: { matchLabels: { pool: 'b' } } },
      says: `spec.selector.matchLabels: Invalid value: "object": ${notAmong}`,
    },
    {
      what: 'a selector and a template without labels',
      wrong: { template: { spec: validTemplate.spec } },
      says: `spec.selector.matchLabels: Invalid value: "object": ${notAmong}`,
    },
    {
      what: 'no class.kind',
      wrong: { template: { ...validTemplate, spec: { class: { name: 'small' } } } },
      says: 'spec.template.spec.class.kind: Required value: set it to `MachineClass`',
    },
    {
      what: 'an empty class.name',
      wrong: { template: { ...validTemplate, spec: { class: { kind: 'MachineClass', name: '' } } } },
      says: 'spec.template.spec.class.name: Required value: set it to the name of a MachineClass in the same namespace',
    },
    {
      what: 'a timeout that is no duration',
      wrong: { template: { ...validTemplate, spec: { ...validTemplate.spec, drainTimeout: '2 hours' } } },
      says:
        'spec.template.spec.drainTimeout: Invalid value: "string": ' +
        "must be a Go duration such as 90s, 20m or 1h30m, not '2 hours'",
    },
  ];

  it.each(cases)('[mcm 4 partly] MachineSet: $what', async ({ wrong, says }) => {
    expect(await refusal(machineSets, { ...validSetSpec, ...wrong })).toEqual([says]);
  });

  it.each(cases)('[mcm 4 partly] MachineDeployment: $what', async ({ wrong, says }) => {
    expect(await refusal(machineDeployments, { ...validDeploymentSpec, ...wrong })).toEqual([says]);
  });

  const types = 'must be one of RollingUpdate, Recreate, InPlaceUpdate';
  const bound = "must be a number of 0 or more, or a percentage such as '25%'";
  it.each([
    { what: 'no type', strategy: {}, says: `type: Invalid value: "object": ${types}, not ''` },
    {
      what: 'an unknown type',
      strategy: { type: 'Rolling' },
      says: `type: Invalid value: "object": ${types}, not 'Rolling'`,
    },
    {
      what: 'no maxSurge',
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0 } },
      says: `rollingUpdate.maxSurge: Invalid value: "object": ${bound} (for type RollingUpdate), not ''`,
    },
    {
      what: 'a negative maxSurge',
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: -1, maxUnavailable: 0 } },
      says: `rollingUpdate.maxSurge: Invalid value: "object": ${bound} (for type RollingUpdate), not '-1'`,
    },
    {
      what: 'a maxUnavailable that is a number in a string',
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: '5' } },
      says: `rollingUpdate.maxUnavailable: Invalid value: "object": ${bound} (for type RollingUpdate), not '5'`,
    },
    {
      what: 'a negative percentage in place',
      strategy: {
        type: 'InPlaceUpdate',
        inPlaceUpdate: { maxSurge: 0, maxUnavailable: '-5%', orchestrationType: 'Auto' },
      },
      says: `inPlaceUpdate.maxUnavailable: Invalid value: "object": ${bound} (for type InPlaceUpdate), not '-5%'`,
    },
    {
      what: 'an unknown orchestrationType',
      strategy: { type: 'InPlaceUpdate', inPlaceUpdate: { maxSurge: 0, maxUnavailable: 1, orchestrationType: 'auto' } },
      says: `inPlaceUpdate.orchestrationType: Invalid value: "object": must be one of Auto, Manual (for type InPlaceUpdate), not 'auto'`,
    },
  ])('[mcm 4 partly] strategy: $what', async ({ strategy, says }) => {
    expect(await refusal(machineDeployments, { ...validDeploymentSpec, strategy })).toEqual([`spec.strategy.${says}`]);
  });

  it('[mcm 4 partly] strategy: none, or without the block of its type', async () => {
    const { strategy: _, ...without } = validDeploymentSpec;

    expect(await refusal(machineDeployments, without)).toEqual([
      'spec.strategy: Required value: set strategy.type to one of RollingUpdate, Recreate, InPlaceUpdate',
    ]);
    expect(await refusal(machineDeployments, { ...without, strategy: { type: 'RollingUpdate' } })).toHaveLength(2);
    expect(await refusal(machineDeployments, { ...without, strategy: { type: 'InPlaceUpdate' } })).toHaveLength(3);
  });

  it('[mcm 4 partly] no spec at all', async () => {
    const says = ['spec: Required value: set spec.selector, spec.template and spec.replicas'];

    expect(await refusal(machineSets)).toEqual(says);
    expect(await refusal(machineDeployments)).toEqual(says);
  });
});

describe('what the original accepts is accepted', () => {
  it.each([
    { what: 'no spec', spec: undefined },
    { what: 'no class', spec: {} },
    { what: 'a class without kind and name', spec: { class: {} } },
  ])('a Machine with $what, so that its status can say what is wrong', async ({ spec }) => {
    await client.create(machines, { metadata: newMetadata(), ...(spec && { spec }) });
  });

  it('a MachineClass whose nodeTemplate lacks cpu, gpu and memory', async () => {
    const nodeTemplate = { capacity: {}, instanceType: '', region: '', zone: '' };

    await client.create(machineClasses, { metadata: newMetadata(), nodeTemplate, providerSpec: {} });
  });

  it('a MachineSet without replicas, or with an empty selector', async () => {
    const { replicas: _, ...without } = validSetSpec;

    await client.create(machineSets, { metadata: newMetadata(), spec: without });
    await client.create(machineSets, { metadata: newMetadata(), spec: { ...validSetSpec, selector: {} } });
  });

  it.each([
    { what: 'an empty selector', changed: { selector: {} } },
    {
      what: 'match expressions that the template does not match',
      changed: { selector: { matchExpressions: [{ key: 'pool', operator: 'DoesNotExist' }] } },
    },
    {
      what: 'a class of any kind',
      changed: { template: { ...validTemplate, spec: { class: { kind: 'A', name: 'b' } } } },
    },
    { what: 'bounds of 0 and 0', changed: { strategy: rollingUpdate(0, 0) } },
    { what: 'percentages', changed: { strategy: rollingUpdate('25%', '150%') } },
    {
      what: 'Recreate, with whatever is in the block of another type',
      changed: { strategy: { type: 'Recreate', rollingUpdate: { maxSurge: 'many' } } },
    },
    {
      what: 'Manual in-place updates',
      changed: {
        strategy: {
          type: 'InPlaceUpdate',
          inPlaceUpdate: { maxSurge: 0, maxUnavailable: '10%', orchestrationType: 'Manual' },
        },
      },
    },
  ])('a MachineDeployment with $what', async ({ changed }) => {
    await client.create(machineDeployments, { metadata: newMetadata(), spec: { ...validDeploymentSpec, ...changed } });
  });

  function rollingUpdate(maxSurge: number | string, maxUnavailable: number | string) {
    return { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } };
  }
});

describe('a MachineDeployment that was invalid before these CRDs came', () => {
  // A group of its own, as the CRDs of the real one are shared with other tests.
  const resource = { ...machineDeploymentDefinition.resource, group: `${suffix}.example.com` };
  const deployments = defineResource<MachineDeployment>({ ...resource, namespaced: true });
  const crd = toCrd({ ...machineDeploymentDefinition, resource });
  const invalid = { template: {} };

  beforeAll(async () => {
    const lenient = JSON.parse(JSON.stringify(crd), (key, value) =>
      key === 'x-kubernetes-validations' ? undefined : value,
    );
    await installCrd(client, lenient);
    const metadata = { namespace, name: 'old', finalizers: ['example.com/keep'] };
    await client.create(deployments, { metadata, spec: invalid });
    await installCrd(client, crd);
    // The server takes a new schema up some time after it has answered.
    let attempt = 0;
    await until('the new schema is in force', async (see) => !see(await isAccepted(`new-${++attempt}`)));
  });

  afterAll(() => client.delete(customResourceDefinitions, { name: crd.metadata.name }));

  async function isAccepted(name: string): Promise<boolean> {
    return client.create(deployments, { metadata: { namespace, name }, spec: invalid }).then(
      () => true,
      () => false,
    );
  }

  it('still takes a status and loses its finalizer, so that it can be deleted', async () => {
    const key = { namespace, name: 'old' };
    await client.patch(deployments, key, mergePatch({ status: { replicas: 1 } }), { subresource: 'status' });
    await client.delete(deployments, key);
    await client.patch(deployments, key, mergePatch({ metadata: { finalizers: null } }));

    expect(await client.find(deployments, key)).toBeUndefined();
  });
});
