/** What the suite gives a worker that it starts. */
import { describe, expect, it } from '@jest/globals';
import { fromSetup } from '../support/from-setup.ts';
import { testKubeconfig } from '../support/kube.ts';
import { until } from '../support/until.ts';
import type { Counterpart } from './counterpart.ts';
import { runAll } from './run-all.ts';

const ofCaller = {
  TEMPORAL_ADDRESS: 'canary',
  TEMPORAL_API_KEY: 'canary',
  TEMPORAL_TLS_CLIENT_KEY_DATA: 'canary',
  TEMPORAL_CONFIG_FILE: '/canary.toml',
  MILLWRIGHT_TEMPORAL_API_KEY: 'canary',
  AWS_SECRET_ACCESS_KEY: 'canary',
  KUBECONFIG: '/canary.yaml',
  CANARY: 'canary',
};

const cloud: Counterpart = {
  ...{ providerSpec: {}, credentials: {}, lacks: {}, manyVms: 1, env: { OF_CLOUD: 'cloud' } },
  ...{ setFault: async () => {}, things: async () => [], calls: async () => 0, makeVms: async () => [] },
  ...{ reset: async () => {}, stop: async () => {} },
};

describe('the worker of a provider, with a cloud under the control of the suite', () => {
  it('gets its program, its home and what it needs of the suite, and nothing else of the environment', async () => {
    const before = { ...process.env };
    Object.assign(process.env, ofCaller);
    let log = '';
    try {
      await runAll({
        servers: { kubeconfig: testKubeconfig(), temporalAddress: fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS') },
        providers: [
          {
            ...{ name: 'example', lateMs: 0, startCounterpart: async () => cloud },
            prepareWorker: async () => ({
              ...{ program: 'sh', args: ['-c', 'env; echo that is all'] },
              env: { TEMPORAL_ADDRESS: 'here' },
            }),
          },
        ],
        cases: [
          {
            ...{ title: 'environment', promise: '', section: '', needs: [], usesWorker: true },
            async run({ worker }) {
              log = await until('it has shown its environment', () => {
                const shown = worker?.log() ?? '';
                return /that is all/.test(shown) && shown;
              });
            },
          },
        ],
        signal: new AbortController().signal,
        onResult: () => {},
      });
    } finally {
      process.env = before;
    }

    expect(log).not.toContain('canary');
    expect(log.split('\n')).toEqual(
      expect.arrayContaining([
        ...[`PATH=${before['PATH']}`, `HOME=${before['HOME']}`],
        ...['TEMPORAL_ADDRESS=here', 'TEMPORAL_CONFIG_FILE=/nonexistent/temporal.toml', 'OF_CLOUD=cloud'],
      ]),
    );
  });
});
