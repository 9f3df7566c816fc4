/** An installation whose payloads are encrypted: what Temporal has of it, who can read it, and a rotation of the key. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Client } from '@temporalio/client';
import { machineDeployments } from '../../api/gardener/resources.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import { searchAttributes } from '../../api/names.ts';
import { readCodecKeys } from '../../cli/data-converter.ts';
import { findServer } from '../../deploy/local/servers.ts';
import { createCodec, keyIdOf } from '../../temporal/codec.ts';
import { fetchHistory } from '../../temporal/fetch-history.ts';
import { findTaskFailure } from '../../temporal/task-failure.ts';
import { refreshSignal } from '../../workflows/messages.ts';
import { fromSetup, type Installation, startInstallation } from '../support/installation.ts';
import { startProcess } from '../support/millwright.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
let folder: string;
let millwright: Installation;
let machine: ObjectRef;

/** Names of objects that are in payloads. */
const canaries = { class: 'class-6b2f', secret: 'secret-6b2f' };
const keys = { a: randomBytes(32).toString('base64'), b: randomBytes(32).toString('base64') };
const encrypted = Buffer.from('binary/encrypted').toString('base64');

const folderOf = (name: string) => join(folder, name);
const write = (name: string, content: string) => writeFile(folderOf(name), `${content}\n`);
const withKeys = (path = folder) => ['--temporal-codec-keys', path];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millwright-keys-'));
  await write('a', keys.a);
  await write('current', 'a');
  // Without a cache each workflow task reads the whole history.
  millwright = await startInstallation({
    alone: 'its payloads are encrypted',
    flags: [...withKeys(), '--max-cached-workflows', '0'],
  });
  const { namespace } = millwright;
  await millwright.putSecret(canaries.secret, { token: 'letmein', userData: '#!/bin/sh\nexec kubelet' });
  await millwright.createClass(canaries.class, { secretRef: { namespace, name: canaries.secret } });
});
afterAll(async () => {
  await millwright?.stop();
  await rm(folder, { recursive: true });
});

/** What Temporal has of all workflows, as text, without the ids that it needs to find them. */
async function readHistories(): Promise<string> {
  const { temporal, namespace } = millwright;
  const texts: string[] = [];
  const query = `${searchAttributes.installation} = '${namespace}'`;
  for await (const { workflowId, runId } of temporal.workflow.list({ query })) {
    texts.push((await fetchHistory(temporal, workflowId, runId)).replaceAll(workflowId, ''));
  }
  return texts.join('\n');
}

/** A history with its payloads as text, encrypted ones as they are. */
function readable(history: string): string {
  return history.replace(/"data":\s*"([\w+/=]*)"/g, (_, data: string) =>
    Buffer.from(data, 'base64').toString('latin1'),
  );
}

/** Id of the key with which the worker encrypts now. */
async function currentKey(): Promise<string | undefined> {
  const { temporal } = millwright;
  const { workflowId } = millwright.handleOf(machine);
  const { queryResult } = await temporal.workflowService.queryWorkflow({
    namespace: 'default',
    execution: { workflowId },
    query: { queryType: 'describe' },
  });
  return keyIdOf(queryResult?.payloads?.[0] ?? {});
}

