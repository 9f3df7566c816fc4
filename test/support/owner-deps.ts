/** What the activities of owners are given where no machine is unhealthy. */
export const noReplacements = {
  mostReplacing: { count: 0 },
  findOutage: async () => undefined,
  defaults: { creationSeconds: 1200, drainSeconds: 7200, maxEvictRetries: 360, nodeConditions: [] },
};
