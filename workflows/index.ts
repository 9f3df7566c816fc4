/** Every export is a workflow type, and its name is in histories. */
export { interruptionCheck } from './interruptions/check.ts';
export { machineLimits } from './limits/limits.ts';
export { machine } from './machine/machine.ts';
export { orphanSweep } from './orphansweep/sweep.ts';
export { machineSet, rollout } from './rollout/rollout.ts';
export { sourceCheck } from './sourcecheck/check.ts';
export { tagUpdate } from './sourcecheck/tag-update.ts';
