/** Requests to an API server, counted from its audit log: the same for every controller, and without a proxy. */
import { open, stat } from 'node:fs/promises';
import { z } from 'zod';

/** Requests of one user agent. */
export interface Requests {
  /** Without those for Leases and Events, which are counted apart. Watches count when they end. */
  readonly total: number;
  /** Of `total`: neither get nor list nor watch. */
  readonly writes: number;
  /** Reads and writes of Leases: they follow the clock, whatever the fleet does. */
  readonly leases: number;
  /** Writes of Events. */
  readonly events: number;
  /** Of `total`: by verb and resource, as `patch machines/status`. */
  readonly byKind: Readonly<Record<string, number>>;
}

/** What is read of an `audit.k8s.io/v1` Event. */
const AuditEvent = z.object({
  verb: z.string(),
  userAgent: z.string().default(''),
  objectRef: z.object({ resource: z.string().default(''), subresource: z.string().optional() }).optional(),
});

const reads = ['get', 'list', 'watch'];

/**
 * Begins to count. The returned function answers with what was asked since.
 * @param userAgent - How the user agents of the counted requests begin.
 */
export async function startRequests(auditLog: string, userAgent: string): Promise<() => Promise<Requests>> {
  const { size } = await stat(auditLog);
  return async () => {
    const file = await open(auditLog);
    const byKind: Record<string, number> = {};
    const count = { total: 0, writes: 0, leases: 0, events: 0 };
    for await (const line of file.readLines({ start: size })) {
      const { verb, objectRef, ...asked } = AuditEvent.parse(JSON.parse(line));
      if (!asked.userAgent.startsWith(userAgent)) continue;
      if (objectRef?.resource === 'events' || objectRef?.resource === 'leases') {
        count[objectRef.resource] += 1;
        continue;
      }
      const resource = [objectRef?.resource ?? 'other', objectRef?.subresource].filter(Boolean).join('/');
      byKind[`${verb} ${resource}`] = (byKind[`${verb} ${resource}`] ?? 0) + 1;
      count.total += 1;
      if (!reads.includes(verb)) count.writes += 1;
    }
    return { ...count, byKind };
  };
}
