/** The kinds of `fleet.example.org/v1`: schema-less, as what matters is in dialect.ts. */
import { defineResource, type KubeObject } from '../../../api/objects.ts';
import type { OwnerDeployment, OwnerSet } from '../../../api/owner/objects.ts';

export const group = 'fleet.example.org';
const version = 'v1';

/** What a VM is made from, in a Machine and in the template of its owner. */
export interface FleetMachineSpec {
  provider?: string;
  providerSpec?: unknown;
  /** Secret with the credentials and, under `userData`, the user data. */
  secretName?: string;
  /** Written by Millwright. */
  providerID?: string;
  /** Written by Millwright, once the Node is known. */
  nodeName?: string;
}

export interface FleetMachine extends KubeObject {
  spec?: FleetMachineSpec;
  status?: {
    /** Absent until the Node has joined. */
    nodeHealthy?: boolean;
    conditions?: { type: string; status: string }[];
    error?: { code?: string; message: string };
    failed?: true;
    lastKnownState?: string;
  };
}

export const fleetMachines = defineResource<FleetMachine>({
  ...{ group, version, plural: 'machines', kind: 'Machine', namespaced: true },
});
export const fleetSets = defineResource<OwnerSet>({
  ...{ group, version, plural: 'machinesets', kind: 'MachineSet', namespaced: true },
});
export const fleetDeployments = defineResource<OwnerDeployment>({
  ...{ group, version, plural: 'machinedeployments', kind: 'MachineDeployment', namespaced: true },
});

/** Definitions of the kinds, for an API server. */
export const fleetCrds = [fleetMachines, fleetSets, fleetDeployments].map(({ kind, plural }) => ({
  apiVersion: 'apiextensions.k8s.io/v1' as const,
  kind: 'CustomResourceDefinition' as const,
  metadata: { name: `${plural}.${group}` },
  spec: {
    group,
    scope: 'Namespaced' as const,
    names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), shortNames: [] },
    versions: [
      {
        name: version,
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object' as const,
            properties: {},
            'x-kubernetes-preserve-unknown-fields': true as const,
          },
        },
        subresources: { status: {} },
      },
    ],
  },
}));
