import { isDeepStrictEqual } from 'node:util';
import { isUnknownActivity } from '../../api/failures.ts';
import { type Calls, inShort, NobodyServes } from './calls.ts';
import type { Subject } from './subject.ts';

const longestLine = 1_000;

/** Keeps the calls of a case, which are shown if it fails. No value of a Secret is in a line. */
export function createTrace(subject: Pick<Subject, 'providerSpec' | 'credentials' | 'userData' | 'canaries'>) {
  let entries: { readonly call: string; end: string; times: number }[] = [];

  /** Without what all requests of a run have in common. */
  function own(request: object): string {
    const common: Readonly<Record<string, unknown>> = { ...subject };
    const fields = Object.entries(request).filter(([key, value]) => !isDeepStrictEqual(value, common[key]));
    return JSON.stringify(Object.fromEntries(fields));
  }

  return {
    /** The same calls, which are kept. */
    traced: (calls: Calls): Calls => ({
      ...calls,
      async start(name, request, attempts) {
        const call = `${name} ${own(request)}`;
        const last = entries.at(-1);
        const entry = last?.call === call ? last : { call, end: '', times: 0 };
        if (entry !== last) entries.push(entry);
        entry.times++;
        const started = await calls.start(name, request, attempts);
        return {
          ...started,
          async outcome() {
            try {
              const outcome = await started.outcome();
              entry.end = inShort(outcome, Infinity);
              if (outcome.kind === 'refused' && name !== 'updateVm' && isUnknownActivity(outcome.failure.message))
                throw new NobodyServes(`${inShort(outcome)}: register ${name} under this name in the worker`);
              return outcome;
            } catch (error) {
              entry.end = error instanceof Error ? error.message : String(error);
              throw error;
            }
          },
        };
      },
    }),

    /** One for each of the last different calls. */
    lines(count: number): string[] {
      return entries.slice(-count).map(({ call, end, times }) => {
        const line = `${call}${times > 1 ? ` ${times} times` : ''}: ${end || 'it has no answer'}`;
        const secrets = [...subject.canaries].flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]);
        const safe = secrets.reduce((rest, secret) => rest.replaceAll(secret, '<secret>'), line);
        return safe.slice(0, longestLine);
      });
    },

    clear(): void {
      entries = [];
    },
  };
}
