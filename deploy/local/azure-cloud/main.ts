/**
 * The process of the Azure cloud. Prints a line of JSON, `{"url": …, "adminUrl": …}`, when it serves; SIGTERM ends it.
 */
import { pino } from 'pino';
import { z } from 'zod';
import { count, kubeletFlags, readFlags, startKubeletsFor, stopOnSignal } from '../cloud-process.ts';
import { freePort } from '../ports.ts';
import { startArm } from './arm.ts';
import { makeCertificate } from './certificate.ts';
import { hostOf } from './host.ts';
import { createIdentity } from './identity.ts';
import { subnetFor } from './seeds.ts';
import { startServer } from './server.ts';

const flags = readFlags({
  ...kubeletFlags,
  port: count.max(65_535).default(0),
  'admin-port': count.max(65_535).default(0),
  'tenant-id': z.string().min(1).default('5f0e6c3a-1d2b-4c8e-9a7f-00000000000a'),
  'client-id': z.string().min(1).default('5f0e6c3a-1d2b-4c8e-9a7f-00000000000b'),
  'client-secret': z.string().min(1).default('letmein'),
  'token-ms': count.default(3_600_000),
  'boot-ms': count.default(1000),
  'delete-ms': count.default(500),
  'change-ms': count.default(100),
  'nic-reservation-ms': count.default(180_000),
  'retry-after-seconds': count.default(1),
  'page-size': count.min(1).default(50),
});

const logger = pino(pino.destination(2));
const kubelets = startKubeletsFor(flags, logger);
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

stopOnSignal(() => Promise.all([server.stop(), kubelets?.stop()]));
