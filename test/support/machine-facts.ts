/** What the owner engine says of a Machine of Gardener. */
import { gardener } from '../../api/gardener/index.ts';
import type { KubeObject } from '../../api/objects.ts';
import * as availability from '../../api/owner/availability.ts';
import * as engine from '../../api/owner/machines.ts';

export const isActive = (machine: KubeObject) => engine.isActive(gardener, machine);
export const isAvailable = (machine: KubeObject) => availability.isAvailable(gardener, machine);
