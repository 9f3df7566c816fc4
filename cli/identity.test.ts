import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { identityOf } from './identity.ts';

const person = `${userInfo().username}@${hostname()}`;

describe('the identity of a person who runs a command', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millwright-identity-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it.each([
    ['has the user of the context', { token: 't' }, ' (user alice of the kubeconfig)'],
    ['has the user who is impersonated', { token: 't', as: 'bob' }, ' (user bob of the kubeconfig)'],
  ])('%s', (_, user, expected) => {
    const kubeconfig = join(folder, 'config');
    const clusters = [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }];
    const contexts = [{ name: 'c', context: { cluster: 'c', user: 'alice' } }];
    const users = [{ name: 'alice', user }];
    writeFileSync(kubeconfig, JSON.stringify({ kind: 'Config', clusters, contexts, users, 'current-context': 'c' }));
    expect(identityOf({ controlKubeconfig: '', targetKubeconfig: '', kubeconfig })).toBe(`${person}${expected}`);
  });

  it('has the account and the host alone without a kubeconfig', () => {
    const kubeconfig = join(folder, 'none');
    expect(identityOf({ controlKubeconfig: '', targetKubeconfig: '', kubeconfig })).toBe(person);
  });
});
