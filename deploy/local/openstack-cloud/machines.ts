/** The servers of a project as their kubelets know them: read from nova's database, which costs nova nothing. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../../kube/logger.ts';
import type { Host } from '../kubelets/node.ts';
import { region } from './config.ts';

interface MachinesOptions {
  /** Folder of the OpenStack. */
  readonly dir: string;
  readonly projectId: string;
  /** From the moment that nova has a server as active to its Node. */
  readonly joinMs: number;
  readonly logger: Logger;
  /** Called once for each server that runs. */
  onRunning(host: Host): void;
}

interface Row {
  readonly uuid: string;
  readonly display_name: string;
  readonly availability_zone: string | null;
  readonly vcpus: number;
  readonly memory_mb: number;
  readonly network_info: string | null;
}

/** Between two looks at the database. */
const pauseMs = 200;

const running = `
  select uuid, display_name, availability_zone, vcpus, memory_mb, network_info
  from instances left join instance_info_caches on instance_uuid = uuid and instance_info_caches.deleted = 0
  where project_id = ? and instances.deleted = 0 and vm_state = 'active'`;

/** Watches the servers of a project until the returned function is called. */
export function watchMachines({ dir, projectId, joinMs, logger, onRunning }: MachinesOptions): () => void {
  const database = new DatabaseSync(join(dir, 'nova.db'), { readOnly: true, timeout: 5_000 });
  const query = database.prepare(running);
  const stopped = new AbortController();
  let on = new Set<string>();

  async function watch(): Promise<void> {
    while (!stopped.signal.aborted) {
      const rows = query.all(projectId) as unknown as Row[];
      const before = on;
      on = new Set(rows.map(({ uuid }) => uuid));
      for (const row of rows) {
        if (!before.has(row.uuid)) onRunning(hostOf(row, joinMs, () => on.has(row.uuid)));
      }
      await sleep(pauseMs, undefined, { signal: stopped.signal }).catch(() => undefined);
    }
    database.close();
  }

  watch().catch((err: unknown) => logger.error({ err }, 'reading the servers failed'));
  return () => stopped.abort();
}

function hostOf({ uuid, display_name: name, ...row }: Row, joinMs: number, isListed: () => boolean): Host {
  let wasOff = false;
  return {
    id: uuid,
    name,
    providerID: `openstack:///${region}/${uuid}`,
    labels: {
      'topology.kubernetes.io/region': region,
      'topology.kubernetes.io/zone': row.availability_zone ?? '',
    },
    taints: [],
    addresses: [
      ...addressesOf(row.network_info).map((address) => ({ type: 'InternalIP', address })),
      { type: 'Hostname', address: name },
    ],
    capacity: { cpu: String(row.vcpus), memory: `${row.memory_mb}Mi`, pods: '110' },
    joinsAt: Date.now() + joinMs,
    isOn() {
      wasOff ||= !isListed();
      return !wasOff;
    },
  };
}

/** Nova keeps a list of interfaces as JSON. */
function addressesOf(networkInfo: string | null): string[] {
  const vifs: { network: { subnets: { ips: { address: string }[] }[] } }[] = JSON.parse(networkInfo ?? '[]');
  return vifs.flatMap(({ network }) => network.subnets.flatMap(({ ips }) => ips.map(({ address }) => address)));
}
