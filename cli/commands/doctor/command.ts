import { defineCommand } from '../../command.ts';
import { personFlags, temporalFlags } from '../../flag-groups.ts';

export const doctorCommand = defineCommand({
  name: 'doctor',
  description: `Check an installation: servers and their clocks, rights, CRDs, search attributes, retention, and whether somebody works on each task queue and provider. Each problem is shown with its fix. Exits with 3 if there is a problem.`,
  flags: ['installation', 'output', ...personFlags, ...temporalFlags],
  examples: [
    ['doctor', 'the installation of the namespace of the context'],
    ['doctor -n machines --installation blue', 'another one'],
  ],
  async run(options, _, rawFlags) {
    const { doctor } = await import('./run.ts');
    await doctor(options, rawFlags);
  },
});
