/** Phase validate: the Machine carries our finalizer and has a source that a VM can be made from. */
import { kubernetes } from '../kubernetes.ts';
import { setMachine } from '../observe.ts';
import { again, done, isPastCreation, type PhaseOutcome } from '../outcome.ts';
import { showRetry } from '../progress.ts';
import type { MachineState } from '../state.ts';
import { refresh, untilAnswered } from '../wait.ts';
import { mayHaveVm } from './creation.ts';
import { creationRefused } from './refusal.ts';

/**
 * What is known to be wrong never reaches a cloud. The finalizer and the place of the VM are written together, before any
 * call to a cloud. Safe to repeat; once a VM is known it only checks the finalizer.
 */
export async function validate(state: MachineState): Promise<PhaseOutcome> {
  const { machine } = state;
  const doing = 'checking the Machine and its source';
  if (machine.providerID !== undefined || isPastCreation(machine.stage)) {
    return (await hasFinalizer(state)) ? done : again;
  }

  showRetry(state, { doing });
  const isFirst = !machine.managed && !mayHaveVm(state.creation);
  const step = () => kubernetes.begin(state.ref, machine, !isFirst, state.sourceVersion);
  const begun = await untilAnswered(state, doing, step);
  if (begun.machine === null) {
    await refresh(state);
    return again;
  }
  state.wasRead = true; // what a watcher saw was so when the finalizer was put on
  if (begun.machine !== undefined) setMachine(state, begun.machine);

  const { reading } = begun;
  const { cloud } = reading;
  const refuse = (blockedOn: 'MachineSpec' | 'Source', message: string) =>
    creationRefused(state, doing, { code: 'InvalidArgument', message, blockedOn });
  if (machine.problem !== undefined) return refuse('MachineSpec', machine.problem);
  state.reading = reading;
  if (reading.problem !== undefined || cloud === undefined) {
    return refuse('Source', reading.problem ?? 'it has no provider');
  }
  if (isFirst) state.placeVersion = reading.version;
  return done;
}

/** Adds our finalizer to the Machine, unless it is there. Answers false where the Machine was deleted meanwhile. */
async function hasFinalizer(state: MachineState): Promise<boolean> {
  const { machine: seen } = state;
  if (seen.managed) return true;
  const step = () => kubernetes.addFinalizer(state.ref, seen);
  setMachine(state, await untilAnswered(state, 'adding the finalizer', step));
  return state.machine.managed;
}
