/** Workflows that were changed on purpose. */
import { loadWorkflowBundle } from '../../temporal/bundle.ts';

/** The bundle of workflows/ with other code. Throws when the change changes nothing. */
export async function bundleChanged(change: (code: string) => string): Promise<{ code: string }> {
  const { code } = await loadWorkflowBundle();
  const changed = change(code);
  if (changed === code) throw new Error('the change has found nothing to change in workflows/');
  return { code: changed };
}
