/** Whether Temporal answers this process, for its metrics and its readiness. */
import type { ConnectionLike } from '@temporalio/client';
import { Gauge, type Registry } from 'prom-client';
import type { LiveConnection } from '../../temporal/live-connection.ts';

export interface TemporalHealth {
  /** Asks through a connection every 5 s. Returns how to end that. */
  watch(live: Pick<LiveConnection<ConnectionLike>, 'connection' | 'certificateExpiresMs'>): () => void;
  /** For /readyz. */
  details(): { readonly temporal: { readonly reachable: boolean; readonly lastAnswerAgeSeconds: number } };
}

const askEveryMs = 5_000;
/** How long the server may take to answer, ms. */
const timeoutMs = 4_000;

interface Watched {
  isReachable: boolean;
  answeredMs: number;
  readonly certificateExpiresMs: () => number | undefined;
}

/** Registers the metrics. A process that watches no connection yet has not reached Temporal. */
export function createTemporalHealth(registry: Registry): TemporalHealth {
  const startMs = performance.now();
  const watched = new Set<Watched>();
  const isReachable = () => watched.size > 0 && [...watched].every((each) => each.isReachable);
  const ageSeconds = () =>
    (performance.now() - Math.min(...(watched.size > 0 ? [...watched].map((each) => each.answeredMs) : [startMs]))) /
    1_000;

  new Gauge({
    name: 'millwright_temporal_reachable',
    help: '1 while Temporal answers this process, which asks every 5 s; 0 while it does not, or has not yet.',
    registers: [registry],
    collect() {
      this.set(isReachable() ? 1 : 0);
    },
  });
  new Gauge({
    name: 'millwright_temporal_last_answer_age_seconds',
    help: 'How long ago Temporal has answered this process; if it never has, since the process started.',
    registers: [registry],
    collect() {
      this.set(ageSeconds());
    },
  });
  new Gauge({
    name: 'millwright_temporal_certificate_expiry_timestamp_seconds',
    help: 'When the client certificate for Temporal expires that is in use, as a Unix time. No series without one.',
    registers: [registry],
    collect() {
      const times = [...watched].flatMap(({ certificateExpiresMs }) => certificateExpiresMs() ?? []);
      if (times.length > 0) this.set(Math.min(...times) / 1_000);
      else this.remove();
    },
  });

  return {
    watch({ connection, certificateExpiresMs }) {
      const state: Watched = { isReachable: true, answeredMs: performance.now(), certificateExpiresMs };
      watched.add(state);
      const ask = async () => {
        try {
          await connection.withDeadline(Date.now() + timeoutMs, () => connection.workflowService.getSystemInfo({}));
          state.isReachable = true;
          state.answeredMs = performance.now();
        } catch {
          state.isReachable = false;
        }
      };
      const timer = setInterval(() => void ask(), askEveryMs).unref();
      return () => {
        clearInterval(timer);
        watched.delete(state);
      };
    },
    details: () => ({
      temporal: { reachable: isReachable(), lastAnswerAgeSeconds: Math.round(ageSeconds()) },
    }),
  };
}
