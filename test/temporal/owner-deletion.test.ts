import { describe, expect, it } from '@jest/globals';
import { causeInRun } from '../../temporal/owner-deletion.ts';
import { toTimeline } from '../../temporal/timeline.ts';
import { filesOf, historiesFolder } from '../replay/files.ts';

/** A recorded run. */
function historyOf(scenario: string, file: string) {
  return filesOf(historiesFolder, `0.1.0/${scenario}`).find(({ name }) => name.endsWith(file))!.history;
}

/** A machine of which a run was recorded, and how long after its deletion it is said to have been deleted, ms. */
function machineOf(scenario: string, file: string, laterMs = 0) {
  const { events } = historyOf(scenario, file);
  const uid = /"uid":"([^"]+)"/.exec(JSON.stringify(events[0]))?.[1] ?? '';
  return { uid, deletedMs: Date.parse(toTimeline([events]).deletedAt ?? '') + laterMs };
}

describe('the cause of a deletion in a run of the owner', () => {
  it.each([
    ['scale', 'machine-1.json', 'machineSet-1.json', 'MachineSet lone is being deleted'],
    ['limits', 'machine-1.json', 'machineSet-1.json', 'MachineSet lone is being deleted'],
    ['rolling', 'machine-3.json', 'rollout-1.json', 'rollout of MachineDeployment pool: its template is an older one'],
    ['creation-timeout', 'machine-2.json', 'rollout-1.json', 'it has failed, and MachineDeployment late replaces it'],
    ['settings', 'machine-1.json', 'rollout-1.json', 'scale-down of MachineDeployment pool'],
  ])('is what its step was for: %s %s %s', (scenario, machine, owner, cause) => {
    const { events } = historyOf(scenario, owner);

    expect(causeInRun(events, machineOf(scenario, machine))).toBe(cause);
    expect(causeInRun(events, machineOf(scenario, machine, 3_600_000))).toBeUndefined();
    expect(causeInRun(events, machineOf(scenario, machine, -3_600_000))).toBeUndefined();
    expect(causeInRun(events, { ...machineOf(scenario, machine), uid: 'another' })).toBeUndefined();
  });
});
