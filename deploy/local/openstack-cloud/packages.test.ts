import { describe, expect, it } from '@jest/globals';
import { problemOf } from './packages.ts';

const bookworm = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\n';

describe('problemOf', () => {
  it('takes Debian 12 with apt-get, and names any other system', () => {
    expect(problemOf(bookworm, true)).toBeUndefined();
    expect(problemOf('PRETTY_NAME="Ubuntu 24.04 LTS"\nVERSION_CODENAME=noble\n', true)).toContain(
      'this is Ubuntu 24.04 LTS: run this on Debian 12 with apt-get',
    );
    expect(problemOf(bookworm, false)).toContain('(bookworm) without apt-get:');
  });
});
