/** What `millwright rollout plan` shows before a change is what the rollout does once it is applied. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { stringify } from 'yaml';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Reflector, startReflector } from '../../kube/reflector.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { recordingLogger } from '../support/kube.ts';
import { isActive, isAvailable } from '../support/machine-facts.ts';
import { startProcess } from '../support/millwright.ts';
import { until } from '../support/until.ts';

interface Planned {
  readonly bounds: { readonly mostMachines: number; readonly leastAvailable: number };
  readonly steps: readonly {
    readonly create: readonly { readonly count: number }[];
    readonly remove: readonly string[];
  }[];
}

describe('a rollout that was planned', () => {
  const replicas = 3;
  let millwright: Installation;
  let folder: string;
  let watch: Reflector<Machine>;
  /** From the moment of the change: `create` for each new machine, and the name of each that is deleted. */
  const done: string[] = [];
  const samples: { readonly total: number; readonly available: number }[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-plan-'));
    millwright = await startInstallation();
    await millwright.createClass('medium');
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    await millwright.createDeployment('pool', replicas, { strategy });
    await until('the first rollout is complete', async (see) => {
      const { status } = see(await millwright.control.get(machineDeployments, key()));
      return status?.conditions?.find(({ type }) => type === 'Progressing')?.reason === 'NewMachineSetAvailable';
    });
  });
  afterAll(async () => {
    await watch?.stop();
    await millwright?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  const key = () => ({ namespace: millwright.namespace, name: 'pool' });

  async function plan(...args: string[]): Promise<{ code: number | null; output: string }> {
    const cluster = ['--target-kubeconfig', fromSetup('MILLWRIGHT_TEST_KUBECONFIG')];
    const { exited, logs } = startProcess(['rollout', 'plan', ...args, '-n', millwright.namespace, ...cluster]);
    const { code } = await exited;
    return { code, output: logs() };
  }

  async function versions(): Promise<string[]> {
    const { control, namespace } = millwright;
    const found = [
      ...(await control.list(machineDeployments, { namespace })).items,
      ...(await control.list(machineSets, { namespace })).items,
      ...(await control.list(machines, { namespace })).items,
    ];
    return found.map(({ metadata: { uid, generation } }) => `${uid} ${generation}`).toSorted();
  }

  it('[invariant 5 partly] creates and deletes what the plan of the manifest says, in its order and within its bounds', async () => {
    const { control, namespace } = millwright;
    const template = { spec: { class: { kind: 'MachineClass', name: 'medium' } } };
    const { apiVersion, kind } = { apiVersion: 'machine.sapcloud.io/v1alpha1', kind: 'MachineDeployment' };
    const file = join(folder, 'changed.yaml');
    await writeFile(file, stringify({ apiVersion, kind, metadata: { name: 'pool' }, spec: { template } }));
    const before = await versions();

    const shown = await plan('-f', file);
    const { code, output } = await plan('-f', file, '-o', 'json');

    expect(await versions()).toEqual(before);
    expect([shown.code, shown.output]).toEqual([
      0,
      expect.stringMatching(
        /^STEP +ACTION +OLD +NEW +LEAVING +MACHINES \(<=4\) +AVAILABLE \(>=3\)\n +now +3 +0 +0 +3 +3$/m,
      ),
    ]);
    expect(code).toBe(0);
    const [planned]: Planned[] = JSON.parse(output).deployments;
    const wanted = planned!.steps.flatMap(({ create, remove }) => [
      ...create.flatMap(({ count }) => Array.from({ length: count }, () => 'create')),
      ...remove,
    ]);
    expect(wanted).toHaveLength(2 * replicas);

    const known = new Set((await millwright.machines()).map(({ metadata }) => metadata.name));
    const leaving = new Set<string>();
    watch = startReflector({
      ...{ client: control, resource: machines, namespace, logger: recordingLogger() },
      onEvent: (event) => {
        if (!('object' in event)) return;
        const { name, deletionTimestamp } = event.object.metadata;
        if (!known.has(name)) done.push('create');
        known.add(name);
        if (deletionTimestamp !== undefined && !leaving.has(name)) done.push(name);
        if (deletionTimestamp !== undefined) leaving.add(name);
        const all = watch?.store.list() ?? [];
        const active = all.filter(isActive);
        if (all.length > 0) samples.push({ total: active.length, available: all.filter(isAvailable).length });
      },
    });
    await until('the watch has begun', () => Promise.resolve(watch.store.reachable));
    samples.splice(0); // while the store filled
    await control.patch(machineDeployments, key(), mergePatch({ spec: { template } }));
    await until(
      'all machines are of the new class',
      async () => {
        const found = await millwright.machines();
        return (
          found.length === replicas && found.every((each) => each.spec?.class?.name === 'medium' && isAvailable(each))
        );
      },
      { describe: () => millwright.story() },
    );

    expect(done).toEqual(wanted);
    const { mostMachines, leastAvailable } = planned!.bounds;
    expect(samples.filter(({ total, available }) => total > mostMachines || available < leastAvailable)).toEqual([]);
    expect(Math.max(...samples.map(({ total }) => total))).toBe(mostMachines);
  });

  it('is shown as nothing to do once it is complete, and refused where the manifest has no deployment', async () => {
    const file = join(folder, 'other.yaml');
    await writeFile(file, stringify({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'pool' } }));

    expect(await plan('pool')).toEqual({ code: 0, output: expect.stringMatching(/pool: no machine would change$/m) });
    expect(await plan('-f', file)).toEqual({
      code: 1,
      output: expect.stringContaining('--filename has no MachineDeployment of machine.sapcloud.io/v1alpha1'),
    });
    const spec = { template: { spec: { class: { kind: 'MachineClass', name: 'nosuch' } } } };
    const manifest = {
      apiVersion: 'machine.sapcloud.io/v1alpha1',
      kind: 'MachineDeployment',
      metadata: { name: 'pool' },
    };
    await writeFile(file, stringify({ ...manifest, spec }));
    expect((await plan('-f', file)).output).toMatch(
      /^warning: no machine can be created: MachineClass "nosuch" does not exist in namespace/m,
    );
    expect(await plan()).toEqual({ code: 2, output: expect.stringContaining('name is missing') });
  });
});
