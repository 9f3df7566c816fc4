/** What people may run for an object. */
import type { ObjectRef } from './model/ref.ts';

/**
 * A command line for an installation.
 * @param words between `millwright` and the name of the object
 * @param of the object; without a name the command is for several
 */
export function commandLineFor(
  installation: string,
  words: string,
  { namespace, name }: Pick<ObjectRef, 'namespace'> & Partial<Pick<ObjectRef, 'name'>>,
): string {
  const other = installation === namespace ? '' : ` --installation ${installation}`;
  const object = name === undefined ? '' : ` ${name}`;
  return `millwright ${words}${object} -n ${namespace}${other}`;
}
