/** The program that has the state of the cloud's resources: arm/, which is built with Go once. */
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Agent, request } from 'undici';
import { toFlags } from '../admin-api.ts';
import { spawnGuarded } from '../process.ts';
import { findOwnProgram } from '../servers.ts';

const module = fileURLToPath(new URL('arm/', import.meta.url));

/** What is in the cloud from the start: all that a class of machines refers to. */
export interface ArmSeeds {
  readonly subscriptionId: string;
  readonly location: string;
  readonly zones: readonly string[];
  readonly resourceGroup: string;
  readonly vnetName: string;
  readonly subnetName: string;
  readonly subnetPrefix: string;
  /** VM sizes, in lower case. */
  readonly sizes: readonly string[];
  /** Images of the marketplace: publisher, offer, SKU and version with colons, in lower case. */
  readonly images: readonly string[];
  /** IDs of other resources that a VM or disk may name, in lower case. */
  readonly references: readonly string[];
}

/** A VM that has booted. */
export interface StartedVm {
  readonly id: string;
  readonly name: string;
  readonly location: string;
  /** As in the label of a Node; empty for a VM without a zone. */
  readonly zone: string;
  readonly size: string;
  readonly ip: string;
}

interface Line {
  readonly url?: string;
  readonly seeds?: ArmSeeds;
  readonly started?: StartedVm;
  readonly ended?: string;
}

export interface ArmOptions {
  /** Flags of the program, without their dashes. */
  readonly flags: Readonly<Record<string, string | number>>;
  onStarted(vm: StartedVm): void;
  /** @param id of a VM that runs no more */
  onEnded(id: string): void;
}

export interface ArmRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ArmAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type Arm = Awaited<ReturnType<typeof startArm>>;

/** The path of the program. Builds it at the first call on a machine, which takes minutes. */
export function findArm(): Promise<string> {
  return findOwnProgram({ name: 'azure-arm', module, minutes: 2 });
}

/** Starts the program, which ends with this process, and resolves when it serves. Its log is standard error. */
export async function startArm({ flags, onStarted, onEnded }: ArmOptions) {
  const child = spawnGuarded('KILL', await findArm(), toFlags(flags), { stdio: ['ignore', 'pipe', 2] });
  child.once('exit', (code, signal) => {
    process.stderr.write(`the program with the resources has exited (${signal ?? code})\n`);
    process.exit(1);
  });
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  const [first] = (await once(lines, 'line')) as [string];
  lines.on('line', (text) => {
    const { started, ended }: Line = JSON.parse(text);
    if (started) onStarted(started);
    if (ended !== undefined) onEnded(ended);
  });
  const { url, seeds }: Line = JSON.parse(first);
  if (url === undefined || seeds === undefined) throw new Error(`the program with the resources says ${first}`);
  const dispatcher = new Agent({ connections: 16 });

  return {
    seeds,
    async send({ method, path, body, headers }: ArmRequest): Promise<ArmAnswer> {
      const answer = await request(url + path, {
        ...{ method: method as 'GET', headers, dispatcher },
        ...(body !== '' && { body }),
      });
      const kept = Object.entries(answer.headers).filter(([name]) => !hopByHop.has(name));
      return {
        status: answer.statusCode,
        headers: Object.fromEntries(kept.map(([name, value]) => [name, String(value)])),
        body: await answer.body.text(),
      };
    },
  };
}

const hopByHop = new Set(['connection', 'keep-alive', 'content-length', 'date', 'transfer-encoding']);
