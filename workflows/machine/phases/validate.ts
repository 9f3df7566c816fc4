/** Phase validate: the Machine carries our finalizer and has a source that a VM can be made from. */
import type { Place } from '../../../api/model/source.ts';
import { kubernetes } from '../kubernetes.ts';
import { setMachine } from '../observe.ts';
import { again, done, isPastCreation, type PhaseOutcome } from '../outcome.ts';
import { showRetry } from '../progress.ts';
import type { MachineState } from '../state.ts';
import { untilAnswered } from '../wait.ts';
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
  const refuse = async (blockedOn: 'MachineSpec' | 'Source', message: string) =>
    (await hasFinalizer(state, mayHaveVm(state.creation) ? undefined : []))
      ? creationRefused(state, doing, { code: 'InvalidArgument', message, blockedOn })
      : again;
  if (machine.problem !== undefined) return refuse('MachineSpec', machine.problem);
  const reading = await untilAnswered(state, doing, () => kubernetes.readSource(state.ref, machine.source));
  state.reading = reading;
  const { cloud, problem } = reading;
  if (problem !== undefined || cloud === undefined) return refuse('Source', problem ?? 'it has no provider');
  const isFirst = !state.machine.managed && !mayHaveVm(state.creation);
  if (!(await hasFinalizer(state, isFirst ? [cloud] : undefined))) return again;
  if (isFirst) state.placeVersion = reading.version;
  return done;
}

/**
 * Adds our finalizer to the Machine, unless it is there, with the places where VMs of it may be made. Without `places` it
 * keeps those that it records. Answers false where the Machine was deleted meanwhile.
 */
async function hasFinalizer(state: MachineState, places?: readonly Place[]): Promise<boolean> {
  const { machine: seen } = state;
  if (seen.managed) return true;
  const step = () => kubernetes.addFinalizer(state.ref, seen, places);
  setMachine(state, await untilAnswered(state, 'adding the finalizer', step));
  return state.machine.managed;
}
