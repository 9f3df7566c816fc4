/**
 * What a workflow asks for while it is replayed. Only the bundle of `millwright replay` has it, that of workers has
 * not.
 */
import { type ConcludeActivationInput, proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';

/** Commands to Temporal, as the SDK passes them on. */
export type Commands = ConcludeActivationInput['commands'];

export interface ReplaySinks extends Sinks {
  readonly replay: {
    /** The commands of one activation of the workflow. */
    asked(commands: Commands): void;
  };
}

const { replay } = proxySinks<ReplaySinks>();

/** Called for each run by the SDK. */
export function interceptors(): WorkflowInterceptors {
  return {
    internals: [
      {
        concludeActivation(input, next) {
          replay.asked(input.commands);
          return next(input);
        },
      },
    ],
  };
}
