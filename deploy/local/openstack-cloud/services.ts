/** The processes of OpenStack's services. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { request } from 'undici';
import { freePort } from '../ports.ts';
import { type ServerHandle, startServer } from '../process.ts';
import { computes, type Ports, type ServiceName, serviceNames, urlOf } from './config.ts';
import type { Packages } from './packages.ts';

/** Where an OpenStack is. It can be handed to other processes as JSON. */
export interface OpenstackAddress {
  /** Folder of its databases and logs. */
  readonly dir: string;
  readonly ports: Ports;
}

/** Folder with the programs that start services. */
export const programs = fileURLToPath(new URL('programs/', import.meta.url));

/** Starting takes all of two cores for 8 s, and a busy machine has less to give, ms. */
const readyWithinMs = 180_000;

/** A free port for each service. */
export async function choosePorts(): Promise<Ports> {
  const ports = await Promise.all(serviceNames.map(async (name) => [name, await freePort()] as const));
  return Object.fromEntries(ports) as Ports;
}

/** Starts services on an existing state. Resolves when all of them answer. @param names Default: all */
export async function startServices(
  { dir, ports, packages }: OpenstackAddress & { readonly packages: Packages },
  names: readonly ServiceName[] = serviceNames,
): Promise<ServerHandle[]> {
  const bin = (name: string) => join(packages.root, 'usr/bin', name);
  const config = (name: ServiceName) => ['--config-file', join(dir, `${name}.conf`)];
  const commands: Record<ServiceName, readonly string[]> = {
    keystone: [join(programs, 'wsgi.py'), 'keystone', `${ports.keystone}`],
    placement: [join(programs, 'wsgi.py'), 'placement', `${ports.placement}`],
    nova: [join(programs, 'nova_all.py'), ...config('nova')],
    neutron: [bin('neutron-server'), ...config('neutron')],
    cinder: [join(programs, 'cinder_all.py'), ...config('cinder')],
    glance: [bin('glance-api'), ...config('glance')],
  };
  const env = {
    ...packages.env,
    PYTHONPATH: `${packages.env.PYTHONPATH}:${programs}`,
    OS_KEYSTONE_CONFIG_FILES: join(dir, 'keystone.conf'),
    OS_PLACEMENT_CONFIG_DIR: dir,
    NEEDED_PORTS: `${ports.keystone},${ports.placement}`,
    COMPUTE_DRIVERS: JSON.stringify(
      Object.fromEntries(Object.entries(computes).map(([host, { driver }]) => [host, driver])),
    ),
  };
  const aborted = new AbortController();
  const started: ServerHandle[] = [];
  const starts = names.map(async (name) => {
    const logFile = join(dir, `${name}.log`);
    const ready = () => answers(urlOf(ports[name]));
    const command = { name, executable: packages.python, args: commands[name], env, logFile, ready, readyWithinMs };
    started.push(await startServer(command, aborted.signal));
  });
  try {
    await Promise.all(starts);
  } catch (error) {
    aborted.abort(error);
    await Promise.allSettled(starts);
    await stopServices(started);
    throw error;
  }
  return started;
}

/** Nothing of their state is needed any more, or it is in a journal that the next start reads. */
export async function stopServices(servers: readonly ServerHandle[]): Promise<void> {
  await Promise.all(servers.map((server) => server.kill('SIGKILL')));
}

async function answers(url: string): Promise<boolean> {
  const { body } = await request(url);
  await body.dump();
  return true;
}
