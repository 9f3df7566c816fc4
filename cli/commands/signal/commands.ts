import { defineCommand } from '../../command.ts';
import { commandLine } from '../../command-line.ts';
import { personFlags, temporalFlags } from '../../flag-groups.ts';
import { parseNames } from '../../kinds.ts';
import { UsageError } from '../../options.ts';

export const retryCommand = defineCommand({
  name: 'retry',
  description: `Make machines try again now what they wait for, or everything that waits for one cause. It changes nothing else and is safe at any time. A whole rollout: rollout retry.`,
  arguments: [['[machine...]', 'names of Machines, or machine/<name>']],
  flags: ['blockedOn', 'installation', ...personFlags, ...temporalFlags],
  examples: [
    ['retry workers-757f8-4bh9w', 'one machine'],
    ['retry --blocked-on CloudCapacity', 'all that wait for capacity'],
  ],
  async run(options, given, rawFlags) {
    const names = await parseNames('Machine', given);
    if (options.blockedOn === 'Brake') {
      const stuck = commandLine(['stuck'], options.namespace, rawFlags);
      throw new UsageError(
        `--blocked-on is 'Brake': a sweep waits for approval, and not for a retry: ${stuck} lists the orphans, and the command that approves them`,
      );
    }
    if (names.length === 0 && options.blockedOn === undefined) {
      throw new UsageError('machine is missing: name machines, or give --blocked-on with a cause that `stuck` lists');
    }
    const { retry } = await import('./run.ts');
    await retry(names, options, rawFlags);
  },
});

export const drainCommand = defineCommand({
  name: 'drain',
  description: `Help along the drain of a Machine that is being deleted. --force deletes its pods with a grace period of 0 and does not wait for them; --skip deletes the VM with the pods still on it. Neither starts a deletion: delete the Machine first.`,
  arguments: [['machine', 'name of the Machine, or machine/<name>']],
  flags: ['force', 'skip', 'installation', ...personFlags, ...temporalFlags],
  examples: [
    ['drain workers-757f8-4bh9w --force', 'delete the pods that a budget holds'],
    ['drain workers-757f8-4bh9w --skip', 'delete the VM with its pods'],
  ],
  async run(options, given, rawFlags) {
    const [name = ''] = await parseNames('Machine', given);
    const { force, skip } = options;
    if (force === skip) {
      throw new UsageError(`--force ${force ? 'and --skip are both given' : 'or --skip is missing'}: give one of them`);
    }
    const { drain } = await import('./run.ts');
    await drain(name, force ? 'force' : 'skip', options, rawFlags);
  },
});
