/**
 * Ways to break the code that tests have to notice. Each is the reversal of a fix, or breaks a promise of the documents;
 * main.ts applies one at a time to a copy of the checkout.
 */

export interface Mutant {
  readonly id: string;
  /** Relative to the checkout. */
  readonly file: string;
  /** Occurs once in the file. */
  readonly text: string;
  readonly replacement: string;
  /** What goes wrong with it. */
  readonly breaks: string;
  /** Test files of which one at least has to fail: the cheapest that can. */
  readonly tests: readonly string[];
}

const ofWorkflows: readonly Mutant[] = [
  {
    id: 'moved-end',
    file: 'workflows/machine/observe.ts',
    text: "if (isRelevant || (endsOf(state.machine) !== endsBefore && patched('ends-that-move'))) notifyChange(state);",
    replacement: 'if (isRelevant) notifyChange(state);',
    breaks: 'A machine whose preservation ends earlier than it did is still kept until the former time.',
    tests: ['workflows/machine/phases/maintain.test.ts'],
  },
  {
    id: 'slow-answer',
    file: 'workflows/machine/observe.ts',
    text: 'if (isNewer(state.machine.resourceVersion, machine.resourceVersion)) state.stale = true;',
    replacement: 'if (false) state.stale = true;',
    breaks: 'A slow answer to a write undoes the deletion that was signalled meanwhile.',
    tests: ['workflows/machine/wait.test.ts'],
  },
  {
    id: 'change-during-reading',
    file: 'workflows/machine/wait.ts',
    text: 'while (state.changes !== before);',
    replacement: 'while (false);',
    breaks: 'A change that is signalled while the Machine is read is undone by what was read.',
    tests: ['workflows/machine/wait.test.ts'],
  },
  {
    id: 'calls-of-lost-run',
    file: 'workflows/machine/wait.ts',
    text: 'await CancellationScope.nonCancellable(() => sleep(lostCallMs, { summary }));',
    replacement: '',
    breaks: 'A run that takes over asks the cloud while a call of the lost run may still make a VM.',
    tests: ['workflows/machine/machine.test.ts'],
  },
  {
    id: 'deadline-of-next-run',
    file: 'workflows/machine/state.ts',
    text: '...(deletionSeenMs !== undefined && { deletionSeenMs }),',
    replacement: '',
    breaks: 'Each new run of the workflow gives a drain the whole timeout again.',
    tests: ['workflows/machine/wait.test.ts'],
  },
  {
    id: 'call-under-way',
    file: 'workflows/machine/phases/provision.ts',
    text: "putCreation(state, afterCall(before, attempt, 'lost'));",
    replacement: '',
    breaks: 'A deletion that interrupts the creation of a VM does not look for that VM.',
    tests: ['workflows/machine/phases/deprovision.test.ts'],
  },
  {
    id: 'outage-of-cloud',
    file: 'workflows/machine/phases/provision.ts',
    text: 'if (isDown || state.isCloudDown) state.outageEndMs = Date.now();',
    replacement: '',
    breaks: 'An outage of the cloud counts towards the creation timeout.',
    tests: ['workflows/machine/wait.test.ts'],
  },
  {
    id: 'drain-of-restored',
    file: 'workflows/machine/phases/node-drain.ts',
    text: 'if (state.stale || isEdited || drain.isOver()) scope.cancel();',
    replacement: 'if (isEdited || drain.isOver()) scope.cancel();',
    breaks: 'A drain goes on although a refresh would find that a restored Machine is not deleted any more.',
    tests: ['workflows/machine/phases/deprovision.test.ts'],
  },
  {
    id: 'vm-of-restored',
    file: 'workflows/machine/phases/deprovision.ts',
    text: "if (machine.stage !== 'deleting' || machine.deletingSince === undefined) throw new StaleStateError();",
    replacement: '',
    breaks: 'The VM of a Machine is deleted although its restored cluster says that it is not deleted any more.',
    tests: ['workflows/machine/phases/deprovision.test.ts'],
  },
  {
    id: 'outage-is-unhealthy',
    file: 'workflows/machine/phases/unhealthy.ts',
    text: 'return Math.max(sinceMs, outageEndMs) + limits.healthSeconds * 1_000;',
    replacement: 'return sinceMs + limits.healthSeconds * 1_000;',
    breaks: 'A time in which nobody could see the Nodes counts towards the health timeout.',
    tests: ['workflows/machine/phases/unhealthy.test.ts'],
  },
  {
    id: 'half-replaced',
    file: 'workflows/machine/phases/follow-node.ts',
    text: ' || isBetweenVms(state.machine)',
    replacement: '',
    breaks: 'A run that takes over in the middle of the replacement of a VM does not finish it.',
    tests: ['workflows/machine/phases/follow-node.test.ts'],
  },
  {
    id: 'node-lost-while-replaced',
    file: 'workflows/machine/phases/follow-node.ts',
    text: ' || isNodeLost(state)',
    replacement: '',
    breaks: 'A Machine whose Node is lost while its VM is deleted stays without a VM.',
    tests: ['workflows/machine/phases/follow-node.test.ts'],
  },
  {
    id: 'node-deleted-in-an-answer',
    file: 'workflows/machine/machine.ts',
    text: '(i > list.indexOf(followNode) && isNodeDeleted(state)) || ',
    replacement: '',
    breaks: 'A Machine whose Node is deleted while it is taken over stays Running.',
    tests: ['workflows/machine/phases/follow-node.test.ts'],
  },
  {
    id: 'maintenance-during-creation',
    file: 'workflows/machine/machine.ts',
    text: ' || (i > list.indexOf(maintain) && mustMaintain)',
    replacement: '',
    breaks: 'A preservation that somebody asks for while the VM is created is written up to 40 minutes later.',
    tests: ['workflows/machine/phases/maintain.test.ts'],
  },
  {
    id: 'maintenance-that-was-read',
    file: 'workflows/machine/wait.ts',
    text: " || (isDue && patched('maintenance-that-was-read'))",
    replacement: '',
    breaks: 'A preservation that is read before a watcher says so is not written.',
    tests: ['workflows/machine/phases/maintain.test.ts'],
  },
  {
    id: 'volume-reserved-for-ever',
    file: 'activities/providers/openstack/index.ts',
    text: 'const isReleased = status ===',
    replacement: 'const isReleased = status !==',
    breaks: 'A volume that nova keeps reserved for a server that is gone is never deleted.',
    tests: ['activities/providers/openstack/index.test.ts'],
  },
  {
    id: 'progress-meanwhile',
    file: 'workflows/rollout/deadline.ts',
    text: 'if (run.clock !== clock || (run.observed?.generation ?? 0) > view.generation) return;',
    replacement: '',
    breaks: 'A rollout that gets further, or is paused, while its blockers are read fails as late.',
    tests: ['workflows/rollout/rollout.test.ts'],
  },
  {
    id: 'shorter-deadline',
    file: 'workflows/rollout/deadline.ts',
    text: "if (await condition(() => run.deadlineMs !== totalMs, waitMs, { summary: 'progress deadline' })) continue;",
    replacement: "await condition(() => false, waitMs, { summary: 'progress deadline' });",
    breaks: 'A progress deadline that is shortened takes effect only when the timer of the former one fires.',
    tests: ['workflows/rollout/rollout.test.ts'],
  },
  {
    id: 'forgotten-grants',
    file: 'workflows/limits/grants.ts',
    text: 'const held = names === undefined ? pending : names.filter((name) => pending.includes(name));',
    replacement: 'const held = (names ?? []).filter((name) => pending.includes(name));',
    breaks: 'What was granted before the workflow was lost is granted to others as well.',
    tests: ['workflows/limits/limits.test.ts'],
  },
  {
    id: 'last-look',
    file: 'workflows/orphansweep/remove.ts',
    text: 'const doomed = await stillOrphans(sweep, batch, minimumAgeMs);',
    replacement: 'const doomed = new Set(batch.map(({ key }) => key));',
    breaks: 'A sweep deletes a VM that has a Machine again since its second look.',
    tests: ['workflows/orphansweep/sweep.test.ts'],
  },
  {
    id: 'look-after-approval',
    file: 'workflows/orphansweep/sweep.ts',
    text: 'await lookAtAll(sweep, suspects, concerned);',
    replacement: '',
    breaks: 'A sweep acts on what it saw before somebody approved it, which may be a day ago.',
    tests: ['workflows/orphansweep/sweep.test.ts'],
  },
  {
    id: 'machine-without-run',
    file: 'workflows/interruptions/check.ts',
    text: 'if (isCancellation(error)) throw error;\n    return false;',
    replacement: 'throw error;',
    breaks: 'One interrupted Machine without an open workflow fails the whole check.',
    tests: ['workflows/interruptions/check.test.ts'],
  },
  {
    id: 'tags-before-call',
    file: 'workflows/sourcecheck/tag-update.ts',
    text: 'if (!(await note(false))) return undefined;',
    replacement: '',
    breaks:
      'After a crash in the middle of a tag update a Machine still says for certain that its VM has the old tags.',
    tests: ['workflows/sourcecheck/tag-update.test.ts'],
  },
];

