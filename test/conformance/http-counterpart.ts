/** The cloud of `--counterpart`: another program answers the questions of the suite over HTTP. */
import { z } from 'zod';
import { UsageError } from '../../cli/options.ts';
import { callAdmin } from '../../deploy/local/admin-api.ts';
import { CloudFacts, CloudThing, type Counterpart } from './counterpart.ts';
import { prepareGivenWorker } from './given-worker.ts';
import type { ProviderEntry } from './providers.ts';

/** What `GET /` answers. */
export const HttpCloudFacts = CloudFacts.extend({
  listedLateMs: z
    .int()
    .min(0)
    .describe('`ms` of the faults `listedLate` and `lostAnswer`: a little less than `settleSeconds` of the provider.'),
});
export const CallCount = z.object({ calls: z.int().min(0) });
export const MadeVms = z.object({ providerIDs: z.array(z.string().min(1)) });
const anything = z.unknown();

/**
 * The cloud that is served at a URL, and how late it lists a VM where that is the fault, ms. Throws UsageError if
 * nothing answers, and an Error that names the field for an answer that is none.
 */
export async function connectCounterpart(url: string): Promise<{ cloud: Counterpart; lateMs: number }> {
  async function ask<T>(schema: z.ZodType<T>, method: 'GET' | 'PUT' | 'POST', path: string, body?: object) {
    const answer = await callAdmin(url, method, path, body);
    const { data, error } = schema.safeParse(answer);
    if (error === undefined) return data;
    const problems = error.issues.map((issue) => `${issue.path.join('.') || 'all of it'}: ${issue.message}`);
    const seen = JSON.stringify(answer)?.slice(0, 200);
    throw new Error(`the counterpart answers ${method} ${path} with ${seen}: correct ${problems.join('; ')}`);
  }

  const { listedLateMs, ...facts } = await ask(HttpCloudFacts, 'GET', '/').catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(`--counterpart is '${url}', of which the suite cannot ask GET /: ${why}`);
  });
  const cloud: Counterpart = {
    ...facts,
    setFault: async (fault) => void (await ask(anything, 'PUT', '/fault', { fault })),
    things: () => ask(z.array(CloudThing), 'GET', '/things'),
    calls: async () => (await ask(CallCount, 'GET', '/calls')).calls,
    makeVms: async (owner, count, of) => (await ask(MadeVms, 'POST', '/vms', { owner, count, ...of })).providerIDs,
    reset: async () => void (await ask(anything, 'POST', '/reset')),
    stop: async () => undefined, // it is somebody else's
  };
  return { cloud, lateMs: listedLateMs };
}

/** A provider of somebody else, with the cloud at a URL. The shell command `worker` starts its worker. */
export async function providerWithCounterpart(name: string, url: string, worker: string): Promise<ProviderEntry> {
  const { cloud, lateMs } = await connectCounterpart(url);
  return {
    name,
    lateMs,
    startCounterpart: async () => cloud,
    prepareWorker: (servers, installation) => prepareGivenWorker(worker, servers, installation),
  };
}
