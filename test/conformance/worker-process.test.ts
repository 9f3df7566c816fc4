import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '../support/until.ts';
import { createWorkerProcess, withoutTemporal } from './worker-process.ts';

const ofUser = {
  TEMPORAL_API_KEY: 'canary-key',
  TEMPORAL_TLS_SERVER_NAME: 'canary-server',
  TEMPORAL_PROFILE: 'canary-profile',
  TEMPORAL_CONFIG_FILE: '/canary.toml',
  MILLWRIGHT_TEMPORAL_API_KEY: 'canary-key',
};

describe('the worker of a provider', () => {
  const before = { ...process.env };
  beforeAll(() => {
    Object.assign(process.env, ofUser);
  });
  afterAll(() => {
    process.env = before;
  });

  it("speaks to the server of the suite, whatever the environment says about the user's own", async () => {
    const env = { ...withoutTemporal(), TEMPORAL_ADDRESS: '127.0.0.1:7233' };
    const worker = await createWorkerProcess({ program: 'sh', args: ['-c', 'env; echo that is all'], env });
    await worker.start();

    const log = await until('it has shown its environment', () => /that is all/.test(worker.log()) && worker.log());
    await worker.stop();

    expect(
      log
        .split('\n')
        .filter((line) => /^(MILLWRIGHT_)?TEMPORAL_/.test(line))
        .toSorted(),
    ).toEqual(['TEMPORAL_ADDRESS=127.0.0.1:7233', 'TEMPORAL_CONFIG_FILE=/dev/null']);
  });
});
