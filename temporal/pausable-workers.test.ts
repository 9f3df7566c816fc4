import { describe, expect, it } from '@jest/globals';
import { recordingLogger } from '../test/support/kube.ts';
import type { Workers } from './pausable-workers.ts';
import { startPausableWorkers } from './pausable-workers.ts';

describe('startPausableWorkers', () => {
  it('rejects `failed` with the error of workers that cannot start again after a pause, and tries once', async () => {
    const holders = [undefined, { lease: 'any', holder: 'somebody' }];
    const starts: Array<() => Promise<Workers>> = [
      async () => ({ missing: () => [], failed: new Promise<never>(() => undefined), stop: async () => undefined }),
      () => Promise.reject(new Error('the second worker is refused')),
      () => new Promise<never>(() => undefined),
    ];
    const workers = await startPausableWorkers({
      findForeignHolder: async () => holders.shift(),
      lookEveryMs: 1,
      start: () => starts.shift()!(),
      logger: recordingLogger(),
    });

    await expect(workers.failed).rejects.toThrow('the second worker is refused');

    await workers.stop();
    expect(starts).toHaveLength(1);
    expect(workers.missing()).toEqual(['workers']);
  });
});
