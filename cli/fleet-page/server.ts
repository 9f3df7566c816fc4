/** The fleet page: every machine as a cell, live. It shows and changes nothing. */
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { blockers } from '../../api/names.ts';
import type { Logger } from '../../kube/logger.ts';
import { type BlockedWorkflow, listBlocked } from '../../temporal/blocked.ts';
import { askProgress, sweepType } from '../../temporal/schedules.ts';
import type { Held } from '../../workflows/orphansweep/messages.ts';
import { type Example, toSweepExample } from '../commands/stuck/causes.ts';
import { approvalText } from '../commands/sweep/report.ts';
import { forAllowedHosts } from '../process/allowed-hosts.ts';
import { listen } from '../process/listen.ts';
import { type Blocked, type Cell, changesOf, createCells } from './cells.ts';
import { type DetailsOptions, type Kind, readDetails } from './details.ts';
import { listStuck } from './stuck.ts';

export interface FleetPageOptions extends Omit<DetailsOptions, 'rawFlags'> {
  readonly address: string;
  /** 0: any free port. */
  readonly port: number;
  /** Besides those that are always allowed. */
  readonly allowedHosts: readonly string[];
  readonly logger: Logger;
}

/** How often changes are sent, ms. */
const sendMs = 500;
/** Pause between two questions to Temporal what is blocked while somebody looks, ms. */
const blockedMs = 3_000;
/** After an answer that took long the pause is this often its time. */
const pauseFactor = 10;
/**
 * How often something is sent in any case, ms: proxies end silent connections, and the page notices when nobody is
 * there.
 */
const beatMs = 10_000;
/** How long a viewer may take for what was sent, ms. */
const patienceMs = 30_000;
/** Anybody who reaches the port can ask: these bound what that costs Temporal, the API server and the controllers. */
const maxViewers = 100;
const maxConnections = 300;
/** An installation has at most one sweep of its Schedule and three others. */
const maxSweeps = 4;

const files: Readonly<Record<string, { readonly type: string; readonly content: Buffer }>> = {
  '/': pageFile('index.html', 'text/html'),
  '/icon.svg': pageFile('icon.svg', 'image/svg+xml'),
  '/page.css': pageFile('page.css', 'text/css'),
  '/page.js': pageFile('page.js', 'text/javascript'),
  '/dom.js': pageFile('dom.js', 'text/javascript'),
  '/life.js': pageFile('life.js', 'text/javascript'),
  '/rollout.js': pageFile('rollout.js', 'text/javascript'),
};

function pageFile(name: string, type: string) {
  return { type: `${type}; charset=utf-8`, content: readFileSync(new URL(`page/${name}`, import.meta.url)) };
}

/** Nothing but the page's own files, and no other site may frame it. */
const headers = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

/** Somebody who looks, and what has been sent. */
interface Viewer {
  readonly response: ServerResponse;
  cells: ReadonlyMap<string, Cell>;
  standing: string;
  /** By performance.now(). */
  sentAt: number;
}

const noCells: ReadonlyMap<string, Cell> = new Map();

