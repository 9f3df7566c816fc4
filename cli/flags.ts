/** Which flags belong together. */

/** Where the clusters are. */
export const clusterFlags = ['controlKubeconfig', 'targetKubeconfig', 'kubeApiQps', 'kubeApiBurst'] as const;

/** Where the Temporal server is, and how to log in. */
export const temporalFlags = [
  'temporalAddress',
  'temporalNamespace',
  'temporalTls',
  'temporalTlsCa',
  'temporalTlsCert',
  'temporalTlsKey',
  'temporalTlsServerName',
  'temporalApiKeyFile',
  'temporalApiKey',
] as const;

/** Of every process that serves. */
export const serverFlags = [...clusterFlags, 'address', 'port', 'logLevel', 'logFormat'] as const;

/** Of the controllers. */
export const controllersFlags = [
  'namespace',
  'installation',
  ...temporalFlags,
  'machineCreationTimeout',
  'machineDrainTimeout',
  'machineMaxEvictRetries',
  'nodeConditions',
] as const;

/** How one of several controllers becomes the one that acts. */
export const electionFlags = [
  'leaderElect',
  'leaderElectLeaseDuration',
  'leaderElectRenewDeadline',
  'leaderElectRetryPeriod',
] as const;

/** Of whatever runs controllers. */
export const leaderFlags = [...electionFlags, 'machineSafetyOrphanVmsPeriod'] as const;

/** Of the workers. */
export const workersFlags = [
  ...controllersFlags,
  'providers',
  'maxCachedWorkflows',
  'bootstrapTokenAuthExtraGroups',
  'orphanConfirmAfter',
  'orphanMinimumAge',
  'orphanBrakeCount',
  'orphanBrakeRate',
] as const;
