/** Machines and their owners on CRDs that accept whatever those of machine-controller-manager do. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { customResourceDefinitions } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { type OwnClusters, startOwnClusters } from '../support/own-cluster.ts';
import { quickSweeps, sweep } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

/** What a structural schema says beyond types. */
const rules = new Set([
  ...['x-kubernetes-validations', 'required', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'enum'],
]);

function withoutRules(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutRules);
  if (typeof schema !== 'object' || schema === null) return schema;
  const kept = Object.entries(schema).filter(([key]) => !rules.has(key));
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutRules(value)]));
}

const template = { metadata: { labels: { name: 'pool' } }, spec: { class: { kind: 'MachineClass', name: 'small' } } };
const limited = (limits: object) => ({ ...template, spec: { ...template.spec, ...limits } });
const selector = { matchLabels: { name: 'pool' } };
const rolling = (maxSurge: unknown) => ({ type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable: 0 } });
const wrong = {
  'no-selector': { spec: { selector: undefined }, says: 'spec.selector is missing' },
  'another-selector': {
    spec: { selector: { matchLabels: { name: 'x' } } },
    says: 'spec.selector.matchLabels has name=x',
  },
  'no-template': { spec: { template: undefined }, says: 'spec.template.metadata.labels is empty' },
  'no-strategy': { spec: { strategy: undefined }, says: "spec.strategy.type is ''" },
  'another-strategy': { spec: { strategy: { type: 'rolling' } }, says: "spec.strategy.type is 'rolling'" },
  'no-surge': { spec: { strategy: rolling(undefined) }, says: "spec.strategy.rollingUpdate.maxSurge is ''" },
  'odd-surge': { spec: { strategy: rolling('many') }, says: "spec.strategy.rollingUpdate.maxSurge is 'many'" },
  'odd-timeout': {
    spec: { template: limited({ drainTimeout: 'soon' }) },
    says: 'spec.template.spec.drainTimeout is "soon"',
  },
  'negative-timeout': {
    spec: { template: limited({ creationTimeout: '-5m' }) },
    says: 'spec.template.spec.creationTimeout is "-5m"',
  },
  'negative-retries': {
    spec: { template: limited({ maxEvictRetries: -1 }) },
    says: 'spec.template.spec.maxEvictRetries is -1',
  },
  'negative-surge': { spec: { strategy: rolling(-1) }, says: "spec.strategy.rollingUpdate.maxSurge is '-1'" },
} as const;

