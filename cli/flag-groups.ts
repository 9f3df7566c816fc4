/** Flags that several commands share. */

/** The clusters. */
export const clusterFlags = ['controlKubeconfig', 'targetKubeconfig', 'kubeApiQps', 'kubeApiBurst'] as const;

/** The Temporal server and its credentials. */
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

/** Every process that serves. */
export const serverFlags = [...clusterFlags, 'address', 'port', 'logLevel', 'logFormat'] as const;

/** Controllers and workers. */
export const controllersFlags = [
  'namespace',
  'installation',
  ...temporalFlags,
  'machineCreationTimeout',
  'machineHealthTimeout',
  'resourceExhaustedRetry',
  'machineDrainTimeout',
  'machinePreserveTimeout',
  'machineInplaceUpdateTimeout',
  'machineMaxEvictRetries',
  'nodeConditions',
  'autoscalerScaledownAnnotationDuringRollout',
] as const;

/** Leader election of the controllers. */
export const electionFlags = [
  'leaderElect',
  'leaderElectLeaseDuration',
  'leaderElectRenewDeadline',
  'leaderElectRetryPeriod',
] as const;

/** What only controllers need. */
export const leaderFlags = [
  ...electionFlags,
  'fleetPort',
  'temporalUi',
  'machineSafetyOrphanVmsPeriod',
  'machineSafetyApiserverStatuscheckTimeout',
  'interruptionCheckPeriod',
  'safetyUp',
  'safetyDown',
  'machineSafetyOvershootingPeriod',
] as const;

/** Workers. */
export const workersFlags = [
  ...controllersFlags,
  'providers',
  'defaultCredentials',
  'maxCachedWorkflows',
  'fastWorkflowSandbox',
  'machinePvDetachTimeout',
  'machinePvReattachTimeout',
  'serialVolumeDrain',
  'drainStuckAfter',
  'bootstrapTokenAuthExtraGroups',
  'maxHealthReplacements',
  'outageShare',
  'orphanConfirmAfter',
  'orphanMinimumAge',
  'orphanBrakeCount',
  'orphanBrakeRate',
] as const;
