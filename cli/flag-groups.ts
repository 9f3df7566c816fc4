/** Flags that several commands share. */

/** Which clusters. */
export const kubeconfigFlags = ['controlKubeconfig', 'targetKubeconfig', 'kubeconfig'] as const;

/** The clusters. */
export const clusterFlags = [...kubeconfigFlags, 'kubeApiQps', 'kubeApiBurst'] as const;

/** The namespace of a command that a person runs, which by default is that of the context. */
export const namespaceFlags = ['namespace', 'context', ...kubeconfigFlags] as const;

/** `namespaceFlags`, for a command that connects to the clusters. */
export const personFlags = [...namespaceFlags, 'kubeApiQps', 'kubeApiBurst'] as const;

/** The Temporal server and its credentials. */
export const temporalFlags = [
  'temporalAddress',
  'temporalNamespace',
  'temporalProfile',
  'temporalConfigFile',
  'temporalTls',
  'temporalTlsCa',
  'temporalTlsCert',
  'temporalTlsKey',
  'temporalTlsServerName',
  'temporalApiKeyFile',
  'temporalApiKey',
  'temporalCodecKeys',
] as const;

/** How a command finds and logs in to its servers: for people, a help of their own has them. */
export const connectionFlags = ['context', ...clusterFlags, ...temporalFlags] as const;

/** Every process that serves. */
export const serverFlags = [...clusterFlags, 'address', 'port', 'allowedHosts', 'logLevel', 'logFormat'] as const;

/** What decides about machines, in controllers and in workers: both need the same values. */
export const machineFlags = [
  'machineCreationTimeout',
  'machineHealthTimeout',
  'resourceExhaustedRetry',
  'machineDrainTimeout',
  'machinePreserveTimeout',
  'machineInplaceUpdateTimeout',
  'machineMaxEvictRetries',
  'nodeConditions',
  'controlPlaneNodes',
  'ordersInAnnotations',
  'autoscalerScaledownAnnotationDuringRollout',
] as const;

/** Controllers and workers. */
export const controllersFlags = ['namespace', 'installation', ...temporalFlags, ...machineFlags] as const;

/** Leader election of the controllers. */
export const electionFlags = [
  'leaderElect',
  'leaderElectLeaseDuration',
  'leaderElectRenewDeadline',
  'leaderElectRetryPeriod',
] as const;

/** What only controllers need, of the flags that machine-controller-manager has as well. */
export const leaderFlagsOfMcm = [
  ...electionFlags,
  'machineSafetyOrphanVmsPeriod',
  'machineSafetyApiserverStatuscheckTimeout',
  'safetyUp',
  'safetyDown',
  'machineSafetyOvershootingPeriod',
] as const;

/** What only controllers need. */
export const leaderFlags = [...leaderFlagsOfMcm, 'fleetPort', 'temporalUi', 'interruptionCheckPeriod'] as const;

/** What only workers need, of the flags that machine-controller-manager has as well. */
export const workerFlagsOfMcm = [
  'machinePvDetachTimeout',
  'machinePvReattachTimeout',
  'bootstrapTokenAuthExtraGroups',
] as const;

/** Workers. */
export const workersFlags = [
  ...controllersFlags,
  ...workerFlagsOfMcm,
  'providers',
  'defaultCredentials',
  'tokenFolder',
  'maxCachedWorkflows',
  'fastWorkflowSandbox',
  'serialVolumeDrain',
  'drainStuckAfter',
  'maxHealthReplacements',
  'outageShare',
  'orphanConfirmAfter',
  'orphanMinimumAge',
  'orphanBrakeCount',
  'orphanBrakeRate',
] as const;
