import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import { searchAttributes, signingKeySecret } from '../../api/names.ts';
import { events, type Secret, secrets } from '../../kube/core.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

describe('secrets', () => {
  let millwright: Installation;
  const canaries = {
    credentials: `canary-${randomBytes(8).toString('hex')}`,
    userData: `canary-${randomBytes(8).toString('hex')}`,
    wrong: `canary-${randomBytes(8).toString('hex')}`,
  };

  beforeAll(async () => {
    millwright = await startInstallation({
      alone: 'metrics and log of its process are read',
      cloud: { tokens: ['letmein', canaries.credentials] },
      flags: ['--bootstrap-token-auth-extra-groups', 'system:bootstrappers:pool', '--log-level', 'debug'],
    });
    const userData = `#!/bin/sh\n# ${canaries.userData}\njoin <<BOOTSTRAP_TOKEN>> %3C%3CMACHINE_NAME%3E%3E <<BOOTSTRAP_TOKEN>>`;
    await millwright.putSecret('canary', { token: canaries.credentials, userData });
    await millwright.createClass('canary', { secretRef: { namespace: millwright.namespace, name: 'canary' } });
    await millwright.putSecret('wrong', { token: canaries.wrong, userData });
    await millwright.createClass('wrong', { secretRef: { namespace: millwright.namespace, name: 'wrong' } });
  });
  afterAll(async () => {
    await millwright?.stop();
  });

  const tokensOf = async (uids: readonly string[]): Promise<Secret[]> => {
    const { items } = await millwright.target.list(secrets, { namespace: 'kube-system' });
    return items.filter(({ metadata }) => uids.some((uid) => Object.values(metadata.labels ?? {}).includes(uid)));
  };

  it('[invariant 8] [mcm 16] [mcm 17] [mcm 18 partly] are rendered for each machine and are in no history, log, Event, status or metric', async () => {
    const { cloud, control, temporal, namespace, processes } = millwright;
    // No VM is made here, so the token is there before it, and goes with the Machine.
    await cloud.setFaults({ kind: 'capacity' });
    const refused = await millwright.createMachine('refused', { class: { kind: 'MachineClass', name: 'canary' } });
    await until('the creation is refused', async (see) => see(await cloud.stats()).creates > 0);
    const [early] = await tokensOf([refused.uid]);
    expect(Date.parse(decode(early?.data?.['expiration']))).toBeGreaterThan(Date.now());
    expect(await cloud.vms({ all: true })).toEqual([]);
    await control.delete(machines, refused);
    await millwright.untilMachines(0, '');
    expect(await tokensOf([refused.uid])).toEqual([]);

    // The cloud quotes the token that it refuses.
    const quoted = await millwright.createMachine('wrong-token', { class: { kind: 'MachineClass', name: 'wrong' } });
    const complains = ({ status }: Machine) =>
      status?.lastOperation?.description?.includes('the token (hidden) is not accepted') === true;
    const complaint = await millwright.untilMachine(quoted, 'complains of the token', complains);
    await control.delete(machines, quoted);
    await millwright.untilMachines(0, '');

    // No VM joins until the tokens have been looked at; one creation is refused, so that errors are scanned, too.
    await cloud.setFaults({ kind: 'hang', operation: 'create', effect: 'done' });
    const template = {
      metadata: { labels: { name: 'pool' } },
      spec: { class: { kind: 'MachineClass', name: 'canary' } },
    };
    await millwright.createDeployment('pool', 3, { template });
    const uids = await until('3 machines exist', async (see) => {
      const found = see(await millwright.machines());
      return found.length === 3 ? found.map(({ metadata }) => metadata.uid) : undefined;
    });
    const tokens = await until('each machine has a token', async (see) => {
      const found = see(await tokensOf(uids));
      return found.length === 3 ? found : undefined;
    });
    const values = tokens.map(({ data }) => ({
      id: decode(data?.['token-id']),
      secret: decode(data?.['token-secret']),
      groups: decode(data?.['auth-extra-groups']),
    }));
    expect(new Set(values.map(({ id }) => id)).size).toBe(3);
    for (const { groups } of values) expect(groups).toBe('system:bootstrappers:pool');
    for (const { type, data } of tokens) {
      expect(type).toBe('bootstrap.kubernetes.io/token');
      expect(Date.parse(decode(data?.['expiration']))).toBeGreaterThan(Date.now());
    }

    await cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'create', times: 1 });
    await millwright.untilMachines(3, 'Running');
    for (const vm of await cloud.vms()) {
      const token = values.find(({ secret }) => vm.userData.includes(secret));
      expect(vm.userData).toBe(
        `#!/bin/sh\n# ${canaries.userData}\njoin ${token?.id}.${token?.secret} ${vm.name} ${token?.id}.${token?.secret}`,
      );
    }
    await until('the tokens are gone', async (see) => see(await tokensOf(uids)).length === 0);

    const metrics = await (await fetch(new URL('/metrics', processes[0]?.url))).text();
    expect(metrics).toContain('millwright_cloud_requests_waiting{provider="simulated"'); // what names credentials is scanned
    await control.delete(machineDeployments, { namespace, name: 'pool' });
    const objects: unknown[] = [
      complaint,
      await control.list(machines, { namespace }),
      await control.list(machineSets, { namespace }),
      await control.list(machineDeployments, { namespace }),
    ];
    await until('no machine is left', async (see) => see(await millwright.machines()).length === 0);
    const histories: string[] = [];
    for await (const { workflowId: id, runId } of temporal.workflow.list({
      query: `${searchAttributes.installation} = '${namespace}'`,
    })) {
      histories.push(textOf(await temporal.workflow.getHandle(id, runId).fetchHistory()));
    }
    expect(histories.length).toBeGreaterThan(3); // the machines and their deployment
    expect(histories.join()).toContain(cloud.url); // the providerSpec: payloads are scanned, too
    const seen = [
      ...histories,
      JSON.stringify(objects),
      JSON.stringify((await control.list(events, { namespace })).items),
    ];
    seen.push(metrics, ...processes.map((process) => process.logs()));
    const { data } = await control.get(secrets, { namespace, name: signingKeySecret });
    const key = data?.['key'] ?? '';
    expect(key).not.toBe('');
    for (const canary of [...Object.values(canaries), ...values.map(({ secret }) => secret), key]) {
      for (const text of seen) expect(text.includes(canary)).toBe(false);
    }
    const left = (await control.list(secrets, { namespace })).items.map(({ metadata }) => metadata.name);
    expect(left.toSorted()).toEqual(['canary', signingKeySecret, 'pool', 'wrong']);
  });
});

function decode(value: string | undefined): string {
  return Buffer.from(value ?? '', 'base64').toString();
}

/** A history as text, with its payloads as their writers saw them. */
function textOf(history: unknown): string {
  return JSON.stringify(history, (key, value: unknown) =>
    key === 'data' && typeof value === 'string' ? Buffer.from(value, 'base64').toString() : value,
  );
}
