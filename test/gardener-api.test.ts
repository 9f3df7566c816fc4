import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type StructuralSchema, toStructuralSchema } from '../api/crds.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../api/gardener/resources.ts';
import { Machine } from '../api/gardener/schema/machine.ts';
import { MachineClass } from '../api/gardener/schema/machine-class.ts';
import { MachineDeployment } from '../api/gardener/schema/machine-deployment.ts';
import { MachineSet } from '../api/gardener/schema/machine-set.ts';
import type { KubeObject, NewObject, Resource } from '../api/objects.ts';
import { verdictAnnotations } from '../api/verdict.ts';
import { findServer } from '../deploy/local/servers.ts';
import { createKubeClient, type KubeClient } from '../kube/client.ts';
import { loadKubeconfig } from '../kube/config.ts';
import { customResourceDefinitions, namespaces } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import {
  maximalClass,
  maximalDeploymentSpec,
  maximalDeploymentStatus,
  maximalMachineSpec,
  maximalMachineStatus,
  maximalSetSpec,
  maximalSetStatus,
} from './support/maximal.ts';
import { validDeploymentSpec, validSetSpec } from './support/valid.ts';

const kubeconfig = process.env.MILLWRIGHT_TEST_KUBECONFIG ?? '';
const suffix = randomBytes(4).toString('hex');
const namespace = `api-${suffix}`;
let client: KubeClient;
let kubectlPath: string;

beforeAll(async () => {
  client = createKubeClient({ access: loadKubeconfig(kubeconfig), userAgent: 'test', qps: 500, burst: 500 });
  kubectlPath = await findServer('kubectl');
  await client.create(namespaces, { metadata: { name: namespace } });
});

afterAll(() => client.close());

async function kubectl(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(kubectlPath, ['--kubeconfig', kubeconfig, '-n', namespace, ...args]);
  return stdout;
}

let made = 0;
function newMetadata() {
  made += 1;
  return { namespace, name: `object-${made}` };
}

