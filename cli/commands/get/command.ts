import { defineCommand } from '../../command.ts';
import { personFlags } from '../../flag-groups.ts';
import { parseObjects } from '../../kinds.ts';

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
  flags: ['output', 'watch', ...personFlags],
  async run(options, [given = '', ...more]) {
    const { kind, names } = parseObjects(given, more);
    const { get } = await import('./run.ts');
    await get(kind, names, options);
  },
});
