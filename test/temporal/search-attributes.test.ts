import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, type Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { searchAttributes } from '../../api/names.ts';
import { connectClient } from '../../temporal/connection.ts';
import { ensureSearchAttributes } from '../../temporal/search-attributes.ts';
import { until } from '../support/until.ts';

const names = Object.values(searchAttributes);
const keyword = 2;
const int = 3;
let connection: Connection;

beforeAll(async () => {
  const address = process.env.MILLWRIGHT_TEST_TEMPORAL_ADDRESS ?? '';
  connection = await connectClient({ address, namespace: 'default', tls: false });
});

afterAll(() => connection.close());

/** A Temporal namespace that nobody else uses. */
async function newNamespace(): Promise<string> {
  const namespace = `attributes-${Math.random().toString(36).slice(2)}`;
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs('1 day'),
  });
  await until('the namespace answers', () => new Client({ connection, namespace }).workflow.count());
  return namespace;
}

async function typesIn(namespace: string) {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return Object.fromEntries(names.map((name) => [name, customAttributes[name]]));
}

describe('ensureSearchAttributes', () => {
  it('adds all of them, also concurrently, and they can be used', async () => {
    const namespace = await newNamespace();
    const client = new Client({ connection, namespace });

    await Promise.all([1, 2, 3].map(() => ensureSearchAttributes(connection, namespace)));
    const { count } = await client.workflow.count(names.map((name) => `${name} = 'a'`).join(' OR '));
    await ensureSearchAttributes(connection, namespace);

    expect(count).toBe(0);
    expect(await typesIn(namespace)).toEqual(Object.fromEntries(names.map((name) => [name, keyword])));
  });

  it('adds those that are missing', async () => {
    const namespace = await newNamespace();
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: { [searchAttributes.phase]: keyword },
    });

    await ensureSearchAttributes(connection, namespace);

    expect(await typesIn(namespace)).toEqual(Object.fromEntries(names.map((name) => [name, keyword])));
  });

  it('refuses an attribute of another type', async () => {
    const namespace = await newNamespace();
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: { [searchAttributes.phase]: int },
    });

    await expect(ensureSearchAttributes(connection, namespace)).rejects.toThrow(
      `MillwrightPhase in the Temporal namespace '${namespace}' must be of type Keyword: remove the attributes of another type`,
    );
  });

  it('says what a namespace lacks that has no room for them', async () => {
    const namespace = await newNamespace();
    const ofOthers = Object.fromEntries([1, 2, 3, 4, 5].map((number) => [`Other${number}`, keyword]));
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: { ...ofOthers, [searchAttributes.phase]: keyword },
    });

    await expect(ensureSearchAttributes(connection, namespace)).rejects.toThrow(
      `the Temporal namespace '${namespace}' does not take the search attributes MillwrightInstallation, MillwrightProvider, ` +
        'MillwrightDeployment, MillwrightRevision, MillwrightBlockedOn (Unable to create search attributes: cannot have more than 10 ' +
        'search attribute of type Keyword.): remove those that nobody uses, or give another namespace with --temporal-namespace',
    );
  });
});