const ofPlanner: readonly Mutant[] = [
  {
    id: 'pending-names',
    file: 'workflows/rollout/plan.ts',
    text: 'pending?.missing[i] ?? newName(set.name)',
    replacement: 'newName(set.name)',
    breaks: 'A step that takes over from a lost one creates other machines besides those of the lost one.',
    tests: ['workflows/rollout/plan.test.ts'],
  },
  {
    id: 'creation-of-lost-run',
    file: 'workflows/rollout/plan.ts',
    text: 'const isSame = pending?.isOwn === true && pending.names.join() === names.join();',
    replacement: 'const isSame = pending?.names.join() === names.join();',
    breaks: 'A delayed step of a lost run does not find out that it comes too late.',
    tests: ['workflows/rollout/plan.test.ts'],
  },
  {
    id: 'replacements-at-once',
    file: 'workflows/rollout/plan.ts',
    text: 'health.asking.slice(0, Math.max(0, health.most - (seen?.replacing ?? 0)))',
    replacement: 'health.asking.slice(0, health.most)',
    breaks: 'More unhealthy machines are replaced at once than may be.',
    tests: ['workflows/rollout/plan.test.ts'],
  },
  {
    id: 'ownership-first',
    file: 'workflows/rollout/plan.ts',
    text: 'if (ownerChanges.length > 0) return { ...emptyPlan(view, new Map()), addFinalizers, ownerChanges };',
    replacement: '',
    breaks: 'Machines are created and deleted by counts that lack those that a set is about to adopt.',
    tests: ['workflows/rollout/plan.test.ts'],
  },
  {
    id: 'leaving-machines',
    file: 'api/owner/set-counts.ts',
    text: '(set) => set.total - set.replacing)',
    replacement: '(set) => set.active)',
    breaks: 'New machines are created before those that are being deleted have given back their quota.',
    tests: ['workflows/rollout/plan.test.ts'],
  },
  {
    id: 'waiting-scale-down',
    file: 'api/owner/rolling.ts',
    text: 'return view.replicas + Math.max(0, markedForScaleDown(view, newSet) - Math.max(0, taken));',
    replacement: 'return view.replicas;',
    breaks: 'Machines that the autoscaler has marked stay when the scale-down has to wait for available ones.',
    tests: ['workflows/rollout/plan.test.ts'],
  },
  {
    id: 'pause-in-step',
    file: 'api/owner/suspended.ts',
    text: 'const taken = Math.min(excess, unneeded + spare);',
    replacement: 'const taken = excess;',
    breaks: 'A pause in the middle of a step takes more machines than may be unavailable.',
    tests: ['workflows/rollout/plan.test.ts'],
  },
  {
    id: 'selected-machines',
    file: 'api/owner/in-place.ts',
    text: 'return available - selectedAvailable - returning;',
    replacement: 'return available;',
    breaks: 'More machines are updated in place at once than may be unavailable.',
    tests: ['api/owner/in-place.test.ts'],
  },
  {
    id: 'second-rollback',
    file: 'api/owner/rollback.ts',
    text: '|| own.some(({ metadata }) => metadata.annotations?.[names.rolledBack] === hash)',
    replacement: '',
    breaks: 'A template is rolled back again where somebody has removed the annotation of the first time.',
    tests: ['api/owner/rollback.test.ts'],
  },
];

