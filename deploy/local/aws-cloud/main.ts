/** The process of the AWS cloud. Prints one line of JSON, `{"url": …}`, when it serves; SIGTERM ends it. */
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { z } from 'zod';
import { startKubelets } from '../kubelets/kubelets.ts';
import { freePort } from '../ports.ts';
import { createEc2 } from './ec2.ts';
import { hostOf } from './host.ts';
import { createInstances } from './instances.ts';
import { startMoto } from './moto.ts';
import { plantSeeds } from './seeds.ts';
import { startServer } from './server.ts';

const count = z.coerce.number().int().min(0);

const Flags = z.object({
  kubeconfig: z.string().optional(),
  port: count.max(65_535).default(0),
  'access-key': z.array(z.string().min(1)).default(['letmein']),
  'boot-ms': count.default(1000),
  'join-ms': count.default(1000),
  'delete-ms': count.default(500),
  'terminated-ms': count.default(3_600_000),
  'lease-renew-ms': count.min(100).default(10_000),
  'status-update-ms': count.min(100).default(300_000),
  'max-grace-ms': count.default(30_000),
});

const { values } = parseArgs({
  options: Object.fromEntries(
    Object.keys(Flags.shape).map((name) => [name, { type: 'string' as const, multiple: name === 'access-key' }]),
  ),
});
const { data: flags, error } = Flags.safeParse(values);
if (error) {
  process.stderr.write(error.issues.map((issue) => `--${issue.path.join('.')}: ${issue.message}\n`).join(''));
  process.exit(2);
}

const logger = pino(pino.destination(2));
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
const moto = await startMoto();
const timing = { bootMs: flags['boot-ms'], deleteMs: flags['delete-ms'], terminatedMs: flags['terminated-ms'] };
const instances = createInstances({ moto, timing, logger });
const ec2 = createEc2({
  moto,
  instances,
  onCreated: (instance) => kubelets?.start(hostOf(instance, flags['join-ms'])),
});
const port = flags.port || (await freePort());
const seeds = await plantSeeds(moto, port);
const server = await startServer({ moto, ec2, instances, accessKeys: flags['access-key'], port, seeds, logger });
process.stdout.write(`${JSON.stringify({ url: server.url })}\n`);

async function stop(): Promise<void> {
  await Promise.all([server.stop(), kubelets?.stop()]);
  process.exit(0);
}
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop());
