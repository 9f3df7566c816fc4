import { describe, expect, it } from '@jest/globals';
import { failures } from '../../api/failures.ts';
import { blockers } from '../../api/names.ts';
import { failuresDoc } from './failures.ts';

describe('failuresDoc', () => {
  it('has a row for every code and every blocker', () => {
    const rows = failuresDoc().matchAll(/^\|(?: \d+ \|)? `(\w+)` \|/gm);

    expect([...rows].map(([, name]) => name)).toEqual([...Object.keys(failures), ...Object.keys(blockers)]);
  });

  it('numbers the codes as machine-controller-manager does', () => {
    expect(failuresDoc()).toContain('| 1 | `Canceled` | ');
    expect(failuresDoc()).toContain('| 8 | `ResourceExhausted` | ');
    expect(failuresDoc()).toContain('| 17 | `Uninitialized` | ');
  });

  it('says what may be retried and what may have left a VM', () => {
    expect(failuresDoc()).toContain(
      '| 14 | `Unavailable` | The cloud cannot be reached or throttles, or the worker may not act now: it pauses, or serves another cluster. | yes | yes |  | CloudApi | 5 s | 5 s |',
    );
    expect(failuresDoc()).toContain(
      '| 3 | `InvalidArgument` | The providerSpec or a Secret is not valid. |  |  | yes | Source | 3 min | 30 s to 10 min |',
    );
    expect(failuresDoc()).toContain(
      '| 8 | `ResourceExhausted` | No capacity, or the quota is used up. |  |  |  | CloudCapacity | 10 min | 30 s to 10 min |',
    );
  });
});
