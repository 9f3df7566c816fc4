import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { failures, isFailureCode } from '../../api/failures.ts';
import { FailureDetails } from '../../api/provider.ts';
import {
  activities,
  contractExamples,
  failureExamples,
  providerContractDoc,
  providerContractSchema,
  types,
} from './provider-contract.ts';

const examples = contractExamples();

describe('providerContractDoc', () => {
  it('has a section for every activity, and one for failures', () => {
    const sections = providerContractDoc().matchAll(/^## (\w+)$/gm);

    expect([...sections].map(([, name]) => name)).toEqual([...Object.keys(activities), 'Failures']);
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

describe('providerContractSchema', () => {
  const schema = JSON.parse(providerContractSchema());
  const readerOf = (type: string) => z.fromJSONSchema({ ...schema, $ref: `#/$defs/${type}` });

  it('has every type of the contract, and refers to no other', () => {
    const references = [...providerContractSchema().matchAll(/"\$ref": "#\/\$defs\/(\w+)"/g)].map(([, name]) => name);

    expect(Object.keys(schema.$defs)).toEqual([...types.keys()]);
    expect(references).toEqual(expect.arrayContaining(['SecretRef', 'MachineIdentity', 'CloudResource']));
    expect(references.filter((name = '') => !types.has(name))).toEqual([]);
  });

  it.each(examples)('accepts the example $# of docs/providers.md, a $type, and has it', ({ type, value }) => {
    expect(readerOf(type).safeParse(value).error).toBeUndefined();
    expect(schema.$defs[type].examples).toContainEqual(value);
  });

  it('accepts fields that it does not know, and refuses a request without one that is required', () => {
    const [{ value } = { value: {} }] = examples.filter(({ type }) => type === 'EnsureVmRequest');
    const reader = readerOf('EnsureVmRequest');

    expect(reader.safeParse({ ...(value as object), later: 1 }).success).toBe(true);
    expect(reader.safeParse({ ...(value as object), token: undefined }).error?.issues).toMatchObject([
      { path: ['token'] },
    ]);
  });
});

describe('docs/providers.md', () => {
  it('has an example of every request and every result', () => {
    const wanted = Object.values(activities).flatMap(({ request, result }) => [request, ...(result ? [result] : [])]);
    const shown = new Set(examples.map(({ type }) => type));

    expect(wanted.filter((type) => !shown.has(type))).toEqual([]);
  });

  it.each(examples)('shows in example $# a $type that api/provider.ts accepts, without unknown fields', (example) => {
    const { type, value } = example;

    expect(types.get(type)?.parse(value)).toEqual(value);
  });

  it('has failures by example, which are retryable only if their code is transient and their pause short', () => {
    const wrong = failureExamples().filter(({ code, retryable, details }) => {
      const { retryAfterMs = 0 } = FailureDetails.parse(details);
      const isRetryable = isFailureCode(code) && failures[code].transient && retryAfterMs < 10_000;
      return !isFailureCode(code) || retryable.startsWith('yes') !== isRetryable;
    });

    expect(failureExamples().length).toBeGreaterThan(5);
    expect(wrong).toEqual([]);
  });
});
