/** People with rights on one kind of object, or on Temporal, try to reach further: see docs/security.md. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { gardener } from '../../api/gardener/index.ts';
import { labels } from '../../api/gardener/names.ts';
import { machineClasses, machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { names } from '../../api/names.ts';
import type { KubeObject, Resource } from '../../api/objects.ts';
import { noLimits } from '../../cli/dialect.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { refOf } from '../support/refs.ts';
import { becomeEditor, controlPlane, createStranger, expectUntouched } from '../support/strangers.ts';
import { makeVm } from '../support/sweeps.ts';
import { until } from '../support/until.ts';

/** What the Secrets have that the person may not read. */
const stolen = 'TOP-SECRET';

let millwright: Installation;
/** The person. */
let attacker: KubeClient;
let listener: Server;
let url: string;
/** Requests that have reached the listener. */
let heard: string[];
/** What the listener answers. */
let status: number;

beforeAll(async () => {
  millwright = await startInstallation({ flags: ['--providers', 'simulated,aws'] });
  const { namespace, control } = millwright;
  attacker = await becomeEditor(millwright, machines);
  await millwright.putSecret('database', { token: stolen });
  await millwright.putSecret('cloud', { providerAccessKeyId: stolen, providerSecretAccessKey: stolen });
  for (const other of ['kube-system', 'default'])
    await control.create(secrets, {
      metadata: { namespace: other, name: `attacker-${namespace}` },
      stringData: { token: stolen },
    });

  listener = createServer(async (request, response) => {
    const { method, url: path, headers } = request;
    heard.push(`${method} ${path} ${headers.authorization} ${await text(request)}`);
    response.writeHead(status, { 'content-type': 'application/json' }).end('{"items":[]}');
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/internal`;
});
afterAll(async () => {
  for (const namespace of ['kube-system', 'default'])
    await millwright?.control.delete(secrets, { namespace, name: `attacker-${millwright.namespace}` });
  await attacker?.close();
  await millwright?.stop();
  listener?.close();
});
beforeEach(() => {
  [heard, status] = [[], 200];
});

/** A place as the annotation has it. */
const placeWith = (secret: { namespace?: string; name: string }, change: object = {}) => ({
  provider: 'simulated',
  providerSpec: { endpoint: url, machineType: 'small', region: 'here', tags: { cluster: millwright.namespace } },
  credentials: [{ namespace: millwright.namespace, ...secret }],
  ...change,
});

const annotations = (places: readonly object[]) => ({ [names.places]: JSON.stringify(places) });

/** What the Machine says of its deletion, once it is refused or the listener has heard of it. */
async function outcomeOf(ref: Pick<ObjectRef, 'namespace' | 'name'>): Promise<string> {
  return until('the deletion is refused, or was heard of', async (see) => {
    const { lastOperation } = see(await millwright.control.find(machines, ref))?.status ?? {};
    return (heard.length > 0 || lastOperation?.state === 'Failed') && (lastOperation?.description ?? '');
  });
}

describe('who may edit Machines, and nothing else,', () => {
  it('may read no Secret', async () => {
    await expect(attacker.get(secrets, { namespace: millwright.namespace, name: 'database' })).rejects.toThrow('403');
  });

  it.each([
    ['a Secret of the namespace', 'a1', 200, () => placeWith({ name: 'database' })],
    ['a Secret of kube-system', 'a2', 200, () => placeWith({ ...ofOther('kube-system') })],
    ['a Secret of another namespace', 'a3', 200, () => placeWith({ ...ofOther('default') })],
    ['a Secret of the namespace, to an address that refuses,', 'a4', 403, () => placeWith({ name: 'database' })],
    [
      'a Secret of the namespace with the keys of another cloud',
      'a5',
      200,
      () =>
        placeWith(
          { name: 'cloud' },
          { provider: 'aws', providerSpec: { region: 'eu-west-1', endpoint: url.replace('internal', 'ec2') } },
        ),
    ],
  ])('has %s sent nowhere by a Machine that is deleted', async (_, name, answer, place) => {
    status = answer;
    const { namespace } = millwright;
    const providerID = name === 'a5' ? 'aws:///eu-west-1/i-0abc' : 'simulated:///local/none';
    const ref = refOf(
      await attacker.create(machines, {
        metadata: { namespace, name: `${name}-${namespace}`, annotations: annotations([place()]) },
        spec: { class: { kind: 'MachineClass', name: 'small' }, providerID },
      }),
    );
    await millwright.untilMachine(ref, 'has a finalizer', ({ metadata }) => metadata.finalizers !== undefined);
    await attacker.delete(machines, ref);

    const outcome = await outcomeOf(ref);
    expect(heard).toEqual([]);
    expect(outcome).toContain(`annotation ${names.places} `);
    expect(outcome).not.toMatch(/\b403\b/); // not as a part of an id
    await attacker.patch(machines, ref, mergePatch({ metadata: { annotations: { [names.places]: null } } }));
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilGone(ref);
    expect(heard).toEqual([]);
  });

  const ofOther = (namespace: string) => ({ namespace, name: `attacker-${millwright.namespace}` });

  it('has no Secret sent anywhere by a Machine that runs, whose VM is deleted once its place is put back', async () => {
    const { control, namespace, cloud } = millwright;
    const ref = await millwright.createMachine(`edited-${namespace}`);
    const { metadata } = await millwright.untilPhase(ref, 'Running');
    await attacker.patch(
      machines,
      ref,
      mergePatch({ metadata: { annotations: annotations([placeWith({ name: 'database' })]) } }),
    );
    await attacker.delete(machines, ref);

    const outcome = await outcomeOf(ref);
    expect(heard).toEqual([]);
    expect(outcome).toContain(`annotation ${names.places} `);
    await control.patch(machines, ref, mergePatch({ metadata: { annotations: metadata.annotations } }));
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilGone(ref);
    expect(await cloud.vms()).toEqual([]);
    expect(heard).toEqual([]);
  });
});

describe('the VM of a Machine', () => {
  /** What no other class says. */
  const specOf = (name: string) => {
    const { cloud, namespace } = millwright;
    const tags = { cluster: namespace, pool: name };
    return { providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags } };
  };

  /** A Machine that runs, and the only one of its class. */
  async function runMachine(name: string): Promise<ObjectRef> {
    await millwright.createClass(name, specOf(name));
    const ref = await millwright.createMachine(name, { class: { kind: 'MachineClass', name } });
    await millwright.untilPhase(ref, 'Running');
    return ref;
  }

  /** The class leads to a cloud that does not exist. */
  const changeClass = ({ namespace, name }: ObjectRef) =>
    millwright.control.patch(
      machineClasses,
      { namespace, name },
      mergePatch({ providerSpec: { endpoint: 'http://127.0.0.1:9' } }),
    );

  it('is deleted in the place that the Machine says, after its class was changed', async () => {
    const ref = await runMachine(`signed-${millwright.namespace}`);
    await changeClass(ref);
    await millwright.remove(ref);

    expect(await millwright.cloud.vms()).toEqual([]);
  });

  /** The Machine is as release 0.1.0 has left it. */
  const removeSignature = (ref: ObjectRef) =>
    millwright.control.patch(
      machines,
      ref,
      mergePatch({ metadata: { annotations: { [names.placesSignature]: null } } }),
    );

  it('of release 0.1.0 is deleted after its class was changed, once the place is signed', async () => {
    const ref = await runMachine(`unsigned-${millwright.namespace}`);
    await removeSignature(ref);
    const isSigned = ({ metadata }: Machine) => metadata.annotations?.[names.placesSignature] !== undefined;
    await millwright.untilMachine(ref, 'has a signature', isSigned);
    await changeClass(ref);
    await millwright.remove(ref);

    expect(await millwright.cloud.vms()).toEqual([]);
  });

  it('whose class was changed before is deleted when there is a class with the former content', async () => {
    const { control, cloud, namespace } = millwright;
    const ref = await runMachine(`moved-${namespace}`);
    await changeClass(ref);
    await removeSignature(ref);
    await control.delete(machines, ref);
    expect(await outcomeOf(ref)).toContain('create another one with its former content');
    expect(await cloud.vms()).toHaveLength(1);

    await millwright.createClass(`former-${namespace}`, specOf(ref.name));
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilGone(ref);
    expect(await cloud.vms()).toEqual([]);
  });
});

describe.each<[string, Resource<KubeObject>, object]>([
  ['MachineDeployments', machineDeployments, { strategy: { type: 'Recreate' } }],
  ['MachineSets', machineSets, {}],
])('who may edit %s, and nothing else,', (_, resource, more) => {
  it('has no Secret sent anywhere, and no foreign Node or VM touched, whatever the template says', async () => {
    const { namespace, control, cloud } = millwright;
    const editor = await becomeEditor(millwright, resource);
    const stranger = await createStranger(millwright, `stranger-${resource.plural}-${namespace}`, {
      labels: controlPlane,
    });
    const vm = `foreign-${resource.plural}-${namespace}`;
    const providerID = await makeVm(millwright, vm, { tags: { cluster: 'another' } });
    const app = `attack-${resource.plural}`;
    const labelled = { app, [labels.node]: stranger.metadata.name };
    const owner = {
      metadata: { namespace, name: app },
      spec: {
        replicas: 1,
        ...more,
        selector: { matchLabels: { app } },
        template: {
          metadata: {
            labels: labelled,
            annotations: { ...annotations([placeWith({ name: 'database' })]), [names.firstUid]: 'of-another' },
          },
          spec: { class: { kind: 'MachineClass', name: 'small' }, providerID },
        },
      },
    };
    await editor.create(resource, owner);
    const [machine] = await until('there is a Machine with a finalizer', async () => {
      const { items } = await control.list(machines, { namespace });
      const made = items.filter(({ metadata }) => metadata.labels?.['app'] === app);
      return made.length > 0 && made.every(({ metadata }) => metadata.finalizers !== undefined) && made;
    });
    await editor.delete(resource, { namespace, name: app });

    const ref = refOf(machine!);
    expect(await outcomeOf(ref)).toContain(`annotation ${names.places} `);
    await control.patch(machines, ref, mergePatch({ metadata: { annotations: { [names.places]: null } } }));
    await millwright.handleOf(ref).signal('retryNow');
    const why = `the VM ${providerID}`;
    await millwright.untilMachine(
      ref,
      'names the VM',
      ({ status }) => status?.lastOperation?.description?.includes(why) === true,
    );
    await control.patch(machines, ref, mergePatch({ spec: { providerID: null } }));
    await millwright.handleOf(ref).signal('retryNow');
    await millwright.untilGone(ref);
    await editor.close();
    expect(heard).toEqual([]);
    const present = (await cloud.vms()).map(({ name }) => name);
    expect(present).toContain(vm);
    expect(present.filter((name) => !name.startsWith('foreign-'))).toEqual([]);
    await expectUntouched(millwright, stranger);
  });
});

describe('who may write MachineClasses, and nothing else,', () => {
  it('has no Secret of another namespace sent anywhere', async () => {
    const { namespace, cloud } = millwright;
    const editor = await becomeEditor(millwright, machineClasses);
    await expect(editor.get(secrets, { namespace, name: 'cloud' })).rejects.toThrow('403');
    const refusals = ['kube-system', 'default'].map(async (other) => {
      const name = `of-${other}-${namespace}`;
      const secretRef = { namespace: other, name: `attacker-${namespace}` };
      await editor.create(machineClasses, { metadata: { namespace, name }, ...placeWith(secretRef), secretRef });
      const ref = await millwright.createMachine(name, { class: { kind: 'MachineClass', name } });
      const refused = await millwright.untilMachine(ref, 'is refused', ({ status }) => {
        return status?.lastOperation?.description?.includes(`secretRef.namespace is "${other}"`) === true;
      });
      expect(heard).toEqual([]);
      await millwright.remove(refOf(refused));
    });
    await Promise.all(refusals);
    expect(heard).toEqual([]);
    expect((await cloud.vms()).filter(({ name }) => name.startsWith('of-'))).toEqual([]);
    await editor.close();
  });
});

describe('who may send signals in the Temporal namespace, and nothing else,', () => {
  it('has no VM deleted of a Machine that is not being deleted', async () => {
    const { namespace, control, cloud } = millwright;
    const tags = { cluster: namespace, fault: 'joining' };
    await cloud.setFaults({ kind: 'neverJoin', tags });
    const name = `signalled-${namespace}`;
    await millwright.createClass(name, {
      providerSpec: { endpoint: cloud.url, machineType: 'small', region: 'here', tags },
    });
    const ref = await millwright.createMachine(name, { class: { kind: 'MachineClass', name } });
    const isMade = ({ spec, status }: Machine) =>
      spec?.providerID !== undefined && status?.currentStatus?.phase === 'Pending';
    await millwright.untilMachine(ref, 'has a VM that has not joined', isMade);
    const machine = await control.get(machines, ref);
    const handle = millwright.handleOf(ref);

    const seen = gardener.machine.toSnapshot(machine, noLimits);
    const resourceVersion = `${seen.resourceVersion}0`; // newer than anything that the API server says
    const forged = { ...seen, resourceVersion, stage: 'deleting', deletingSince: '2030-01-01T00:00:00Z' };
    await handle.signal('observed', { machine: forged, node: { state: 'unknown' } });
    await handle.signal('forceDeletion', 'a person');
    await until('the forged observation was found wrong', async (see) => {
      const events = (await handle.fetchHistory()).events ?? [];
      const signalled = events.findLastIndex((event) => event.workflowExecutionSignaledEventAttributes);
      const { doing } = see(await handle.query<{ doing?: string }>('describe')) as { doing?: string };
      const isAnswered = events.slice(signalled).some((event) => event.markerRecordedEventAttributes);
      return (isAnswered && doing?.includes('join')) || undefined;
    });
    expect((await cloud.vms()).filter((vm) => vm.name === name)).toHaveLength(1);

    await cloud.setFaults();
    await millwright.remove(ref);
  });
});
