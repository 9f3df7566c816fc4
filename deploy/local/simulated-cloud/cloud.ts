/** A simulated cloud in this process: its state, its API, and the kubelets of its VMs. */
import { z } from 'zod';
import type { Logger } from '../../../kube/logger.ts';
import { count, kubeletFlags, startKubeletsFor } from '../cloud-process.ts';
import { hostOf } from './host.ts';
import { startServer } from './server.ts';
import { openState, type StoredVm } from './state.ts';

export const cloudFlags = {
  ...kubeletFlags,
  data: z.string({ error: 'give a folder for the state' }),
  port: count.max(65_535).default(0),
  token: z.array(z.string().min(1)).default(['letmein']),
  'boot-ms': count.default(1000),
  'delete-ms': count.default(500),
  'node-prefix': z.string().default(''),
};

/** Serves the cloud that the flags describe, and goes on with what its folder has. */
export async function serveCloud(flags: z.output<z.ZodObject<typeof cloudFlags>>, logger: Logger) {
  const state = openState(flags.data, {
    bootMs: flags['boot-ms'],
    joinMs: flags['join-ms'],
    deleteMs: flags['delete-ms'],
  });
  const kubelets = startKubeletsFor(flags, logger);
  const startKubelet = (vm: StoredVm) => {
    if (!vm.neverJoins) kubelets?.start(hostOf(state, vm, flags['node-prefix']));
  };
  for (const vm of state.vms()) startKubelet(vm);
  const { token: tokens, port } = flags;
  const server = await startServer({ state, tokens, port, onStart: startKubelet, logger });
  return {
    url: server.url,
    async stop(): Promise<void> {
      await Promise.all([server.stop(), kubelets?.stop()]);
    },
  };
}
