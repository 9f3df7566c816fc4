import { describe, expect, it } from '@jest/globals';
import type { TemplatedNode } from '../../node-template.ts';
import { annotations } from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import { toNodePatch } from './node-template.ts';

const lastApplied = annotations.lastAppliedNodeTemplate;
const template = { metadata: { labels: { pool: 'a' } }, spec: { taints: [{ key: 'gpu', effect: 'NoSchedule' }] } };

const machine = (nodeTemplate?: object) => ({ spec: { nodeTemplate } }) as unknown as Machine;
const node = (noted: string | undefined, more: Partial<TemplatedNode['metadata']> = {}): TemplatedNode => ({
  metadata: { ...more, annotations: { ...more.annotations, ...(noted !== undefined && { [lastApplied]: noted }) } },
});

describe('toNodePatch', () => {
  it('notes the whole template where MCM looks for it', () => {
    expect(toNodePatch(machine(template), node(undefined))).toEqual({
      metadata: { labels: { pool: 'a' }, annotations: { [lastApplied]: JSON.stringify(template) } },
      spec: { taints: [{ key: 'gpu', effect: 'NoSchedule' }] },
    });
  });

  it('changes nothing on a Node that MCM has brought up to date', () => {
    // As Go writes a NodeTemplateSpec.
    const noted =
      '{"metadata":{"creationTimestamp":null,"labels":{"pool":"a"}},"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]}}';
    const upToDate = { ...node(noted, { labels: { pool: 'a', other: '1' } }), spec: template.spec };

    expect(toNodePatch(machine(template), upToDate)).toBeUndefined();
    expect(toNodePatch(machine(), node('{"metadata":{"creationTimestamp":null},"spec":{}}'))).toBeUndefined();
  });

  it('changes nothing on a Node whose Machine has no template', () => {
    expect(toNodePatch(machine(), node(undefined, { labels: { other: '1' } }))).toBeUndefined();
  });

  it('removes what an earlier template has put there', () => {
    const before = { ...node(JSON.stringify(template), { labels: { pool: 'a', other: '1' } }), spec: template.spec };

    expect(toNodePatch(machine(), before)).toEqual({
      metadata: { labels: { pool: null }, annotations: { [lastApplied]: '{}' } },
      spec: { taints: [] },
    });
  });

  it.each(['{', '[]', '{"metadata":{"labels":{"pool":1}}}'])('removes nothing by an annotation such as %s', (noted) => {
    expect(toNodePatch(machine(), node(noted, { labels: { pool: 'a' } }))?.metadata?.labels).toBeUndefined();
  });

  it('leaves the keys alone that Millwright writes itself', () => {
    const own = { 'node.gardener.cloud/machine-name': 'another', pool: 'a' };

    expect(toNodePatch(machine({ metadata: { labels: own } }), node(undefined))?.metadata?.labels).toEqual({
      pool: 'a',
    });
  });
});
