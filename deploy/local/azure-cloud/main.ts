/** The process of the Azure cloud. Prints a line of JSON, `{"url": …, "adminUrl": …}`, when it serves; SIGTERM ends it. */
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { z } from 'zod';
import { startKubelets } from '../kubelets/kubelets.ts';
import { freePort } from '../ports.ts';
import { startArm } from './arm.ts';
import { makeCertificate } from './certificate.ts';
import { hostOf } from './host.ts';
import { createIdentity } from './identity.ts';
import { subnetFor } from './seeds.ts';
import { startServer } from './server.ts';

const count = z.coerce.number().int().min(0);

const Flags = z.object({
  kubeconfig: z.string().optional(),
  port: count.max(65_535).default(0),
  'admin-port': count.max(65_535).default(0),
  'tenant-id': z.string().min(1).default('5f0e6c3a-1d2b-4c8e-9a7f-00000000000a'),
  'client-id': z.string().min(1).default('5f0e6c3a-1d2b-4c8e-9a7f-00000000000b'),
  'client-secret': z.string().min(1).default('letmein'),
  'token-ms': count.default(3_600_000),
  'boot-ms': count.default(1000),
  'join-ms': count.default(1000),
  'delete-ms': count.default(500),
  'change-ms': count.default(100),
  'nic-reservation-ms': count.default(180_000),
  'retry-after-seconds': count.default(1),
  'page-size': count.min(1).default(50),
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
const port = flags.port || (await freePort());
const adminPort = flags['admin-port'] || (await freePort());
const ended = new Set<string>();
const arm = await startArm({
  flags: {
    'boot-ms': flags['boot-ms'],
    'delete-ms': flags['delete-ms'],
    'change-ms': flags['change-ms'],
    'nic-reservation-ms': flags['nic-reservation-ms'],
    'retry-after-seconds': flags['retry-after-seconds'],
    'page-size': flags['page-size'],
    subnet: subnetFor(port),
  },
  onStarted: (vm) => kubelets?.start(hostOf(vm, flags['join-ms'], () => !ended.has(vm.id))),
  onEnded: (id) => void ended.add(id),
});
const certificate = await makeCertificate();
const principal = {
  tenantId: flags['tenant-id'],
  clientId: flags['client-id'],
  clientSecret: flags['client-secret'],
};
const server = await startServer({
  ...{ arm, certificate, port, adminPort, logger },
  identity: createIdentity({ principal, tokenMs: flags['token-ms'] }),
  seeds: { ...arm.seeds, ...principal, ca: certificate.cert },
});
process.stdout.write(`${JSON.stringify({ url: server.url, adminUrl: server.adminUrl })}\n`);

async function stop(): Promise<void> {
  await Promise.all([server.stop(), kubelets?.stop()]);
  process.exit(0);
}
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void stop());