describe('[mcm 4] what no schema refuses changes no machine and says why', () => {
  let own: OwnClusters;
  let millwright: Installation;

  beforeAll(async () => {
    own = await startOwnClusters(['lax']); // other tests install the CRDs again
    millwright = await startInstallation({ kubeconfig: own.clusters[0]!.kubeconfig, flags: quickSweeps });
    for (const kind of ['machinedeployments', 'machinesets', 'machines', 'machineclasses']) {
      const key = { name: `${kind}.machine.sapcloud.io` };
      const { spec } = await millwright.control.get(customResourceDefinitions, key);
      await millwright.control.patch(
        customResourceDefinitions,
        key,
        mergePatch({ spec: withoutRules(spec) as object }),
      );
    }
  });
  afterAll(async () => {
    await millwright?.stop();
    await own?.stop();
  });

  async function untilAccepted(create: () => Promise<unknown>): Promise<void> {
    await until('the server goes by the other schema', async () =>
      create()
        .then(() => true)
        .catch(() => undefined),
    );
  }

  async function untilTold(name: string): Promise<MachineDeployment> {
    return until(
      `${name} says what is wrong`,
      async () => {
        const found = await millwright.control.get(machineDeployments, { namespace: millwright.namespace, name });
        return found.status?.conditions?.some(({ reason }) => reason === 'InvalidSpec') ? found : undefined;
      },
      { describe: () => millwright.story() },
    );
  }

  it('as a MachineDeployment, in whatever way it is wrong, and others get their machines', async () => {
    const { control, namespace } = millwright;
    for (const [name, { spec }] of Object.entries(wrong)) {
      await untilAccepted(() => millwright.createDeployment(name, 1, { selector, template, ...spec }));
    }
    await millwright.createDeployment('right', 1);

    for (const [name, { says }] of Object.entries(wrong)) {
      const { metadata, status } = await untilTold(name);
      expect(status?.conditions).toContainEqual(
        expect.objectContaining({ type: 'Progressing', status: 'False', message: expect.stringContaining(says) }),
      );
      expect(status?.observedGeneration).toBe(metadata.generation);
      await millwright.untilEvent(name, 'InvalidSpec', says);
    }
    const [machine] = await millwright.untilMachines(1, 'Running');
    expect(machine?.metadata.name).toMatch(/^right-/);
    await until('its deployment says so', async (see) => {
      const { status } = see(await control.get(machineDeployments, { namespace, name: 'right' }));
      return status?.conditions?.find((each) => each.type === 'Available' && each.status === 'True');
    });
    expect((await control.list(machineSets, { namespace })).items).toHaveLength(1);
  });

  it('as one that was right before: its machines stay as they are until it is mended', async () => {
    const { control, namespace } = millwright;
    const key = { namespace, name: 'right' };
    await control.patch(machineDeployments, key, mergePatch({ spec: { selector: null, replicas: 0 } }));
    expect((await untilTold('right')).status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Available', status: 'True' }),
    );
    const [machine, ...more] = await millwright.machines();
    expect(more).toEqual([]);
    expect([machine && phaseOf(machine), machine?.metadata.deletionTimestamp]).toEqual(['Running', undefined]);

    await control.patch(
      machineDeployments,
      key,
      mergePatch({ spec: { selector: { matchLabels: { name: 'right' } } } }),
    );
    await millwright.untilMachines(0, '');
  });

  it('as the provider of a class, whose Machine can be deleted, and which stops no sweep of other classes, as large ones do not', async () => {
    const provider = 'x'.repeat(1_100); // Temporal refuses a task queue of that name
    await untilAccepted(() => millwright.createClass('long', { provider }));
    const ref = await millwright.createMachine('of-long', { class: { kind: 'MachineClass', name: 'long' } });
    await until('it says so', async (see) => {
      const { lastOperation } = see(await millwright.control.get(machines, ref)).status ?? {};
      return lastOperation?.description?.includes('provider has 1100 characters, and 200 is the most');
    });
    const large = ['large-1', 'large-2', 'large-3'];
    for (const name of large) await millwright.createClass(name, { providerSpec: { text: 'x'.repeat(900_000) } });
    const { report } = await sweep(millwright, '--dry-run');
    const errorOf = (name: string) => report.groups.find(({ sources }) => sources.includes(name))?.error;
    expect(errorOf('long')).toMatchObject({ code: 'InvalidArgument' });
    const message = expect.stringContaining('providerSpec has 900011 bytes as JSON');
    for (const name of large) expect(errorOf(name)).toEqual({ code: 'InvalidArgument', message });
    expect(report.groups.find(({ sources }) => sources.includes('small'))).not.toHaveProperty('error');

    await millwright.control.delete(machines, ref);
    await millwright.untilGone(ref);
  });

  it('as a MachineSet without a deployment', async () => {
    const { control, namespace } = millwright;
    const metadata = { namespace, name: 'lone' };
    await untilAccepted(() => control.create(machineSets, { metadata, spec: { replicas: 1, template } } as never));

    const reported = await until('it says what is wrong', async (see) => {
      const { status } = see(await control.get(machineSets, metadata));
      return status?.machineSetCondition?.find(({ reason }) => reason === 'InvalidSpec');
    });
    expect(reported).toMatchObject({
      type: 'ReplicaFailure',
      message: expect.stringContaining('spec.selector is missing'),
    });
    await millwright.untilEvent(metadata.name, 'InvalidSpec', 'spec.selector is missing');
    expect(await millwright.machines()).toEqual([]);

    await control.patch(machineSets, metadata, mergePatch({ spec: { selector } }));
    await millwright.untilMachines(1, 'Running');
  });

  it.each([
    { field: 'creationTimeout', value: 'soon', says: 'spec.creationTimeout is "soon"' },
    { field: 'healthTimeout', value: '-5m', says: 'spec.healthTimeout is "-5m"' },
    { field: 'maxEvictRetries', value: -1, says: 'spec.maxEvictRetries is -1' },
  ])(
    'as a Machine with $field $value, which gets its VM when it is mended, and is deleted also when it is not',
    async ({ field, value, says }) => {
      const spec = { class: { kind: 'MachineClass', name: 'small' }, [field]: value };
      const ref = await until('the server goes by the other schema', () =>
        millwright.createMachine(`odd-${field.toLowerCase()}`, spec).catch(() => undefined),
      );
      const { status } = await millwright.untilPhase(ref, 'CrashLoopBackOff');
      expect(status?.lastOperation?.description).toContain(says);
      await millwright.untilEvent(ref.name, 'FailedCreate', says);
      expect(await millwright.vmsOf(ref)).toEqual([]);

      await millwright.control.patch(machines, ref, mergePatch({ spec: { [field]: null } }));
      await millwright.untilPhase(ref, 'Running');
      await millwright.control.patch(machines, ref, mergePatch({ spec: { [field]: value } }));
      await millwright.control.delete(machines, ref);
      await millwright.untilGone(ref);
      expect((await millwright.vmsOf(ref)).filter(({ alive }) => alive)).toEqual([]);
    },
  );
});
