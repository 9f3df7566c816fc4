/** Phase validate: the Machine carries our finalizer and has a source that a VM can be made from. */
import { isPastCreation } from '../../../api/model/machine.ts';
import { kubernetes, kubernetesSteps } from '../kubernetes.ts';
import { setMachine } from '../observe.ts';
import { again, done, type PhaseOutcome } from '../outcome.ts';
import { showRetry } from '../progress.ts';
import { isHeld, noteWrite, waitForWrite } from '../repeats.ts';
import type { MachineState } from '../state.ts';
import { refresh, untilAnswered } from '../wait.ts';
import { mayHaveVm } from './creation.ts';
import { creationRefused } from './refusal.ts';

/**
 * What is known to be wrong never reaches a cloud. The finalizer and the place of the VM are written together, before
 * any call to a cloud. Safe to repeat; once a VM is known it only adds a missing finalizer.
 */
export async function validate(state: MachineState): Promise<PhaseOutcome> {
  const { machine } = state;
  const doing = 'checking the Machine and its source';
  if (machine.providerID !== undefined || isPastCreation(machine.stage)) {
    if (!machine.managed && isHeld(state, 'finalizer')) {
      return isPastCreation(machine.stage) ? done : waitForWrite(state, { doing: addingFinalizer });
    }
    return (await ensureFinalizer(state)) ? done : again;
  }

  showRetry(state, { doing });
  const step = () => kubernetesSteps.begin(state.ref, state.machine, mayHaveVm(state.creation), state.sourceVersion);
  const { reading, machine: begun } = await untilAnswered(state, doing, step);
  if (begun === null) {
    await refresh(state);
    return again;
  }
  if (begun !== undefined) {
    state.wasRead = true; // it is as a watcher saw it, or the finalizer would not be on
    setMachine(state, begun);
  }

  const { problem } = state.machine;
  const { cloud, refusal } = reading;
  const refuse = (blockedOn: 'MachineSpec' | 'Source', message: string) =>
    creationRefused(state, doing, { code: 'InvalidArgument', message, blockedOn });
  if (problem !== undefined) return refuse('MachineSpec', problem);
  state.reading = reading;
  if (reading.problem !== undefined || cloud === undefined) {
    return refuse('Source', reading.problem ?? 'it has no provider');
  }
  // A VM that may exist is looked for all the same: its request may be older than what the verdict is about.
  if (refusal !== undefined && !mayHaveVm(state.creation)) return refuse('Source', refusal);
  if (begun !== undefined && !mayHaveVm(state.creation)) state.placeVersion = reading.version;
  return state.machine.managed ? done : again; // somebody may have taken the finalizer off meanwhile
}

const addingFinalizer = 'adding the finalizer';

/** Adds our finalizer to the Machine, unless it is there. Answers false where the Machine was deleted meanwhile. */
async function ensureFinalizer(state: MachineState): Promise<boolean> {
  const { machine: seen } = state;
  if (seen.managed) return true;
  noteWrite(state, 'finalizer');
  const step = () => kubernetes.addFinalizer(state.ref, seen);
  setMachine(state, await untilAnswered(state, addingFinalizer, step));
  return state.machine.managed;
}
