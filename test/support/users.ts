/** Other users than root, where the tests run as root. Elsewhere everything runs as the one who started the tests. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

export const isRoot = process.getuid?.() === 0;

/** What a command begins with that runs as a user. @param user `<uid>:<gid>` */
export function becoming(user: string): readonly string[] {
  const [uid, gid] = user.split(':');
  return isRoot ? ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups'] : [];
}

/** Gives files to a user. */
export async function giveTo(user: string, path: string): Promise<void> {
  if (isRoot) await promisify(execFile)('chown', ['-R', '-h', user, path]);
}
