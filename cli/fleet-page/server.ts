/** The fleet page: every machine as a cell, live. It shows and changes nothing. */
import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { Client } from '@temporalio/client';
import type { KubeClient } from '../../kube/client.ts';
import type { Logger } from '../../kube/logger.ts';
import { type BlockedWorkflow, listBlocked, meanings } from '../../temporal/blocked.ts';
import { describeWorkflow, openOnly } from '../../temporal/describe.ts';
import { readTimeline } from '../../temporal/read-timeline.ts';
import type { Installation } from '../../temporal/workflows.ts';
import { type Answer, describeObject } from '../commands/describe/object.ts';
import { toText } from '../commands/describe/rows.ts';
import { timelineText } from '../commands/timeline/text.ts';
import { listen } from '../process/listen.ts';
import { blockedOf, type Cell, changesOf, createCells, type Stores } from './cells.ts';

export interface FleetPageOptions {
  readonly address: string;
  /** 0: any free port. */
  readonly port: number;
  readonly watches: Stores;
  readonly control: KubeClient;
  readonly installation: Installation;
  readonly namespace: string;
  /** Address of the Temporal UI, without a slash at its end. undefined: there are no links. */
  readonly temporalUi: string | undefined;
  readonly logger: Logger;
}

/** How often changes are sent, ms. */
const sendMs = 500;
/** How often Temporal is asked what is blocked while somebody looks, ms. */
const blockedMs = 3_000;

const files: Readonly<Record<string, { readonly type: string; readonly content: Buffer }>> = {
  '/': pageFile('index.html', 'text/html'),
  '/page.css': pageFile('page.css', 'text/css'),
  '/page.js': pageFile('page.js', 'text/javascript'),
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
}

/** Serves until closed. Throws an Error that names the flags when it cannot listen. */
export async function startFleetPage(options: FleetPageOptions): Promise<{ close(): Promise<void> }> {
  const { watches, installation, namespace, temporalUi, logger } = options;
  const viewers = new Set<Viewer>();
  const toCells = createCells(watches, installation.name);
  let blocked: ReadonlyMap<string, BlockedWorkflow> = new Map();
  let problem: string | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;

  async function readBlocked(): Promise<void> {
    askedAt = performance.now();
    try {
      blocked = new Map((await listBlocked(installation)).map((each) => [each.workflowId, each]));
      problem = undefined;
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    askedAt = performance.now();
  }

  function look(): void {
    if (viewers.size === 0) return;
    if (performance.now() - askedAt > blockedMs) void readBlocked();
    const cells = toCells(blocked);
    const standing = JSON.stringify(standingNow());
    for (const viewer of viewers) {
      if (viewer.response.writableNeedDrain) continue; // it gets the sum of the changes later
      const changes = changesOf(viewer.cells, cells);
      if (changes.changed.length > 0 || changes.gone.length > 0) send(viewer, 'cells', JSON.stringify(changes));
      if (standing !== viewer.standing) send(viewer, 'standing', standing);
      Object.assign(viewer, { cells, standing });
    }
  }

  function standingNow() {
    const waiting = watches.deployments.list().flatMap((deployment) => {
      const blockedOn = blockedOf(deployment, 'MachineDeployment', installation.name, blocked);
      return blockedOn === undefined ? [] : [{ name: deployment.metadata.name, blockedOn }];
    });
    return {
      ...{ namespace, installation: installation.name, meanings },
      isListed: watches.machines.synced,
      isReachable: watches.machines.reachable,
      ...(problem !== undefined && { problem }),
      deployments: waiting,
    };
  }

  function follow(response: ServerResponse): void {
    response.writeHead(200, { ...headers, 'content-type': 'text/event-stream' });
    const viewer: Viewer = { response, cells: new Map(), standing: '' };
    viewers.add(viewer);
    response.once('close', () => viewers.delete(viewer));
    look();
  }

  const openOnes = new Client({
    ...installation.client.options,
    connection: installation.client.connection,
    ...openOnly,
  });
  const ask = (id: string): Promise<Answer> =>
    describeWorkflow(openOnes, id).catch((error: unknown) => ({ state: 'unreachable', reason: String(error) }));

  async function showMachine(name: string, response: ServerResponse): Promise<void> {
    const source = { control: options.control, installation: installation.name, ask, rawFlags: {} };
    const [description, timeline] = await Promise.all([
      describeObject('Machine', { namespace, name }, source),
      readTimeline(installation, { namespace, name }).catch((error: unknown) => String(error)),
    ]);
    if (description === undefined && timeline === undefined) {
      return sendJson(response, 404, { error: `no Machine ${namespace}/${name}` });
    }
    const said = typeof timeline === 'string' ? `Temporal does not say: ${timeline}` : undefined;
    const lived = typeof timeline === 'string' ? undefined : timeline;
    sendJson(response, 200, {
      description: description === undefined ? 'The Machine is gone.' : toText(description.rows),
      timeline: said ?? (lived === undefined ? 'Temporal keeps no history of it.' : timelineText(lived, Date.now())),
      ...(temporalUi !== undefined && lived !== undefined && { link: linkTo(lived) }),
    });
  }

  /** The tab with what the workflow says of itself: the one that opens without it does not show that. */
  function linkTo({ workflowId, runId }: { readonly workflowId: string; readonly runId: string }): string {
    const path = [installation.client.options.namespace, 'workflows', workflowId, runId, 'user-metadata'];
    return `${temporalUi}/namespaces/${path.map(encodeURIComponent).join('/')}`;
  }

  const server = createServer((request, response) => {
    const [path = ''] = (request.url ?? '').split('?');
    const name = /^\/machines\/([-.a-z0-9]+)$/.exec(path)?.[1];
    const file = files[path];
    if (request.method !== 'GET') return sendJson(response, 405, { error: 'only GET' });
    if (path === '/fleet') return follow(response);
    if (name !== undefined) {
      showMachine(name, response).catch((error: unknown) => sendJson(response, 502, { error: String(error) }));
    } else if (file === undefined) sendJson(response, 404, { error: `nothing is at ${path}` });
    else response.writeHead(200, { ...headers, 'content-type': file.type }).end(file.content);
  });
  const { url, close } = await listen(server, options, '--fleet-port');
  const looking = setInterval(look, sendMs);
  logger.info({ url }, 'serving the fleet page');
  return {
    async close() {
      clearInterval(looking);
      await close();
    },
  };
}

function send({ response }: Viewer, event: string, data: string): void {
  response.write(`event: ${event}\ndata: ${data}\n\n`);
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(JSON.stringify(body));
}
