import { describe, expect, it } from '@jest/globals';
import { isRunning } from '../support/is-running.ts';
import { until } from '../support/until.ts';
import { createWorkerProcess } from './worker-process.ts';

describe('a worker process', () => {
  it('that ends by itself leaves no child', async () => {
    const worker = await createWorkerProcess({ program: 'sh', args: ['-c', 'sleep 600 & echo $!; exit 3'] });
    await worker.start();

    expect(await worker.ended()).toBe('3');

    const child = Number(worker.log());
    await until('its child is gone', () => !isRunning(child));
    await worker.stop();
  });
});
