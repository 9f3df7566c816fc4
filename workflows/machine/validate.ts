/** Phase validate: the Machine carries our finalizer and names a class that a VM can be made from. */
import type { Place } from '../../api/model/source.ts';
import { kubernetes, type Life, takeMachine, untilAnswered } from './life.ts';
import { again, done, isPastCreation, type PhaseOutcome } from './phase.ts';
import { showRetry } from './progress.ts';
import { creationRefused } from './status.ts';

/**
 * Nothing wrong gets past this phase to a cloud. The finalizer goes on with the place of the VM, before any call to a
 * cloud. Safe to repeat; only reads the finalizer once a VM is known.
 */
export async function validate(life: Life): Promise<PhaseOutcome> {
  const doing = 'checking the Machine and its class';
  if (life.machine.providerID !== undefined || isPastCreation(life.machine.phase)) {
    return (await isManaged(life)) ? done : again;
  }

  showRetry(life, { doing });
  const refuse = async (blockedOn: 'MachineSpec' | 'Class', message: string) =>
    (await isManaged(life, life.mayHaveVm ? undefined : []))
      ? creationRefused(life, doing, { code: 'InvalidArgument', message, outcomeUnknown: false, blockedOn })
      : again;
  const problem = nameProblem(life.ref.name) ?? classReferenceProblem(life.machine.class);
  if (problem !== undefined) return refuse('MachineSpec', problem);
  const reading = await untilAnswered(life, doing, () => kubernetes.readSource(life.ref, life.machine.source));
  life.reading = reading;
  const { cloud } = reading;
  if (reading.problem !== undefined || cloud === undefined)
    return refuse('Class', reading.problem ?? 'it has no provider');
  const isFirst = !life.machine.managed && !life.mayHaveVm;
  if (!(await isManaged(life, isFirst ? [cloud] : undefined))) return again;
  if (isFirst) life.placeVersion = reading.version;
  return done;
}

/**
 * Puts our finalizer on the Machine, unless it is there, with the places where VMs of it may be made. Left out: what it
 * says of them stays. Answers false where the Machine was deleted meanwhile.
 */
async function isManaged(life: Life, places?: readonly Place[]): Promise<boolean> {
  const { machine: seen } = life;
  if (seen.managed) return true;
  const step = () => kubernetes.addFinalizer(life.ref, seen, places);
  takeMachine(life, await untilAnswered(life, 'adding the finalizer', step));
  return life.machine.managed;
}

function nameProblem(name: string): string | undefined {
  if (name.length <= 63) return undefined;
  return `metadata.name has ${name.length} characters, and 63 is the most for the label of its node: choose a shorter one`;
}

function classReferenceProblem({ kind, name }: { kind: string; name: string }): string | undefined {
  if (kind === '') return 'spec.class.kind is empty: set it to MachineClass';
  if (kind !== 'MachineClass') return `spec.class.kind is "${kind}": set it to MachineClass`;
  return name === '' ? 'spec.class.name is empty: set it to the name of a MachineClass in this namespace' : undefined;
}
