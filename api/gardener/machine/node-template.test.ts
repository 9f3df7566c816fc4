import { describe, expect, it } from '@jest/globals';
import type { TemplatedNode } from '../../node-template.ts';
import { annotations, labels, taints } from '../names.ts';
import type { Machine } from '../schema/machine.ts';
import type { MachineClass } from '../schema/machine-class.ts';
import { problemsOfNodeTemplate, toNodePatch, toTaintsPatch } from './node-template.ts';

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

  it('leaves out what no API server accepts, and notes it all the same', () => {
    const taint = { key: 'gpu', effect: 'NoSchedule' };
    const partly = {
      metadata: { labels: { pool: 'a', team: 'two words' } },
      spec: { taints: [taint, { ...taint, value: 'again' }, { key: 'gpu', effect: 'NoSchedul' }] },
    };
    const note = { [lastApplied]: JSON.stringify(partly) };

    const patch = toNodePatch(machine(partly), node(undefined));

    expect(patch).toEqual({ metadata: { labels: { pool: 'a' }, annotations: note }, spec: { taints: [taint] } });
    const after = { metadata: { labels: { pool: 'a' }, annotations: note }, spec: { taints: [taint] } };
    expect(toNodePatch(machine(partly), after)).toBeUndefined();
    expect(problemsOfNodeTemplate(partly, 'spec')).toEqual([
      expect.stringContaining('spec.nodeTemplate.metadata.labels has team="two words"'),
      expect.stringContaining('spec.nodeTemplate.spec.taints has gpu=again:NoSchedule'),
      expect.stringContaining('spec.nodeTemplate.spec.taints has gpu:NoSchedul'),
    ]);
  });

  it('is the whole again after the taints alone were applied, which keep what others and an earlier template have put there', () => {
    const earlier = { metadata: { labels: { old: '1' } }, spec: { taints: [{ key: 'old', effect: 'NoSchedule' }] } };
    const before = { ...node(JSON.stringify(earlier), { labels: { old: '1', other: '1' } }), spec: earlier.spec };

    const patch = toTaintsPatch(machine(template), before);

    const noted = patch?.metadata?.annotations?.[lastApplied] ?? '';
    expect(patch).toEqual({ metadata: { annotations: { [lastApplied]: noted } }, spec: template.spec });
    expect(JSON.parse(noted)).toEqual({ metadata: earlier.metadata, spec: template.spec });
    const after = { ...node(noted, { labels: { old: '1', other: '1' } }), spec: template.spec };
    expect(toNodePatch(machine(template), after)).toEqual({
      metadata: { labels: { old: null, pool: 'a' }, annotations: { [lastApplied]: JSON.stringify(template) } },
    });
  });

  it('leaves the keys alone that Millwright writes itself', () => {
    const own = { 'node.gardener.cloud/machine-name': 'another', [labels.selectedForUpdate]: 'true', pool: 'a' };
    const { preferNoSchedule, preserved } = taints;
    const spec = { taints: [preferNoSchedule, { key: 'gpu', effect: 'NoSchedule' }, preserved] };
    const patch = toNodePatch(machine({ metadata: { labels: own }, spec }), node(undefined));

    expect(patch?.metadata?.labels).toEqual({ pool: 'a' });
    expect(patch?.spec?.taints).toEqual([{ key: 'gpu', effect: 'NoSchedule' }]);
  });

  it.each(['true', 'false'])(
    'leaves the annotation that keeps the autoscaler away, where the template says %s',
    (value) => {
      const { scaleDownDisabled, scaleDownDisabledByMcm } = annotations;
      const wanted = { metadata: { annotations: { [scaleDownDisabled]: value } } };
      const noted = JSON.stringify(wanted);
      const ours = { [scaleDownDisabled]: 'true', [scaleDownDisabledByMcm]: 'true' };

      expect(toNodePatch(machine(wanted), node(noted, { annotations: ours }))).toBeUndefined();
      expect(toNodePatch(machine(), node(noted, { annotations: ours }))?.metadata?.annotations).toEqual({
        [lastApplied]: '{}',
      });
      expect(toNodePatch(machine(wanted), node(noted))?.metadata?.annotations).toMatchObject({
        [scaleDownDisabled]: value,
      });
    },
  );
});

describe('the virtual capacity of a class', () => {
  const lastCapacity = annotations.lastAppliedVirtualCapacity;
  const machineClass = (virtualCapacity?: object) => ({ nodeTemplate: { virtualCapacity } }) as unknown as MachineClass;
  const has = (capacity: Record<string, string>, noted?: string): TemplatedNode => ({
    metadata: { annotations: noted === undefined ? {} : { [lastCapacity]: noted } },
    status: { capacity },
  });

  it.each<[string, TemplatedNode, object | undefined, object | undefined]>([
    [
      'is written with a note',
      has({ cpu: '4' }),
      { 'example.com/vgpu': 2 },
      {
        metadata: { annotations: { [lastCapacity]: '{"example.com/vgpu":"2"}' } },
        status: { capacity: { 'example.com/vgpu': '2' } },
      },
    ],
    [
      'is not written twice',
      has({ 'example.com/vgpu': '2' }, '{"example.com/vgpu":"2"}'),
      { 'example.com/vgpu': '2' },
      undefined,
    ],
    [
      'goes with its note',
      has({ cpu: '4', 'example.com/vgpu': '2' }, '{"example.com/vgpu":"2"}'),
      undefined,
      { metadata: { annotations: { [lastCapacity]: null } }, status: { capacity: { 'example.com/vgpu': null } } },
    ],
    ...['1000 1k', '1024Mi 1Gi', '0.5 500m'].map((pair): [string, TemplatedNode, object, undefined] => {
      const [given = '', stored = ''] = pair.split(' ');
      const noted = JSON.stringify({ 'example.com/slots': given });
      const name = `of ${given} is not written twice, although the API server stores ${stored}`;
      return [name, has({ 'example.com/slots': stored }, noted), { 'example.com/slots': given }, undefined];
    }),
    ['leaves that of others', has({ 'example.com/theirs': '1' }), undefined, undefined],
  ])('%s', (_, before, virtualCapacity, patch) => {
    expect(toNodePatch(machine(), before, machineClass(virtualCapacity))).toEqual(patch);
  });

  it('stays as it is while the class is not known', () => {
    expect(toNodePatch(machine(), has({ 'example.com/vgpu': '2' }, '{"example.com/vgpu":"2"}'))).toBeUndefined();
  });

  it('goes together with the template', () => {
    const patch = toNodePatch(machine(template), node(undefined), machineClass({ 'example.com/vgpu': 2 }));

    expect(patch).toMatchObject({
      metadata: {
        labels: { pool: 'a' },
        annotations: { [lastApplied]: JSON.stringify(template), [lastCapacity]: expect.any(String) },
      },
      status: { capacity: { 'example.com/vgpu': '2' } },
    });
  });
});
