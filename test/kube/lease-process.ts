/**
 * A candidate as a process of its own, for tests of what happens to processes: started with ElectionOptions as JSON, it
 * writes what happens as lines of JSON, and reads commands as lines: `stop`, or `stall <ms> <file>`, which blocks its
 * main thread for this time, or until there is such a file.
 */
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { startElection } from '../../kube/lease.ts';
import { monotonicMs } from '../../kube/lease-lock.ts';

const print = (fields: object) => console.log(JSON.stringify(fields));
const log = (fields: object, message: string) => print({ message, ...fields });

const election = startElection({
  ...JSON.parse(process.argv[2] ?? ''),
  logger: { debug: log, info: log, warn: log, error: log },
  onLost(reason) {
    print({ message: 'lost', reason });
    process.exit(3);
  },
});
print({ message: 'started', identity: election.identity });

const asleep = new Int32Array(new SharedArrayBuffer(4));

for await (const line of createInterface(process.stdin)) {
  const [command, ms, endFile = ''] = line.split(' ');
  if (command === 'stop') break;
  print({ message: 'stuck' });
  const endsAt = monotonicMs() + Number(ms);
  while (monotonicMs() < endsAt && !existsSync(endFile)) Atomics.wait(asleep, 0, 0, 50); // blocks, and takes no CPU
  print({ message: 'moved again' });
}
await election.stop();
print({ message: 'stopped' });
process.exit(0);