const ofKit: readonly Mutant[] = [
  {
    id: 'ignored-filter',
    file: 'activities/providers/kit/provider.ts',
    text: 'const found = answered.filter(({ tags }) => tags[names.machineUid] === machine.uid);',
    replacement: 'const found = answered;',
    breaks: 'VMs of others are deleted where a cloud ignores the filter by UID.',
    tests: ['activities/providers/kit/provider.test.ts'],
  },
  {
    id: 'parts-of-attempt',
    file: 'activities/providers/kit/provider.ts',
    text: 'if (!mayExist) await deleteEach(session, parts);',
    replacement: 'await deleteEach(session, parts);',
    breaks: 'The parts of a VM that an earlier attempt is still making are deleted.',
    tests: ['activities/providers/kit/provider.test.ts'],
  },
  {
    id: 'refused-half-way',
    file: 'activities/providers/kit/provider.ts',
    text: 'const isFirstRefused = nothingMade && !hasChanged;',
    replacement: 'const isFirstRefused = nothingMade;',
    breaks: 'A creation that is refused half-way leaves its parts, and says that it has made nothing.',
    tests: ['activities/providers/kit/provider.test.ts'],
  },
  {
    id: 'late-listing',
    file: 'activities/providers/kit/provider.ts',
    text: 'if (found.survivor === undefined && mayExist) {',
    replacement: 'if (false) {',
    breaks: 'A second VM is made where the first one, whose answer was lost, is listed late.',
    tests: ['activities/providers/simulated/index.test.ts'],
  },
  {
    id: 'gone-too-early',
    file: 'activities/providers/kit/provider.ts',
    text: 'if (own.length === 0 && lookedAt >= settledAt)',
    replacement: 'if (own.length === 0)',
    breaks: 'A VM counts as gone before the cloud has had the time to list it.',
    tests: ['activities/providers/simulated/index.test.ts'],
  },
  {
    id: 'halved-again',
    file: 'activities/providers/kit/request-rate.ts',
    text: 'if (sentMs < slowedMs) return;',
    replacement: '',
    breaks: 'One burst of throttled requests slows all calls of an account down to a 64th.',
    tests: ['activities/providers/kit/request-rate.test.ts'],
  },
];

