import type { Fault } from './faults.ts';

type Kind = 'reads' | 'writes' | 'deletes';
export type RateLimit = Extract<Fault, { readonly kind: 'rateLimit' }>;

interface Bucket {
  tokens: number;
  at: number;
}

/**
 * Requests that are free at once, and those that come back in a second, of each service principal in a subscription.
 */
const limits: Readonly<Record<Kind, { readonly size: number; readonly perSecond: number }>> = {
  reads: { size: 250, perSecond: 25 },
  writes: { size: 200, perSecond: 10 },
  deletes: { size: 200, perSecond: 10 },
};

/** Limits of the compute resource provider in three minutes, by action. */
const computeLimits: readonly { readonly action: RegExp; readonly name: string; readonly limit: number }[] = [
  { action: /^Microsoft\.Compute\/virtualMachines\/write$/i, name: 'PutVM3Min', limit: 740 },
  { action: /^Microsoft\.Compute\/virtualMachines\/delete$/i, name: 'DeleteVM3Min', limit: 740 },
  { action: /^Microsoft\.Compute\/.*operations\/read$/i, name: 'GetOperation3Min', limit: 14_000 },
  { action: /^Microsoft\.Compute\/.*\/read$/i, name: 'LowCostGet3Min', limit: 12_000 },
];
const windowMs = 180_000;

/** What a request has left, or how long it has to wait. */
export interface Allowance {
  readonly headers: Readonly<Record<string, string>>;
  /** Set when it has to. */
  readonly retryAfterSeconds?: number;
  readonly kind: Kind;
}

/** Counts requests as Azure Resource Manager does: token buckets for each caller and kind. */
export function createRateLimits() {
  const buckets = new Map<string, Bucket>();
  const windows = new Map<string, { count: number; since: number }>();

  /** Counts a request. @param override limit of a fault */
  function count(caller: string, method: string, action: string, override?: RateLimit): Allowance {
    const kind = kindOf(method);
    const { size, perSecond } = override?.of === kind ? override : limits[kind];
    const key = `${caller} ${kind}`;
    const now = Date.now();
    const bucket = buckets.get(key) ?? { tokens: size, at: now };
    const tokens = Math.min(size, bucket.tokens + ((now - bucket.at) / 1000) * perSecond);
    const isFree = tokens >= 1;
    buckets.set(key, { tokens: isFree ? tokens - 1 : tokens, at: now });
    const headers = {
      [`x-ms-ratelimit-remaining-subscription-${kind}`]: String(Math.max(0, Math.floor(isFree ? tokens - 1 : 0))),
      ...countCompute(caller, action, now),
    };
    if (isFree) return { headers, kind };
    const seconds = perSecond === 0 ? 60 : Math.max(1, Math.ceil((1 - tokens) / perSecond));
    return { headers, kind, retryAfterSeconds: seconds };
  }

  function countCompute(caller: string, action: string, now: number): Record<string, string> {
    const policy = computeLimits.find((each) => each.action.test(action));
    if (!policy) return {};
    const key = `${caller} ${policy.name}`;
    let window = windows.get(key);
    if (!window || now - window.since > windowMs) {
      window = { count: 0, since: now };
      windows.set(key, window);
    }
    window.count += 1;
    const left = Math.max(0, policy.limit - window.count);
    return { 'x-ms-ratelimit-remaining-resource': `Microsoft.Compute/${policy.name};${left}` };
  }

  return { count };
}

function kindOf(method: string): Kind {
  if (method === 'DELETE') return 'deletes';
  return method === 'GET' || method === 'HEAD' ? 'reads' : 'writes';
}
