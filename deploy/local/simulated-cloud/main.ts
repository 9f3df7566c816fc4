/** The process of the simulated cloud. Prints one line of JSON, `{"url": …}`, when it serves; SIGTERM ends it. */
import { pino } from 'pino';
import { z } from 'zod';
import { count, kubeletFlags, readFlags, startKubeletsFor, stopOnSignal } from '../cloud-process.ts';
import { hostOf } from './host.ts';
import { startServer } from './server.ts';
import { openState, type StoredVm } from './state.ts';

const flags = readFlags(
  {
    ...kubeletFlags,
    data: z.string({ error: 'give a folder for the state' }),
    port: count.max(65_535).default(0),
    token: z.array(z.string().min(1)).default(['letmein']),
    'boot-ms': count.default(1000),
    'delete-ms': count.default(500),
    'node-prefix': z.string().default(''),
  },
  ['token'],
);

const logger = pino(pino.destination(2));
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
const server = await startServer({
  state,
  tokens: flags.token,
  port: flags.port,
  onStart: startKubelet,
  logger,
});
process.stdout.write(`${JSON.stringify({ url: server.url })}\n`);

stopOnSignal(() => Promise.all([server.stop(), kubelets?.stop()]));
