/** What moto does not know of an instance: the time that things take. */
import { randomBytes } from 'node:crypto';
import type { Logger } from '../../../kube/logger.ts';
import type { Moto } from './moto.ts';

/** How long things take, in milliseconds. */
export interface Timing {
  /** From RunInstances to `running`. */
  readonly bootMs: number;
  /** From TerminateInstances to `terminated`. */
  readonly deleteMs: number;
  /** How long a terminated instance is still listed. */
  readonly terminatedMs: number;
}

export const stateCodes = { pending: '0', running: '16', 'shutting-down': '32', terminated: '48' } as const;
export type State = keyof typeof stateCodes;

/** Times are milliseconds since 1970. */
export interface Instance {
  readonly id: string;
  readonly region: string;
  readonly zone: string;
  readonly machineType: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly privateDnsName: string;
  readonly privateIp: string;
  readonly createdAt: number;
  readonly runningAt: number;
  /** Not in the answers of Describe actions before. */
  readonly visibleAt: number;
  /** Id of its spot request. */
  readonly spotRequestId?: string;
  /** When it was marked to be interrupted. */
  interruptedAt?: number;
  deletedAt?: number;
  endedAt?: number;
}

/** What RunInstances knows of an instance. */
type NewInstance = Omit<Instance, 'createdAt' | 'runningAt' | 'visibleAt' | 'spotRequestId'>;

/** What faults and the request decide. */
interface Fate {
  readonly isSpot: boolean;
  readonly invisibleMs: number;
  readonly interruption?: { readonly afterMs: number; readonly noticeMs: number } | undefined;
}

export type Instances = ReturnType<typeof createInstances>;

export function createInstances({ moto, timing, logger }: { moto: Moto; timing: Timing; logger: Logger }) {
  const instances = new Map<string, Instance>();

  function terminate(instance: Instance): void {
    if (instance.deletedAt !== undefined) return;
    instance.deletedAt = Date.now();
    later(timing.deleteMs, () => end(instance));
  }

  /** Only now in moto: until then an instance that shuts down has its volumes and network interfaces. */
  async function end(instance: Instance): Promise<void> {
    await moto.call('TerminateInstances', { 'InstanceId.1': instance.id }, { in: instance.region });
    instance.endedAt = Date.now();
  }

  function later(ms: number, act: () => void | Promise<void>): void {
    const attempt = async () => act();
    setTimeout(() => {
      attempt().catch((err: unknown) => logger.error({ err }, 'an instance could not be moved on'));
    }, ms);
  }

  return {
    get: (id: string): Instance | undefined => instances.get(id),
    /** All instances ever, oldest first. */
    all: (): Instance[] => [...instances.values()],
    add(made: NewInstance, { isSpot, invisibleMs, interruption }: Fate): Instance {
      const now = Date.now();
      const instance: Instance = {
        ...made,
        createdAt: now,
        runningAt: now + timing.bootMs,
        visibleAt: now + invisibleMs,
        ...(isSpot && { spotRequestId: `sir-${randomBytes(4).toString('hex')}` }),
      };
      instances.set(instance.id, instance);
      if (isSpot && interruption) {
        later(interruption.afterMs, () => {
          if (instance.deletedAt !== undefined) return;
          instance.interruptedAt = Date.now();
          later(interruption.noticeMs, () => terminate(instance));
        });
      }
      return instance;
    },
    terminate,
    /** Whether it is so long terminated that it is listed no more. */
    isForgotten: ({ endedAt }: Instance): boolean =>
      endedAt !== undefined && Date.now() >= endedAt + timing.terminatedMs,
  };
}

/** State of an instance now. */
export function stateOf({ endedAt, deletedAt, runningAt }: Instance): State {
  if (endedAt !== undefined) return 'terminated';
  if (deletedAt !== undefined) return 'shutting-down';
  return Date.now() >= runningAt ? 'running' : 'pending';
}
