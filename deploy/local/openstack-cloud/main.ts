/** The process of the OpenStack cloud. Prints one line of JSON, `{"url": …}`, when it serves; SIGTERM ends it. */
import { pino } from 'pino';
import { z } from 'zod';
import { count, kubeletFlags, readFlags, startKubeletsFor, stopOnSignal } from '../cloud-process.ts';
import { freePort } from '../ports.ts';
import { startFront } from './front.ts';
import { watchMachines } from './machines.ts';
import { makeProject } from './seeds.ts';
import type { OpenstackAddress } from './services.ts';
import { leaseOpenstack } from './shared.ts';

const flags = readFlags({
  ...kubeletFlags,
  port: count.max(65_535).default(0),
  openstack: z
    .string()
    .transform((text): OpenstackAddress => JSON.parse(text))
    .optional(),
});

const logger = pino(pino.destination(2));
const lease = flags.openstack === undefined ? await leaseOpenstack() : undefined;
const { dir, ports } = flags.openstack ?? lease!.address;
const project = await makeProject(ports);
const kubelets = startKubeletsFor(flags, logger);
const stopWatching =
  kubelets &&
  watchMachines({
    ...{ dir, projectId: project.seeds.projectId, joinMs: flags['join-ms'], logger },
    onRunning: (host) => kubelets.start(host),
  });
const front = await startFront({ ports, project, port: flags.port || (await freePort()), logger });
process.stdout.write(`${JSON.stringify({ url: front.url })}\n`);

stopOnSignal(async () => {
  stopWatching?.();
  await Promise.all([front.stop(), kubelets?.stop()]);
  await lease?.release();
});