it('stores no name of a class or Secret, no providerSpec and no message of a failure that can be read', async () => {
  const { cloud } = millwright;
  await cloud.setFaults({ kind: 'outage', how: 'unavailable', operation: 'create', times: 1 });
  machine = await millwright.createMachine('encrypted', { class: { kind: 'MachineClass', name: canaries.class } });
  await millwright.untilPhase(machine, 'Running');

  const stored = await until('all of it is listed', async () => {
    const text = await readHistories();
    return text.includes('ensureVm') && text.includes('validateClass') ? text : undefined;
  });
  expect(stored).toContain(encrypted);
  expect(new Set([...stored.matchAll(/"message":\s*"([^"]*)"/g)].map(([, message]) => message))).toEqual(
    new Set(['Encoded failure']),
  );
  const text = readable(stored);
  for (const canary of [...Object.values(canaries), cloud.url, 'machineType'])
    expect(text.includes(canary)).toBe(false);
});

it('is read by commands that have the key', async () => {
  const { workflowId } = millwright.handleOf(machine);
  const described = await millwright.command('describe', 'machine', machine.name, ...withKeys());
  const timeline = await millwright.command('timeline', machine.name, ...withKeys());
  const exported = `${folder}.json`;
  const replayed = await millwright.command('replay', workflowId, '--export', exported, ...withKeys());
  const fromFile = await millwright.command('replay', exported, ...withKeys());
  const history = await readFile(exported, 'utf8');
  await rm(exported);
  const checked = await millwright.command('doctor', ...withKeys());

  expect(described).toMatchObject({ code: 0, output: expect.stringMatching(/^Phase +Running/m) });
  expect(timeline).toMatchObject({ code: 0, output: expect.stringContaining('provision') });
  expect(replayed).toMatchObject({ code: 0, output: expect.stringContaining('this version decides the same') });
  expect(fromFile).toMatchObject({ code: 0, output: expect.stringContaining('this version decides the same') });
  expect(readable(history).includes(canaries.class)).toBe(false);
  expect(checked.output).toMatch(/^✓ codec: .*encrypted with the key 'a'/m);
  expect(checked.output).toMatch(/^✓ settings: /m); // they have the keys, as the command has
});

it('stores no message of a workflow that has failed, and commands show it', async () => {
  const { cloud, control, namespace, temporal } = millwright;
  await cloud.setFaults({ kind: 'capacity' });
  const template = {
    metadata: { labels: { name: 'late-6b2f' } },
    spec: { class: { kind: 'MachineClass', name: canaries.class } },
  };
  await millwright.createDeployment('late-6b2f', 1, { template, progressDeadlineSeconds: 3 });
  const query = `MillwrightInstallation = '${namespace}' AND WorkflowType = 'rollout' AND ExecutionStatus = 'Failed'`;
  const failed = await until('its rollout has failed', async () => {
    for await (const run of temporal.workflow.list({ query })) return run;
    return undefined;
  });
  const { events } = await temporal.workflow.getHandle(failed.workflowId, failed.runId).fetchHistory();
  const runs = await millwright.command('rollout', 'runs', 'late-6b2f', ...withKeys());
  await control.delete(machineDeployments, { namespace, name: 'late-6b2f' });
  await cloud.setFaults();

  const { failure } = events?.at(-1)?.workflowExecutionFailedEventAttributes ?? {};
  expect(failure).toMatchObject({
    message: 'Encoded failure',
    stackTrace: '',
    applicationFailureInfo: { type: 'ProgressDeadlineExceeded' },
  });
  expect(runs.output).toMatch(/ failed .* late-6b2f-[^ ]+ .*\n +.*has made no progress for 3 s/);
});

it('is shown by Temporal’s own command, which asks millwright codec-server', async () => {
  const server = startProcess(['codec-server', '--codec-port', '0', ...withKeys()]);
  const { workflowId } = millwright.handleOf(machine);
  try {
    const url = await until('it serves', async (see) => /serving (\S+)/.exec(see(server.logs()))?.[1]);
    const address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS');
    const show = [...['workflow', 'show', '--address', address], '--workflow-id', workflowId, '--output', 'json'];
    const temporal = await findServer('temporal');
    const { stdout: stored } = await run(temporal, show);
    const { stdout: shown } = await run(temporal, [...show, '--codec-endpoint', url]);

    expect(stored).not.toContain(canaries.secret);
    expect(readable(shown)).toContain(canaries.secret);
  } finally {
    await server.stop();
  }
});

it('tells commands without the key what they need', async () => {
  const { workflowId } = millwright.handleOf(machine);
  const missing = `a payload is encrypted with the key 'a', which this process does not have: give the folder with the keys in --temporal-codec-keys`;
  const described = await millwright.command('describe', 'machine', machine.name);
  const timeline = await millwright.command('timeline', machine.name);
  const replayed = await millwright.command('replay', workflowId);
  const checked = await millwright.command('doctor');

  expect(described.output).toContain(missing);
  expect(timeline).toMatchObject({ code: 1, output: expect.stringContaining(missing) });
  expect(replayed).toMatchObject({ code: 1, output: expect.stringContaining(missing) });
  expect(checked.output).toMatch(/^✗ codec: .*'a'/m);
});

it('goes on with another key, waits while the old one is missing, and goes on when it is back', async () => {
  const other = await mkdtemp(join(tmpdir(), 'millwright-keys-'));
  await writeFile(join(other, 'b'), keys.b);
  await writeFile(join(other, 'current'), 'b');
  await write('b', keys.b);
  await write('current', 'b');
  await until('the worker encrypts with the new key', async (see) => see(await currentKey()) === 'b');

  const timeline = await millwright.command('timeline', machine.name, ...withKeys(other));
  await rm(other, { recursive: true });
  expect(timeline.output).toContain("key 'a', which this process does not have: add the file a to the folder");

  await rm(folderOf('a'));
  await until('the worker lacks the old key', async () =>
    currentKey().then(
      () => false,
      () => true,
    ),
  );
  const handle = millwright.handleOf(machine);
  await handle.signal(refreshSignal);
  await until(
    'its task fails',
    async (see) => see((await handle.describe()).raw.pendingWorkflowTask?.attempt ?? 0) > 1,
  );
  const dataConverter = { payloadCodecs: [createCodec(() => readCodecKeys(folder))] };
  const client = new Client({ connection: millwright.temporal.connection, dataConverter });
  expect((await findTaskFailure(client, handle))?.problem).toContain("the key 'a', which this process does not have");
  await write('a', keys.a);
  await millwright.remove(machine);

  const history = await fetchHistory(millwright.temporal, handle.workflowId);
  const ids = new Set([...history.matchAll(/"encryption-key-id":\s*"([\w+/=]+)"/g)].map(([, id]) => id));
  expect(ids).toEqual(new Set(['a', 'b'].map((id) => Buffer.from(id).toString('base64'))));
});
