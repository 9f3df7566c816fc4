import type { Client } from '@temporalio/client';
import type { CloudAdmin } from '../../../deploy/local/simulated-cloud/admin.ts';
import type { KubeClient } from '../../../kube/client.ts';

/** Where an installation is, for what tests do there and ask. */
export interface Scene {
  readonly namespace: string;
  /** Cluster of the Machines, and that of their Nodes. */
  readonly control: KubeClient;
  readonly target: KubeClient;
  readonly cloud: CloudAdmin;
  readonly temporal: Client;
  /** What a person would want to see when a test waits in vain. */
  story(): Promise<string>;
}
