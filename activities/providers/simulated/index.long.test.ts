import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { startSimulatedCloud } from '../../../deploy/local/simulated-cloud/admin.ts';
import type { CallContext } from '../provider.ts';
import { createSimulatedProvider } from './index.ts';

it('answers deleting when the deletion of a VM takes longer than 20 seconds', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'slow-deletion-'));
  const cloud = await startSimulatedCloud({ dir, bootMs: 0, deleteMs: 600_000 });
  try {
    const provider = createSimulatedProvider({ readSecret: async () => ({ token: 'letmein', userData: 'x' }) });
    const context: CallContext = { attempt: 1, signal: new AbortController().signal, heartbeat: () => {} };
    const request = {
      origin: { kind: 'MachineClass', namespace: 'garden', name: 'pool', generation: 1 },
      providerSpec: { endpoint: cloud.url, machineType: 'small', tags: { cluster: 'test' } },
      credentials: [{ namespace: 'garden', name: 'cloud' }],
      machine: { uid: 'uid-1', namespace: 'garden', name: 'machine-1' },
      outcomeUnknown: false,
    };
    const userData = { namespace: 'garden', name: 'node', key: 'userData' };
    await provider.ensureVm({ ...request, userData, token: 'uid-1-1' }, context);

    expect(await provider.deleteVm(request, context)).toEqual({ state: 'deleting', nodeNames: ['machine-1'] });

    const deletions = (await cloud.calls()).filter(({ operation }) => operation === 'delete');
    expect(deletions).toHaveLength(1);
  } finally {
    await cloud.stop();
    await rm(dir, { recursive: true, force: true });
  }
});
