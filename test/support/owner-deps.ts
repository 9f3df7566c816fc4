/** What the activities of owners are given where no machine is unhealthy and no namespace limits its machines. */
import type { ClaimMachines } from '../../activities/owner/step.ts';

const claimMachines: ClaimMachines = async (_scope, { names }) => ({ granted: names });

export const noReplacements = {
  mostReplacing: { count: 0 },
  findOutage: async () => undefined,
  claimMachines,
  defaults: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] },
};
