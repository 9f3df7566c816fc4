/** Coordinates and types of the `machine.sapcloud.io` kinds, for the client. */

import { defineResource } from '../objects.ts';
import { resources } from './names.ts';
import type { Machine } from './schema/machine.ts';
import type { MachineClass } from './schema/machine-class.ts';
import type { MachineDeployment } from './schema/machine-deployment.ts';
import type { MachineSet } from './schema/machine-set.ts';

export const machineClasses = defineResource<MachineClass>(resources.machineClasses);
export const machines = defineResource<Machine>(resources.machines);
export const machineSets = defineResource<MachineSet>(resources.machineSets);
export const machineDeployments = defineResource<MachineDeployment>(resources.machineDeployments);
