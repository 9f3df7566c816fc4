/** What the owner engine says of a Machine of Gardener. */
import { gardener } from '../../api/gardener/index.ts';
import type { KubeObject } from '../../api/objects.ts';
import * as engine from '../../api/owner/machines.ts';

export const isActive = (machine: KubeObject) => engine.isActive(gardener, machine);
export const isAvailable = (machine: KubeObject) => engine.isAtWork(gardener, machine);