describe('[mcm 1] the four kinds', () => {
  // The table of machine-controller-manager: names, subresources, and columns as name=path, in their order. It has no
  // columns of classes, so kubectl shows their age alone.
  it.each([
    {
      plural: 'machineclasses',
      kind: 'MachineClass',
      shortName: 'mcc',
      subresources: [],
      columns: [
        'Provider=.provider',
        'Accepted=.metadata.annotations.millwright\\.dev/accepted',
        'Age=.metadata.creationTimestamp',
      ],
    },
    {
      plural: 'machines',
      kind: 'Machine',
      shortName: 'mc',
      subresources: ['status'],
      columns: [
        'Status=.status.currentStatus.phase',
        'Age=.metadata.creationTimestamp',
        'Node=.metadata.labels.node',
        'ProviderID=.spec.providerID, wide only',
      ],
    },
    {
      plural: 'machinesets',
      kind: 'MachineSet',
      shortName: 'mcs',
      subresources: ['status', 'scale'],
      columns: [
        'Desired=.spec.replicas',
        'Current=.status.replicas',
        'Ready=.status.readyReplicas',
        'Age=.metadata.creationTimestamp',
      ],
    },
    {
      plural: 'machinedeployments',
      kind: 'MachineDeployment',
      shortName: 'mcd',
      subresources: ['status', 'scale'],
      columns: [
        'Ready=.status.readyReplicas',
        'Desired=.spec.replicas',
        'Up-to-date=.status.updatedReplicas',
        'Available=.status.availableReplicas',
        'Age=.metadata.creationTimestamp',
      ],
    },
  ])(
    '$kind has the names and subresources of the original and all of its columns',
    async ({ plural, kind, shortName, subresources, columns }) => {
      const { spec, status } = await client.get(customResourceDefinitions, { name: `${plural}.machine.sapcloud.io` });
      const [version, ...others] = spec.versions;

      expect(status?.acceptedNames).toEqual({
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [shortName],
      });
      expect(status?.conditions).toContainEqual(expect.objectContaining({ type: 'NamesAccepted', status: 'True' }));
      expect(others).toEqual([]);
      expect(version).toMatchObject({ name: 'v1alpha1', served: true, storage: true });
      expect(Object.keys(version?.subresources ?? {}).toSorted()).toEqual(subresources.toSorted());
      expect(version?.subresources?.scale?.labelSelectorPath).toBeUndefined();
      expect(
        (version?.additionalPrinterColumns ?? []).map(
          ({ name, jsonPath, priority }) => `${name}=${jsonPath}${priority === 1 ? ', wide only' : ''}`,
        ),
      ).toEqual(columns);
    },
  );

  it('are printed by kubectl with their columns, for a short name', async () => {
    const metadata = newMetadata();
    const labels = { node: 'node-1' };
    await client.create(machines, { metadata: { ...metadata, labels }, spec: { providerID: 'sim:///vm-1' } });
    const status = { currentStatus: { phase: 'Running' } };
    await client.patch(machines, metadata, mergePatch({ status }), { subresource: 'status' });

    const table = await kubectl('get', 'mc', metadata.name, '-o', 'wide');

    expect(table).toMatch(/^NAME +STATUS +AGE +NODE +PROVIDERID\n/);
    expect(table).toMatch(/^object-\d+ +Running +\d+s +node-1 +sim:\/\/\/vm-1\n$/m);
  });

  it('are printed by kubectl with the provider of each class, and whether it was accepted', async () => {
    const metadata = {
      ...newMetadata(),
      annotations: verdictAnnotations({ version: '1', problems: ['size is huge'] }),
    };
    await client.create(machineClasses, { metadata, provider: 'AWS', providerSpec: {} });

    expect(await kubectl('get', 'mcc', metadata.name)).toMatch(
      /^NAME +PROVIDER +ACCEPTED +AGE\nobject-\d+ +AWS +false +\d+s\n$/,
    );
  });

  /** Paths of all fields below a value or a schema; lists and maps do not count as a level. */
  function pathsOf(schema: StructuralSchema, path: string): string[] {
    const element = schema.items ?? schema.additionalProperties;
    if (element) return [path, ...pathsOf(element, path)];
    return [
      path,
      ...Object.entries(schema.properties ?? {}).flatMap(([name, below]) => pathsOf(below, `${path}.${name}`)),
    ];
  }

  function has(value: unknown, [name, ...below]: string[]): boolean {
    if (name === undefined) return value !== undefined;
    if (Array.isArray(value)) return value.some((item) => has(item, [name, ...below]));
    return typeof value === 'object' && value !== null && has((value as Record<string, unknown>)[name], below);
  }

  it.each([
    { kind: 'MachineClass', schema: MachineClass, object: maximalClass },
    { kind: 'Machine', schema: Machine, object: { spec: maximalMachineSpec, status: maximalMachineStatus } },
    { kind: 'MachineSet', schema: MachineSet, object: { spec: maximalSetSpec, status: maximalSetStatus } },
    {
      kind: 'MachineDeployment',
      schema: MachineDeployment,
      object: { spec: maximalDeploymentSpec, status: maximalDeploymentStatus },
    },
  ])('are sent by these tests with every field that the original knows ($kind)', ({ schema, object }) => {
    const missing = pathsOf(toStructuralSchema(schema), '').filter((path) => !has(object, path.split('.').slice(1)));

    expect(missing).toEqual([]);
  });

  it('keep every field of a MachineClass', async () => {
    const metadata = newMetadata();
    await client.create(machineClasses, { metadata, ...maximalClass }, { fieldValidation: 'Strict' });

    expect(await client.get(machineClasses, metadata)).toMatchObject(maximalClass);
  });

  it('keep every field of a Machine', async () => {
    await survives(machines, { spec: maximalMachineSpec }, maximalMachineStatus);
  });

  it('keep every field of a MachineSet', async () => {
    await survives(machineSets, { spec: maximalSetSpec }, maximalSetStatus);
  });

  it('keep every field of a MachineDeployment', async () => {
    await survives(machineDeployments, { spec: maximalDeploymentSpec }, maximalDeploymentStatus);
  });

  async function survives<T extends KubeObject & { spec?: unknown; status?: unknown }>(
    resource: Resource<T>,
    fields: { spec: object },
    status: object,
  ) {
    const metadata = newMetadata();
    await client.create(resource, { metadata, ...fields, status } as unknown as NewObject<T>, {
      fieldValidation: 'Strict',
    });
    const created = await client.get(resource, metadata);
    expect(created.spec).toEqual(fields.spec);
    expect(created.status).toBeUndefined(); // the status subresource alone writes it

    await client.patch(resource, metadata, mergePatch({ status }), {
      subresource: 'status',
      fieldValidation: 'Strict',
    });
    const { spec, status: written } = await client.get(resource, metadata);
    expect(spec).toEqual(fields.spec);
    expect(written).toEqual(status);
  }

  it('may have null or empty fields, as the Go client of the original writes what is not set', async () => {
    const metadata = newMetadata();
    const object = {
      apiVersion: 'machine.sapcloud.io/v1alpha1',
      kind: 'MachineSet',
      metadata: { ...metadata, creationTimestamp: null },
      spec: {
        machineClass: {},
        selector: { matchLabels: { a: 'b' } },
        template: {
          metadata: { creationTimestamp: null, labels: { a: 'b' } },
          spec: {
            class: { kind: 'MachineClass', name: 'small' },
            nodeTemplate: { metadata: { creationTimestamp: null }, spec: {} },
          },
        },
      },
      status: { lastOperation: { lastUpdateTime: null } },
    };
    await client.create(machineSets, object as unknown as NewObject<MachineSetObject>, { fieldValidation: 'Strict' });

    const { spec } = await client.get(machineSets, metadata);
    expect(spec).toEqual(object.spec);
  });
});

type MachineSetObject = NonNullable<(typeof machineSets)['__object']>;

describe('kubectl scale', () => {
  it.each([
    { shortName: 'mcd', resource: machineDeployments, spec: validDeploymentSpec },
    { shortName: 'mcs', resource: machineSets, spec: validSetSpec },
  ])('[mcm 2] changes the replicas of $shortName, and the scale shows those of the status', async (row) => {
    const { shortName, spec } = row;
    const resource = row.resource as typeof machineSets;
    const metadata = newMetadata();
    await client.create(resource, { metadata, spec });
    await client.patch(resource, metadata, mergePatch({ status: { replicas: 2 } }), { subresource: 'status' });

    await kubectl('scale', shortName, metadata.name, '--replicas=7', '--current-replicas=1');

    expect((await client.get(resource, metadata)).spec?.replicas).toBe(7);
    const path = `/apis/machine.sapcloud.io/v1alpha1/namespaces/${namespace}/${resource.plural}/${metadata.name}/scale`;
    expect(await client.getRaw(path)).toMatchObject({ spec: { replicas: 7 }, status: { replicas: 2 } });
  });
});
