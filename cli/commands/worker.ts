import { defineCommand } from '../command.ts';
import { serverFlags, workersFlags } from '../flags.ts';

export const workerCommand = defineCommand({
  name: 'worker',
  description: 'Run a worker: workflows, what they do in Kubernetes, and the named providers. As many as you like.',
  flags: [...serverFlags, ...workersFlags],
  async run(options) {
    const [{ serve }, { startWorkersPart }] = await Promise.all([
      import('../process/serve.ts'),
      import('../process/components.ts'),
    ]);
    await serve('worker', options, [(deps) => startWorkersPart(options, deps)]);
  },
});