const ofControllers: readonly Mutant[] = [
  {
    id: 'returned-change',
    file: 'controllers/machines.ts',
    text: 'forget(key); // a later return',
    replacement: '// a later return',
    breaks: 'A Node that is unhealthy, healthy and unhealthy again is not signalled the second time.',
    tests: ['controllers/controllers.test.ts'],
  },
  {
    id: 'stale-deployments',
    file: 'controllers/owners.ts',
    text: 'if (uid !== undefined && !(deployments.synced && deployments.reachable)) return false;',
    replacement: '',
    breaks: 'In an outage the sets of a deployment that is not in the cache count as sets without one.',
    tests: ['controllers/controllers.test.ts'],
  },
  {
    id: 'joining-node',
    file: 'controllers/rollout-marks.ts',
    text: 'if (rollout.isRolling && !node.metadata.finalizers?.includes(dialect.marks.nodeFinalizer)) return;',
    replacement: '',
    breaks: 'A Node that joins is marked while the workflow of its machine writes on it, and one write is lost.',
    tests: ['controllers/rollout-marks.test.ts'],
  },
  {
    id: 'young-run',
    file: 'controllers/stale-workflows.ts',
    text: 'if (isStale && startTime.getTime() < youngAfterMs) refresh(id);',
    replacement: 'if (isStale) refresh(id);',
    breaks: 'Workflows of the last seconds are refreshed although only the list of them is behind.',
    tests: ['controllers/stale-workflows.test.ts'],
  },
];

const ofMachineActivities: readonly Mutant[] = [
  {
    id: 'other-provider-id',
    file: 'activities/machine/index.ts',
    text: 'return isOther ? undefined : toPatch(now);',
    replacement: 'return toPatch(now);',
    breaks:
      'A workflow that a restored Temporal has set back replaces the provider ID of a VM, which nobody deletes then.',
    tests: ['activities/machine/index.test.ts'],
  },
  {
    id: 'other-clock',
    file: 'activities/machine/drain/index.ts',
    text: 'return new Date(Date.now() + Date.parse(time) - scheduledMs).toISOString();',
    replacement: 'return time;',
    breaks: 'The deadline of a drain is wrong by as much as the clock of the worker.',
    tests: ['activities/machine/drain/index.test.ts'],
  },
  {
    id: 'due-during-look',
    file: 'activities/machine/drain/index.ts',
    text: '...left.map(evictions.dueMs).filter((dueMs) => dueMs > nowMs),',
    replacement: '...left.map(evictions.dueMs).filter((dueMs) => dueMs > Date.now()),',
    breaks: 'An eviction that becomes due in the middle of a look is left for half a minute.',
    tests: ['activities/machine/drain/index.test.ts'],
  },
];

export const mutants: readonly Mutant[] = [
  ...ofWorkflows,
  ...ofPlanner,
  ...ofKit,
  ...ofControllers,
  ...ofMachineActivities,
];
