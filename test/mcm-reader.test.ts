/** Everything that Millwright writes into the status of a Machine, as machine-controller-manager (MCM) reads it. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import { type FailureCode, failures } from '../api/failures.ts';
import { toStatusPatch } from '../api/gardener/machine/status.ts';
import { deletionSteps } from '../api/gardener/names.ts';
import type { MachineReport, MachineStage, MachineStep } from '../api/model/machine.ts';
import { type McmReading, readAsMcm } from './support/mcm-reader.ts';

const stages: readonly MachineStage[] = [
  ...['new', 'creating', 'joining', 'available', 'running', 'unhealthy', 'failed', 'deleting'],
] as MachineStage[];
const kinds = ['create', 'initialize', 'claimNode', 'join', 'health', 'drain', 'deleteVm'] as const;
const messages = ['no', 'of [eu-1 [a]]', 'of [a', 'b] of', `"${'x'.repeat(5_000)}"`, deletionSteps.removeFinalizer, ''];
const codes = Object.keys(failures) as FailureCode[];

const failed: MachineStep[] = kinds.flatMap((kind) =>
  codes.flatMap((code) =>
    messages.flatMap((message): MachineStep[] => [
      { kind, state: 'failed', code, message },
      { kind, state: 'failed', code, message, isFromCloud: true },
    ]),
  ),
);
const others = kinds.flatMap((kind): MachineStep[] => [
  { kind, state: 'processing' },
  { kind, state: 'successful' },
]);

/** Every report that a workflow can make. What is deleted is drained and then has its VM deleted; nothing else is. */
const reports: readonly (MachineReport & { readonly step: MachineStep })[] = stages.flatMap((stage) =>
  [...failed, ...others]
    .filter(({ kind }) => (stage === 'deleting') === (kind === 'drain' || kind === 'deleteVm'))
    .map((step) => ({ stage, step, stageSince: '2026-08-19T11:02:05.123Z', isTimed: true, lastKnownState: 'x' })),
);

describe('MCM', () => {
  let readings: readonly McmReading[];
  const rows = () => reports.map((report, index) => ({ ...report, reading: readings[index]! }));

  beforeAll(async () => {
    const metadata = { name: 'm', namespace: 'n', creationTimestamp: '2026-08-19T11:00:00Z' };
    const known = { name: 'm', createdAt: metadata.creationTimestamp, phase: '', stage: 'new' } as const;
    const machines = reports.map((report) => ({
      apiVersion: 'machine.sapcloud.io/v1alpha1',
      kind: 'Machine',
      metadata,
      ...withoutNulls(toStatusPatch(known, report, new Date())),
    }));
    readings = await readAsMcm(machines);
  }, 600_000);

  it('knows every phase, operation and state, and reads every time and every error, whatever the words of the cloud', () => {
    expect(reports.length).toBeGreaterThan(5_000);
    expect(
      rows().flatMap(({ reading, ...report }) => (reading.problems.length > 0 ? [{ reading, report }] : [])),
    ).toEqual([]);
  });

  it('finds the code of an error in the field and in the words', () => {
    for (const { step, reading } of rows()) {
      if (step.state !== 'failed') continue;
      if (step.kind !== 'health' && step.kind !== 'drain' && step.kind !== 'deleteVm') {
        expect([step, reading.errorCode]).toEqual([step, step.code]);
      }
      if (step.isFromCloud) expect([step, reading.code]).toEqual([step, step.code]);
    }
  });

  it('goes on with a deletion at the step that Millwright was at, or at an earlier one', () => {
    const order = Object.values(deletionSteps) as string[];
    for (const { stage, step, reading } of rows()) {
      if (stage !== 'deleting') continue;
      const own = step.kind === 'drain' ? deletionSteps.drain : deletionSteps.deleteVm;
      expect([step, order.slice(0, order.indexOf(own) + 1)]).toEqual([step, expect.arrayContaining([reading.step])]);
    }
  });
});

/** As the API server keeps a merge patch. */
function withoutNulls(patch: object): object {
  return JSON.parse(JSON.stringify(patch, (_key, value) => (value === null ? undefined : value)));
}
