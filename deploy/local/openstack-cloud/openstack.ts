/** An OpenStack that runs: keystone, placement, glance, neutron, nova and cinder, with nova's fake hypervisor. */
import { cp, rm } from 'node:fs/promises';
import { databaseUrl, serviceNames, urlOf, writeConfigs } from './config.ts';
import { withDatabase } from './database.ts';
import { choosePorts, type OpenstackAddress, startServices, stopServices } from './services.ts';
import { ensureTemplate } from './template.ts';

/** A running OpenStack. */
export interface Openstack {
  readonly address: OpenstackAddress;
  /** Ends it and deletes its folder. */
  stop(): Promise<void>;
}

/**
 * Starts one on free ports, as it is when new. It ends with this process, however that dies. The first start for a user
 * takes minutes; progress goes to standard error. Throws an Error that says what is missing.
 * @param dir an empty folder for its state
 */
export async function startOpenstack(dir: string): Promise<Openstack> {
  const { packages, template, madeAt } = await ensureTemplate();
  await cp(template, dir, { recursive: true });
  const ports = await choosePorts();
  await writeConfigs({ dir, ports, packages });
  move(madeAt, { dir, ports });
  const servers = await startServices({ dir, ports, packages });
  return {
    address: { dir, ports },
    async stop() {
      await stopServices(servers);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** What the databases know of ports and folders. */
function move(from: OpenstackAddress, to: OpenstackAddress): void {
  const replaced = (column: string) => `${column} = replace(${column}, ?, ?)`;
  withDatabase(to.dir, 'keystone', (database) => {
    // A new port may be an old one of another service, so all are read first.
    const endpoints = database.prepare('select id, url from endpoint').all() as { id: string; url: string }[];
    const update = database.prepare('update endpoint set url = ? where id = ?');
    for (const { id, url } of endpoints) {
      const name = serviceNames.find((each) => url.startsWith(urlOf(from.ports[each])));
      if (name) update.run(url.replace(urlOf(from.ports[name]), urlOf(to.ports[name])), id);
    }
  });
  withDatabase(to.dir, 'nova_api', (database) => {
    const update = database.prepare(`update cell_mappings set ${replaced('database_connection')}`);
    for (const name of ['nova', 'nova_cell0']) update.run(databaseUrl(from.dir, name), databaseUrl(to.dir, name));
  });
  withDatabase(to.dir, 'glance', (database) => {
    database.prepare(`update image_locations set ${replaced('value')}`).run(from.dir, to.dir);
  });
}