/** Serves until closed. Throws an Error that names the flags when it cannot listen. */
export async function startFleetPage(options: FleetPageOptions): Promise<{ close(): Promise<void> }> {
  const { watches, installation, namespace, logger } = options;
  /** For the commands that the page recommends. */
  const rawFlags = installation.name === namespace ? {} : { installation: installation.name };
  const viewers = new Set<Viewer>();
  const toCells = createCells(watches, installation.name);
  let blocked: Blocked = new Map();
  /** What the blocked sweeps say, by their workflow ids. */
  let sweeps: ReadonlyMap<string, Example> = new Map();
  let problem: string | undefined;
  let isAsking = false;
  /** When Temporal is asked again, and when the viewers were sent something, by performance.now(). */
  let dueAt = Number.NEGATIVE_INFINITY;
  let lookedAt = Number.NEGATIVE_INFINITY;

  async function readBlocked(): Promise<void> {
    isAsking = true;
    const startedAt = performance.now();
    try {
      const listed = await listBlocked(installation);
      sweeps = await askSweeps(listed);
      blocked = new Map(listed.map((each) => [each.workflowId, each]));
      problem = undefined;
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    const now = performance.now();
    dueAt = now + Math.max(blockedMs, pauseFactor * (now - startedAt));
    isAsking = false;
  }

  /** One that does not answer is shown without its words. */
  async function askSweeps(listed: readonly BlockedWorkflow[]): Promise<ReadonlyMap<string, Example>> {
    const approvalOf = (held: Held) => approvalText(held, namespace, rawFlags);
    const sweeping = listed.filter(({ type, blockedOn }) => type === sweepType && blockedOn !== 'WorkflowTask');
    const said = sweeping.slice(0, maxSweeps).map(async ({ workflowId }) => {
      const progress = await askProgress(installation.client, workflowId).catch(() => undefined);
      return [workflowId, progress === undefined ? {} : toSweepExample(progress, approvalOf)] as const;
    });
    return new Map(await Promise.all(said));
  }

  function look(): void {
    if (viewers.size === 0) return;
    lookedAt = performance.now();
    if (!isAsking && lookedAt >= dueAt) void readBlocked();
    try {
      sendChanges(toCells(blocked));
    } catch (err) {
      logger.error({ err }, 'the fleet page cannot show the machines'); // which has to harm nothing else
    }
  }

  function sendChanges(cells: ReadonlyMap<string, Cell>): void {
    const standing = JSON.stringify(standingNow());
    const standingEvent = toEvent('standing', standing);
    /** By what was sent before, which is the same for most. */
    const events = new Map<ReadonlyMap<string, Cell>, Buffer | undefined>();
    for (const viewer of viewers) {
      const { response, cells: before } = viewer;
      const isLate = lookedAt - viewer.sentAt > patienceMs;
      // A viewer that is slow gets the sum of the changes later.
      if (response.writableNeedDrain) {
        if (isLate) response.destroy();
        continue;
      }
      if (!events.has(before)) events.set(before, changesEvent(before, cells));
      const changes = events.get(before);
      const isDue = standing !== viewer.standing || lookedAt - viewer.sentAt >= beatMs;
      if (changes !== undefined) response.write(changes);
      if (isDue) response.write(standingEvent);
      if (changes !== undefined || isDue) viewer.sentAt = lookedAt;
      Object.assign(viewer, { cells, standing });
    }
  }

  function standingNow() {
    return {
      ...{ namespace, installation: installation.name, meanings: blockers },
      isListed: watches.machines.synced,
      isReachable: watches.machines.reachable,
      ...(problem !== undefined && { problem }),
      ...listStuck(watches, installation.name, blocked, sweeps),
    };
  }

  /** @param isHead the request is only for the headers */
  function follow(response: ServerResponse, isHead: boolean): void {
    if (viewers.size >= maxViewers) return sendJson(response, 503, { error: `${maxViewers} others look already` });
    response.writeHead(200, { ...headers, 'content-type': 'text/event-stream' }).flushHeaders();
    if (isHead) return void response.end();
    const viewer: Viewer = { response, cells: noCells, standing: '', sentAt: performance.now() };
    viewers.add(viewer);
    response.once('close', () => viewers.delete(viewer));
    if (performance.now() - lookedAt >= sendMs) look();
  }

  const read = readDetails({ ...options, rawFlags });

  const listener = forAllowedHosts(options.allowedHosts, (request, response) => {
    const [path = ''] = (request.url ?? '').split('?');
    const [, kind, name] = /^\/(machines|deployments)\/([a-z0-9][-.a-z0-9]*)$/.exec(path) ?? [];
    const file = files[path];
    const isHead = request.method === 'HEAD'; // Node sends no body
    if (request.method !== 'GET' && !isHead) return sendJson(response, 405, { error: 'only GET and HEAD' });
    if (path === '/fleet') return follow(response, isHead);
    if (name !== undefined) {
      void read(kind as Kind, name).then(({ status, body }) => sendJson(response, status, body));
    } else if (file === undefined) sendJson(response, 404, { error: `nothing is at ${path}` });
    else response.writeHead(200, { ...headers, 'content-type': file.type }).end(file.content);
  });
  const server = createServer(listener);
  server.maxConnections = maxConnections;
  const { url, close } = await listen(server, options, '--address or --fleet-port');
  const looking = setInterval(look, sendMs);
  logger.info({ url }, 'serving the fleet page');
  return {
    async close() {
      clearInterval(looking);
      await close();
    },
  };
}

function toEvent(event: string, data: string): Buffer {
  return Buffer.from(`event: ${event}\ndata: ${data}\n\n`);
}

/** undefined: there are none. */
function changesEvent(before: ReadonlyMap<string, Cell>, now: ReadonlyMap<string, Cell>): Buffer | undefined {
  const changes = changesOf(before, now);
  return changes.changed.length + changes.gone.length === 0 ? undefined : toEvent('cells', JSON.stringify(changes));
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(JSON.stringify(body));
}
