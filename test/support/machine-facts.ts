/** What the owner engine says of a Machine of Gardener. */
import { gardenerOwners } from '../../api/gardener/owner.ts';
import type { KubeObject } from '../../api/objects.ts';
import * as engine from '../../api/owner/machines.ts';

export const isActive = (machine: KubeObject) => engine.isActive(gardenerOwners, machine);
export const isAvailable = (machine: KubeObject) => engine.isAvailable(gardenerOwners, machine);
