/** What people may run for the object of a workflow. */
import { workflowInfo } from '@temporalio/workflow';
import type { ObjectRef } from '../api/model/ref.ts';

/** A command line for the installation of the workflow. @param words between `millwright` and the name of the object */
export function commandLine(words: string, { namespace, name }: Pick<ObjectRef, 'namespace' | 'name'>): string {
  const { taskQueue: installation } = workflowInfo();
  const other = installation === namespace ? '' : ` --installation ${installation}`;
  return `millwright ${words} ${name} -n ${namespace}${other}`;
}
