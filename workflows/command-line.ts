/** What people may run for the object of a workflow. */
import { workflowInfo } from '@temporalio/workflow';
import type { ObjectRef } from '../api/model/ref.ts';

/**
 * A command line for the installation of the workflow.
 * @param words between `millwright` and the name of the object
 * @param of the object; without a name the command is for several
 */
export function commandLine(
  words: string,
  { namespace, name }: Pick<ObjectRef, 'namespace'> & Partial<Pick<ObjectRef, 'name'>>,
): string {
  const { taskQueue: installation } = workflowInfo();
  const other = installation === namespace ? '' : ` --installation ${installation}`;
  const object = name === undefined ? '' : ` ${name}`;
  return `millwright ${words}${object} -n ${namespace}${other}`;
}
