/** The process of the OpenStack cloud. Prints one line of JSON, `{"url": …}`, when it serves; SIGTERM ends it. */
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { z } from 'zod';
import { startKubelets } from '../kubelets/kubelets.ts';
import { freePort } from '../ports.ts';
import { startFront } from './front.ts';
import { watchMachines } from './machines.ts';
import { makeProject } from './seeds.ts';
import type { OpenstackAddress } from './services.ts';
import { leaseOpenstack } from './shared.ts';

const count = z.coerce.number().int().min(0);

const Flags = z.object({
  kubeconfig: z.string().optional(),
  port: count.max(65_535).default(0),
  openstack: z
    .string()
    .transform((text): OpenstackAddress => JSON.parse(text))
    .optional(),
  'join-ms': count.default(1000),
  'lease-renew-ms': count.min(100).default(10_000),
  'status-update-ms': count.min(100).default(300_000),
  'max-grace-ms': count.default(30_000),
});

const { values } = parseArgs({
  options: Object.fromEntries(Object.keys(Flags.shape).map((name) => [name, { type: 'string' as const }])),
});
const { data: flags, error } = Flags.safeParse(values);
if (error) {
  process.stderr.write(error.issues.map((issue) => `--${issue.path.join('.')}: ${issue.message}\n`).join(''));
  process.exit(2);
}

const logger = pino(pino.destination(2));
const lease = flags.openstack === undefined ? await leaseOpenstack() : undefined;
const { dir, ports } = flags.openstack ?? lease!.address;
const project = await makeProject(ports);
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
const stopWatching =
  kubelets &&
  watchMachines({
    ...{ dir, projectId: project.seeds.projectId, joinMs: flags['join-ms'], logger },
    onRunning: (host) => kubelets.start(host),
  });
const front = await startFront({ ports, project, port: flags.port || (await freePort()), logger });
process.stdout.write(`${JSON.stringify({ url: front.url })}\n`);

async function stop(): Promise<void> {
  stopWatching?.();
  await Promise.all([front.stop(), kubelets?.stop()]);
  await lease?.release();
  process.exit(0);
}
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop());
