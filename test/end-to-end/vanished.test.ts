import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Fault, type SeenRequest, statusBody } from '../faults/proxy.ts';
import { phaseOf } from '../support/installation.ts';
import { until } from '../support/until.ts';
import { startWatchedInstallation, type WatchedInstallation } from '../support/watched-installation.ts';

const gone: Fault = { kind: 'answer', status: 410, body: statusBody(410, 'Expired') };
const isOfMachines = ({ url }: SeenRequest) => url.pathname.endsWith('/machines');

describe('what nobody sees happen', () => {
  let millwright: WatchedInstallation;

  beforeAll(async () => {
    millwright = await startWatchedInstallation();
    millwright.recordAs('vanished');
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  async function createRunning(name: string): Promise<ObjectRef> {
    // Nodes have no namespace.
    const ref = await millwright.createMachine(`${name}-${millwright.namespace}`);
    await until(`${name} runs`, async (see) => {
      const machine = see(await millwright.control.get(machines, ref));
      return phaseOf(machine) === 'Running';
    });
    return ref;
  }

  /** Takes the object away behind everybody's back, as a restore from a backup does. */
  async function makeVanish(ref: ObjectRef): Promise<void> {
    await millwright.control.patch(machines, ref, mergePatch({ metadata: { finalizers: null } }));
    await millwright.control.delete(machines, ref);
    await millwright.untilGone(ref);
  }

  const untilClosed = (ref: ObjectRef) =>
    until('its workflow has ended', async (see) => {
      const { status } = see(await millwright.handleOf(ref).describe());
      return status.name === 'RUNNING' ? undefined : status.name;
    });
  async function signalsOf(ref: ObjectRef): Promise<string[]> {
    const { events } = await millwright.handleOf(ref).fetchHistory();
    return (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName ?? []);
  }

  it('ends the workflow of a machine that vanished while the watch was broken', async () => {
    const ref = await createRunning('unwatched');
    await millwright.proxy.goDown();
    await makeVanish(ref);
    let left = 1;
    millwright.proxy.setRule((request) => (request.isWatch && isOfMachines(request) && left-- > 0 ? gone : undefined));
    await millwright.proxy.comeUp();

    expect(await untilClosed(ref)).toBe('COMPLETED');
    millwright.proxy.setRule();
  });

  it('ends the workflow of a machine that vanished while there were no controllers', async () => {
    const ref = await createRunning('forgotten');
    await millwright.stopControllers();
    await makeVanish(ref);
    millwright.startControllers();

    expect(await untilClosed(ref)).toBe('COMPLETED');
  });

  it('signals the workflow of a machine at rest to refresh when the cluster was restored from a backup', async () => {
    const ref = await createRunning('restored');
    const refreshesOf = async () => (await signalsOf(ref)).filter((name) => name === 'refresh').length;
    const before = await refreshesOf();
    const isProbe = (request: SeenRequest) =>
      !request.isWatch && isOfMachines(request) && request.url.searchParams.get('limit') === '1';
    let left = 1;
    const body = { kind: 'MachineList', apiVersion: 'v1', metadata: { resourceVersion: '1' }, items: [] };
    const behind: Fault = { kind: 'answer', status: 200, body };
    millwright.proxy.setRule((request) => (isProbe(request) && left-- > 0 ? behind : undefined));
    millwright.proxy.resetConnections();

    await until('its workflow is signalled', async (see) => see(await refreshesOf()) > before);
    millwright.proxy.setRule();
  });

  it('puts a finalizer back that somebody took off a machine at rest', async () => {
    const ref = await createRunning('stripped');
    await millwright.control.patch(machines, ref, mergePatch({ metadata: { finalizers: null } }));

    await until('it is back', async (see) => {
      const { metadata } = see(await millwright.control.get(machines, ref));
      return metadata.finalizers === undefined ? undefined : true;
    });
  });
});
