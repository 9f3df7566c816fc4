import { describe, expect, it } from '@jest/globals';
import { apiDoc } from './api.ts';

describe('apiDoc', () => {
  const doc = apiDoc();

  it('has a section for every kind', () => {
    const sections = [...doc.matchAll(/^## (\w+)$/gm)].map(([, kind]) => kind);

    expect(sections).toEqual(['MachineClass', 'Machine', 'MachineSet', 'MachineDeployment']);
  });

  it('goes into objects, lists and maps', () => {
    expect(doc).toContain('| `spec.template.spec.class.name` | string |  | Name of the class');
    expect(doc).toContain('| `status.machineSetCondition[].type` | string | yes | `ReplicaFailure` or `Frozen`. |');
    expect(doc).toContain('| `nodeTemplate.capacity` | map of quantity | yes | ');
    expect(doc).toContain('| `spec.strategy.rollingUpdate.maxSurge` | integer or string |  | ');
    expect(doc).toContain('| `providerSpec` | object, other fields are kept | yes | ');
  });

  it('lists the rules below the fields of a kind', () => {
    expect(doc).toContain('- `spec.selector` is required: set selector.matchLabels to');
    expect(doc).toContain('- `spec.strategy.type`: must be one of RollingUpdate, Recreate, InPlaceUpdate\n');
    expect(doc).toContain('- `spec.template.spec.drainTimeout`: must be a Go duration');
  });
});
