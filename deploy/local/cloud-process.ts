/** What the processes of all local clouds have in common: their flags, their kubelets and their end. */
import { parseArgs } from 'node:util';
import { z } from 'zod';
import type { Logger } from '../../kube/logger.ts';
import { startKubelets } from './kubelets/kubelets.ts';

/** A whole number that is not negative. */
export const count = z.coerce.number().int().min(0);

/** Flags about the Nodes of VMs: without a kubeconfig VMs do not join a cluster. */
export const kubeletFlags = {
  kubeconfig: z.string().optional(),
  'join-ms': count.default(1000),
  'lease-renew-ms': count.min(100).default(10_000),
  'status-update-ms': count.min(100).default(300_000),
  'max-grace-ms': count.default(30_000),
};

/**
 * The flags of the command line. Where the value of one is wrong the process says why and ends with 2.
 * @param repeated names of those that may be given several times
 * @param args default: those of this process
 */
export function readFlags<Shape extends z.ZodRawShape>(
  shape: Shape,
  repeated: readonly (keyof Shape & string)[] = [],
  args: readonly string[] = process.argv.slice(2),
): z.output<z.ZodObject<Shape>> {
  const { values } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.keys(shape).map((name) => [name, { type: 'string' as const, multiple: repeated.includes(name) }]),
    ),
  });
  const parsed = z.object(shape).safeParse(values);
  if (parsed.success) return parsed.data;
  process.stderr.write(parsed.error.issues.map((issue) => `--${issue.path.join('.')}: ${issue.message}\n`).join(''));
  process.exit(2);
}

/** Starts the kubelets that the flags describe; undefined where there is no kubeconfig. */
export function startKubeletsFor(flags: z.output<z.ZodObject<typeof kubeletFlags>>, logger: Logger) {
  if (flags.kubeconfig === undefined) return undefined;
  return startKubelets({
    kubeconfig: flags.kubeconfig,
    leaseRenewMs: flags['lease-renew-ms'],
    statusUpdateMs: flags['status-update-ms'],
    maxGraceMs: flags['max-grace-ms'],
    logger,
  });
}

/** On SIGTERM or SIGINT: calls `stop`, and then ends the process. */
export function stopOnSignal(stop: () => Promise<unknown>): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => void stop().then(() => process.exit(0)));
  }
}
