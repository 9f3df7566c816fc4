import { defineCommand } from '../../command.ts';
import { personFlags } from '../../flag-groups.ts';
import { parseObjects } from '../../kinds.ts';
import { UsageError } from '../../options.ts';

export const getCommand = defineCommand({
  name: 'get',
  description: `List machines, sets or deployments with what each of them waits for, and for how long: a machine since it is in its phase, a set or deployment since its last progress, or since the wait began if that was later. It reads Kubernetes only.`,
  arguments: [
    [
      'kind',
      'machines, sets or deployments, or a singular or short name of kubectl; or <kind>/<name> as `kubectl get -o name` prints it',
      ['machines', 'sets', 'deployments'],
    ],
    ['[name...]', 'names of the objects; leave them out for all of the namespace'],
  ],
  flags: ['output', 'watch', 'allNamespaces', 'selector', 'sortBy', ...personFlags],
  examples: [
    ['get machines', 'the machines of the namespace, and what each waits for'],
    ['get mcd -A', 'the MachineDeployments of all namespaces'],
    ['get mc -l name=workers --sort-by .metadata.creationTimestamp', 'some machines, the oldest first'],
    ['get mc -w -o json', 'an object in each line, at each change'],
  ],
  async run(options, [given = '', ...more], rawFlags) {
    const { kind, names } = await parseObjects(given, more);
    const [name] = names;
    if (name !== undefined && (options.allNamespaces || options.selector !== undefined)) {
      throw new UsageError(`name is '${name}': leave it out with --all-namespaces and with --selector`);
    }
    const { get } = await import('./run.ts');
    await get(kind, names, options, rawFlags);
  },
});
