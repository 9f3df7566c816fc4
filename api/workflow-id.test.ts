import { describe, expect, it } from '@jest/globals';
import { canHaveWorkers, maxProviderLength, providerNameProblem } from './names.ts';
import { workflowId } from './workflow-id.ts';

/** What Temporal accepts, in characters, and the longest names that Kubernetes does. */
const most = 1_000;
const namespace = 'n'.repeat(63);
const name = 'm'.repeat(253);
const uid = 'u'.repeat(36);

describe('what objects are called in Temporal', () => {
  it.each(['Machine', 'MachineDeployment', 'MachineSet'] as const)('is not too long: a %s', (kind) => {
    expect(workflowId(namespace, kind, { dialect: 'gardener', namespace, name, uid }).length).toBeLessThan(most);
  });

  it('is not too long: the task queue of a provider, and a longer name is refused', () => {
    const longest = 'p'.repeat(maxProviderLength);
    expect(providerNameProblem(longest)).toBeUndefined();
    expect(canHaveWorkers(namespace, longest)).toBe(true);
    expect(canHaveWorkers(namespace, 'p'.repeat(most))).toBe(false);
    expect(providerNameProblem(`${longest}p`)).toContain('provider has 201 characters, and 200 is the most');
  });
});
