/** What people may run for the object of a workflow. */
import { workflowInfo } from '@temporalio/workflow';
import { commandLineFor } from '../api/command-line.ts';
import type { ObjectRef } from '../api/model/ref.ts';

/** `commandLineFor` the installation of the workflow. */
export function commandLine(
  words: string,
  of: Pick<ObjectRef, 'namespace'> & Partial<Pick<ObjectRef, 'name'>>,
): string {
  return commandLineFor(workflowInfo().taskQueue, words, of);
}
