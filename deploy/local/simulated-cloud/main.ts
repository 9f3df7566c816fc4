/** The process of the simulated cloud. Prints one line of JSON, `{"url": …}`, when it serves; SIGTERM ends it. */
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { z } from 'zod';
import { startKubelets } from '../kubelets/kubelets.ts';
import { hostOf } from './host.ts';
import { startServer } from './server.ts';
import { openState, type StoredVm } from './state.ts';

const count = z.coerce.number().int().min(0);

const Flags = z.object({
  data: z.string({ error: 'give a folder for the state' }),
  kubeconfig: z.string().optional(),
  port: count.max(65_535).default(0),
  token: z.array(z.string().min(1)).default(['letmein']),
  'boot-ms': count.default(1000),
  'join-ms': count.default(1000),
  'delete-ms': count.default(500),
  'lease-renew-ms': count.min(100).default(10_000),
  'status-update-ms': count.min(100).default(300_000),
  'max-grace-ms': count.default(30_000),
  'node-prefix': z.string().default(''),
});

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    kubeconfig: { type: 'string' },
    port: { type: 'string' },
    token: { type: 'string', multiple: true },
    'boot-ms': { type: 'string' },
    'join-ms': { type: 'string' },
    'delete-ms': { type: 'string' },
    'lease-renew-ms': { type: 'string' },
    'status-update-ms': { type: 'string' },
    'max-grace-ms': { type: 'string' },
    'node-prefix': { type: 'string' },
  },
});
const { data: flags, error } = Flags.safeParse(values);
if (error) {
  process.stderr.write(error.issues.map((issue) => `--${issue.path.join('.')}: ${issue.message}\n`).join(''));
  process.exit(2);
}

const logger = pino(pino.destination(2));
const state = openState(flags.data, {
  bootMs: flags['boot-ms'],
  joinMs: flags['join-ms'],
  deleteMs: flags['delete-ms'],
});
const kubelets =
  flags.kubeconfig === undefined
    ? undefined
    : startKubelets({
        kubeconfig: flags.kubeconfig,
        leaseRenewMs: flags['lease-renew-ms'],
        statusUpdateMs: flags['status-update-ms'],
        maxGraceMs: flags['max-grace-ms'],
        logger,
      });
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

async function stop(): Promise<void> {
  await Promise.all([server.stop(), kubelets?.stop()]);
  process.exit(0);
}
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop());
