/** The process of the AWS cloud. Prints one line of JSON, `{"url": …}`, when it serves; SIGTERM ends it. */
import { pino } from 'pino';
import { z } from 'zod';
import { count, kubeletFlags, readFlags, startKubeletsFor, stopOnSignal } from '../cloud-process.ts';
import { freePort } from '../ports.ts';
import { createEc2 } from './ec2.ts';
import { hostOf } from './host.ts';
import { createInstances } from './instances.ts';
import { startMoto } from './moto.ts';
import { plantSeeds } from './seeds.ts';
import { startServer } from './server.ts';

const flags = readFlags(
  {
    ...kubeletFlags,
    port: count.max(65_535).default(0),
    'access-key': z.array(z.string().min(1)).default(['letmein']),
    'boot-ms': count.default(1000),
    'delete-ms': count.default(500),
    'terminated-ms': count.default(3_600_000),
    'page-size': count.min(1).default(1000),
  },
  ['access-key'],
);

const logger = pino(pino.destination(2));
const kubelets = startKubeletsFor(flags, logger);
const moto = await startMoto();
const timing = { bootMs: flags['boot-ms'], deleteMs: flags['delete-ms'], terminatedMs: flags['terminated-ms'] };
const instances = createInstances({ moto, timing, logger });
const ec2 = createEc2({
  moto,
  instances,
  pageSize: flags['page-size'],
  onCreated: (instance) => kubelets?.start(hostOf(instance, flags['join-ms'])),
});
const port = flags.port || (await freePort());
const seeds = await plantSeeds(moto, port);
const server = await startServer({ moto, ec2, instances, accessKeys: flags['access-key'], port, seeds, logger });
process.stdout.write(`${JSON.stringify({ url: server.url })}\n`);

stopOnSignal(() => Promise.all([server.stop(), kubelets?.stop()]));
