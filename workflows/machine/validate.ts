/** Phase validate: the Machine carries our finalizer and names a class that a VM can be made from. */
import { kubernetes, type Life, untilAnswered } from './life.ts';
import { done, type PhaseOutcome, waitFor } from './phase.ts';
import { showProgress } from './progress.ts';
import { creationRefused } from './status.ts';

/** Nothing wrong gets past this phase to a cloud. Safe to repeat; does nothing once a VM is known. */
export async function validate(life: Life): Promise<PhaseOutcome> {
  const doing = 'checking the Machine and its class';
  if (!life.machine.managed) {
    const seen = life.machine;
    life.machine = await untilAnswered(life, 'adding the finalizer', () => kubernetes.addFinalizer(life.ref, seen));
    if (!life.machine.managed) return waitFor(0); // deleted meanwhile
  }
  if (life.machine.providerID !== undefined || life.machine.phase === 'Failed') return done;

  showProgress(life, { doing });
  const refuse = (blockedOn: 'MachineSpec' | 'Class', message: string) =>
    creationRefused(life, doing, { code: 'InvalidArgument', message, outcomeUnknown: false, blockedOn });
  const problem = classReferenceProblem(life.machine.class);
  if (problem !== undefined) return refuse('MachineSpec', problem);
  const { name } = life.machine.class;
  const reading = await untilAnswered(life, doing, () => kubernetes.readClass(life.ref, name));
  life.reading = reading;
  return reading.problem === undefined ? done : refuse('Class', reading.problem);
}

function classReferenceProblem({ kind, name }: { kind: string; name: string }): string | undefined {
  if (kind === '') return 'spec.class.kind is empty: set it to MachineClass';
  if (kind !== 'MachineClass') return `spec.class.kind is "${kind}": set it to MachineClass`;
  return name === '' ? 'spec.class.name is empty: set it to the name of a MachineClass in this namespace' : undefined;
}
