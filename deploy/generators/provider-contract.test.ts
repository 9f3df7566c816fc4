import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { z } from 'zod';
import { activities, providerContractDoc } from './provider-contract.ts';

describe('providerContractDoc', () => {
  it('has a section for every activity', () => {
    const sections = providerContractDoc().matchAll(/^## (\w+)$/gm);

    expect([...sections].map(([, name]) => name)).toEqual(Object.keys(activities));
  });

  it('goes into objects and lists', () => {
    const doc = providerContractDoc();

    expect(doc).toContain('| `machine.uid` | string | yes | metadata.uid of the Machine. |');
    expect(doc).toContain('| `credentials[].name` | string | yes | Name of the Secret. |');
    expect(doc).toContain('| `state` | `deleting`, `gone` | yes | gone: nothing of the Machine is left');
    expect(doc).toContain('| `addresses` | list of object |  | Addresses known so far. |');
    expect(doc).toContain('| `ids` | map of string | yes | Volume name to cloud volume ID. |');
  });
});

describe('docs/providers.md', () => {
  const text = readFileSync(new URL('../../docs/providers.md', import.meta.url), 'utf8');
  const examples = [...text.matchAll(/^```json (\w+) (request|result)\n([^`]*)^```$/gm)].map(
    ([, activity = '', part = '', json = '']) => ({ activity, part, json }),
  );
  const schemas = new Map<string, z.ZodType | undefined>(
    Object.entries(activities).flatMap(([name, { request, result }]) => [
      [`${name} request`, request] as const,
      [`${name} result`, result] as const,
    ]),
  );

  it('has an example for each part of the two activities that every provider needs', () => {
    const parts = examples.map(({ activity, part }) => `${activity} ${part}`);

    expect(parts).toEqual(
      expect.arrayContaining(['ensureVm request', 'ensureVm result', 'deleteVm request', 'deleteVm result']),
    );
  });

  it.each(examples)(
    'shows a $activity $part that its schema accepts, without unknown fields',
    ({ activity, part, json }) => {
      const example: unknown = JSON.parse(json);

      expect(schemas.get(`${activity} ${part}`)?.parse(example)).toEqual(example);
    },
  );
});
