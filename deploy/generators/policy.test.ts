import { expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { annotations, finalizers, labels } from '../../api/gardener/names.ts';
import { names } from '../../api/names.ts';
import { policyFiles } from './policy.ts';

/** Names that the policy protects on a kind. */
function protectedOn(kind: string): string[] {
  const { variables } = parse(Object.values(policyFiles())[0] ?? '') as {
    variables: { name: string; expression: string }[];
  };
  return variables
    .filter(({ name }) => ['annotations', 'labels', 'finalizers'].includes(name))
    .flatMap(({ expression }) =>
      Object.keys(JSON.parse(expression.slice(0, expression.indexOf('[request.kind.kind]')))[kind]),
    );
}

it('the policy protects on each kind what only workflows and controllers write there, and nothing that others write', () => {
  expect(protectedOn('Machine')).toEqual([
    ...[names.places, names.placesSignature, names.begunElsewhere, names.firstUid, names.nodes, names.nodesSignature],
    ...[names.replacements, names.replacedVm, names.replaced, names.replace, names.replaces, names.createdInRollout],
    ...[names.preservedUntil, names.inPlaceUpdate, names.releasedBy, names.vmTags],
    ...[annotations.markedForDeletionTime, annotations.lastAppliedNodePreserveValue],
    ...[labels.node, labels.templateHash, finalizers.machine],
  ]);
  expect(protectedOn('MachineSet')).toEqual([
    ...[names.completed, names.creating, names.failedAttempts],
    ...[annotations.revision, annotations.revisionHistory, annotations.desiredReplicas, annotations.maxReplicas],
    ...[labels.templateHash, labels.freeze, finalizers.machine],
  ]);
  expect(protectedOn('MachineDeployment')).toEqual([
    ...[names.rolledBack, annotations.revision, labels.freeze, finalizers.machine],
  ]);
  expect(protectedOn('MachineClass')).toEqual([names.verdict, names.accepted, names.lostMachine, finalizers.machine]);
  expect(protectedOn('Secret')).toEqual([names.source, names.machine, names.machineUid, finalizers.secret]);
});
