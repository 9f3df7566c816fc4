/** The least that a MachineSet and a MachineDeployment need, for tests that change one thing in it. */
import type { MachineDeploymentSpec } from '../../api/gardener/schema/machine-deployment.ts';
import type { MachineSetSpec } from '../../api/gardener/schema/machine-set.ts';

export const validTemplate = {
  metadata: { labels: { pool: 'a' } },
  spec: { class: { kind: 'MachineClass', name: 'small' } },
};

export const validSetSpec: MachineSetSpec = {
  replicas: 1,
  selector: { matchLabels: { pool: 'a' } },
  template: validTemplate,
};

export const validDeploymentSpec: MachineDeploymentSpec = {
  replicas: 1,
  selector: { matchLabels: { pool: 'a' } },
  template: validTemplate,
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
};
