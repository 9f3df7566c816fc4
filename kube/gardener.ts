/** Coordinates and types of the `machine.sapcloud.io` kinds, for the client. */
import type { Machine } from '../api/gardener/machine.ts';
import type { MachineClass } from '../api/gardener/machine-class.ts';
import type { MachineDeployment } from '../api/gardener/machine-deployment.ts';
import type { MachineSet } from '../api/gardener/machine-set.ts';
import { resources } from '../api/gardener/names.ts';
import { defineResource } from './types.ts';

export const machineClasses = defineResource<MachineClass>(resources.machineClasses);
export const machines = defineResource<Machine>(resources.machines);
export const machineSets = defineResource<MachineSet>(resources.machineSets);
export const machineDeployments = defineResource<MachineDeployment>(resources.machineDeployments);
