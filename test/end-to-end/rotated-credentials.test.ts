/** Millwright behind a Temporal server that demands client certificates and API keys, while both are rotated. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { machines } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { fetchHistory } from '../../temporal/fetch-history.ts';
import { readable } from '../../temporal/history.ts';
import { startTemporalFront, type TemporalFront } from '../faults/temporal-front.ts';
import { type Authority, createAuthority } from '../support/certificates.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { type MountedFiles, mountFiles } from '../support/mounted-files.ts';
import { until } from '../support/until.ts';

let folder: string;
let oldClients: Authority;
let front: TemporalFront;
let files: MountedFiles;
let installation: Installation;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-rotation-'));
  oldClients = await createAuthority('old');
  front = await startTemporalFront(fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS'), oldClients);
  front.accept(oldClients, 'first');
  files = await mountFiles(join(folder, 'temporal'));
  await write(oldClients, 'before', 'first');
  installation = await startInstallation({
    alone: 'it has a Temporal server of its own',
    flags: [
      ...['--temporal-address', front.address, '--temporal-tls-ca', files.path('ca.crt')],
      ...['--temporal-tls-cert', files.path('tls.crt'), '--temporal-tls-key', files.path('tls.key')],
      ...['--temporal-api-key-file', files.path('apiKey')],
    ],
  });
});

afterAll(async () => {
  await installation.stop();
  await front.close();
  await rm(folder, { recursive: true });
});

async function write(clients: Authority, commonName: string, apiKey: string): Promise<void> {
  const { crt, key } = await clients.issue(commonName);
  await files.write({ 'ca.crt': front.ca, 'tls.crt': crt, 'tls.key': key, apiKey });
}

it('goes on with rotated certificates and API keys, without a restart and without a task that times out', async () => {
  const [millwright] = installation.processes;
  const logged = (text: string) => millwright?.logs().split(text).length ?? 0;
  const before = await installation.createMachine('before');
  await installation.untilPhase(before, 'Running');
  const newClients = await createAuthority('new');
  // The server refuses a workflow task that is completed with the old credentials, and such a task times out.
  let [length, since] = [-1, 0];
  await until('its workflow rests', async () => {
    const { historyLength, raw } = await installation.handleOf(before).describe();
    if (historyLength !== length) [length, since] = [historyLength, performance.now()];
    return !raw.pendingWorkflowTask && performance.now() - since > 3_000;
  });

  await write(newClients, 'unknown yet', 'first');
  await until('the refusal is logged', () => logged('cannot use the changed credentials') > 1);
  front.accept(newClients, 'second');
  await write(newClients, 'after', 'second');
  await until('controllers and workers use the new ones', () => logged('using the changed credentials') > 2);
  front.cut();
  const cutAt = front.seen.length;
  const after = await installation.createMachine('after');
  await installation.untilPhase(after, 'Running');
  await installation.control.delete(machines, before);
  await installation.untilGone(before);

  const calls = front.seen.slice(cutAt);
  expect(new Set(calls.map(({ client, apiKey }) => `${client}, ${apiKey}`))).toEqual(new Set(['after, second']));
  expect(calls.map(({ method }) => method)).toEqual(
    expect.arrayContaining([
      ...['SignalWithStartWorkflowExecution', 'PollWorkflowTaskQueue', 'PollActivityTaskQueue'],
      'RespondWorkflowTaskCompleted',
    ]),
  );
  for (const machine of [before, after]) expect(await lostTasksOf(machine)).toEqual([]);
});

async function lostTasksOf(machine: ObjectRef): Promise<string[]> {
  const { workflowId } = installation.handleOf(machine);
  const types = readable(await fetchHistory(installation.temporal, workflowId)).map(({ eventType }) => eventType);
  expect(types).toContain('EVENT_TYPE_WORKFLOW_TASK_COMPLETED');
  return types.filter((type) => /TASK_(TIMED_OUT|FAILED)$/.test(type));
}
