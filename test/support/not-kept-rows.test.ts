/**
 * Every place in the code that writes to Kubernetes, with the rows of test/end-to-end/not-kept.long.test.ts that show
 * what becomes of the write.
 */
import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { type Argument, type CallExpression, parseSync } from '@swc/core';
import { rows } from './not-kept-rows.ts';

/** Why a write needs no row. */
type Reason = string;

const isWrapper = 'writes what its callers give it';
const isOfOtherDialect = 'no machine of machine.sapcloud.io does it: workflows/machine/not-kept.test.ts';
const isOfFailedStep = 'reports a step that has failed, which is tried again after a pause anyway';

/** By file, function and its calls in the order of the source. A function that writes more, or less, is another one. */
const writes: Readonly<Record<string, readonly string[] | Reason>> = {
  'activities/machine/drain/cordon.ts cordon: patch patch': ['cordon', 'terminating'],
  'activities/machine/drain/evictions.ts remove: evict delete': ['evicted', 'refused'],
  'activities/machine/drain/force.ts deletePods: delete': ['killed'],
  'activities/machine/drain/force.ts deleteAttachments: delete': ['volume'],
  'activities/machine/index.ts patchMachine: patch': isWrapper,
  'activities/machine/index.ts updateMachine: update': isWrapper,
  'activities/machine/index.ts writeStatus: patchStatus writeStatus': isWrapper,
  'activities/machine/index.ts patchStatus: patch update': isWrapper,
  'activities/machine/index.ts tryToAddFinalizer: patchMachine': ['finalizer', 'stripped', 'notes'],
  'activities/machine/index.ts rememberPlace: updateMachine': ['place'],
  'activities/machine/index.ts rememberNodes: updateMachine': ['leftnodes'],
  'activities/machine/index.ts announceDeletion: writeStatus': ['phasegone'],
  'activities/machine/index.ts storeIdentity: writeStatus': ['phase', 'since', 'operation'],
  'activities/machine/index.ts forgetVm: updateMachine': isOfOtherDialect,
  'activities/machine/index.ts finishReplacement: updateMachine': isOfOtherDialect,
  'activities/machine/index.ts syncNode: writeStatus': ['conditions'],
  'activities/machine/index.ts noteLostMachine: patch': ['lost'],
  'activities/machine/index.ts deleteMachine: delete': ['followed'],
  'activities/machine/index.ts tearDown: removeFinalizer': ['release'],
  'activities/machine/index.ts removeFinalizer: patchMachine update': isWrapper,
  'activities/machine/index.ts writeIdentity: patchMachine updateMachine': ['providerid', 'nodename'],
  'activities/machine/maintenance.ts notePreservation: update': ['failednote'],
  'activities/machine/maintenance.ts write: update update': ['expiry', 'keptnote', 'markgone'],
  'activities/machine/maintenance.ts writeNode: patch update': [
    'keptcond',
    'keptmark',
    'cordonnote',
    'uncordon',
    'updatecond',
    'nodeupdate',
    'nodeupdated',
  ],
  'activities/machine/nodes.ts markAndUpdateNode: update update': ['capacity', 'nodelabel', 'nodenote', 'nodetaint'],
  'activities/machine/nodes.ts markInterrupted: update': ['interrupted'],
  'activities/machine/nodes.ts uncordonNode: patch patch':
    'only after a restore in which the Machine is not being deleted',
  'activities/machine/nodes.ts deleteNode: patch delete': ['nodegone', 'nodedel'],
  'activities/machine/nodes.ts patchMarks: patch': ['nodefin'],
  'activities/machine/user-data.ts ensureToken: createOrFind deleteIfThere patch': [
    'userdata',
    'owneddata',
    'tokentime',
  ],
  'activities/machine/user-data.ts ensureUserData: createOrFind deleteIfThere createOrFind': ['userdata', 'datanote'],
  'activities/machine/user-data.ts removeUserData: deleteIfThere': ['datadel'],
  'activities/machine/user-data.ts removeToken: deleteIfThere': ['datadel'],
  'activities/machine/user-data.ts createOrFind: create': isWrapper,
  'activities/machine/user-data.ts deleteIfThere: delete': isWrapper,
  'activities/owner/adoption.ts changeOwners: update': ['owner', 'disowned'],
  'activities/owner/adoption.ts adoptSets: update': ['setowner'],
  'activities/owner/adoption.ts markMachines: update update': ['priority', 'marktime', 'listed'],
  'activities/owner/apply.ts runStep: updateMachine delete removeFinalizer': ['setting', 'setdel', 'setleft'],
  'activities/owner/apply.ts createSet: create update': ['setcreated', 'setname'],
  'activities/owner/apply.ts changeSet: update': ['setsize', 'setnotes', 'settemplate', 'setcopies'],
  'activities/owner/apply.ts createMachine: create': ['created'],
  'activities/owner/apply.ts changePreservation: update': ['autokept'],
  'activities/owner/apply.ts updateMachine: update': isWrapper,
  'activities/owner/apply.ts deleteMachine: delete patch': ['deldown', 'faileddel', 'replacednote'],
  'activities/owner/failed-attempts.ts recordAttempts: update': ['attempts'],
  'activities/owner/finalizers.ts addFinalizer: update': ['setfin', 'depfin'],
  'activities/owner/finalizers.ts removeFinalizer: update': isWrapper,
  'activities/owner/finalizers.ts release: delete removeFinalizer removeFinalizer': ['setsgone', 'setsleft', 'depgone'],
  'activities/owner/in-place.ts handOverTo: change': ['handedover', 'handedlabel', 'handedmark'],
  'activities/owner/in-place.ts order: change': ['candidate'],
  'activities/owner/in-place.ts change: update': isWrapper,
  'activities/owner/replacements.ts beginReplacement: update': ['replaced'],
  'activities/owner/report.ts report: updateStatus': ['setgen'],
  'activities/owner/report.ts reportDeployment: update update update': ['revised', 'depnotes', 'depgen', 'depcond'],
  'activities/owner/report.ts reportFailures: updateStatus update': isOfFailedStep,
  'activities/owner/report.ts reportRefusedSet: update': isOfFailedStep,
  'activities/owner/report.ts updateStatus: change update': isWrapper,
  'activities/owner/rollback.ts rollBack: update': ['rollback', 'rolledback'],
  'activities/owner/rollback.ts recordCompletion: update': ['complete'],
  'activities/sign-places.ts signPlaces: patch': ['signed'],
  'activities/signatures.ts createKey: create': 'each process makes its own key then, and classes say where VMs are',
  'activities/signatures.ts fillKey: patch': 'an error, which ends each attempt',
  'activities/sweep.ts releaseSources: update': ['classgone'],
  'activities/verdict.ts writeVerdict: update': ['verdict'],
  'activities/vm-tags.ts noteVmTags: update': ['vmtags'],
  'controllers/counts.ts write: patch': ['setcount', 'depcount'],
  'controllers/freeze.ts freezeSet: update update': ['frozen', 'frozencond'],
  'controllers/freeze.ts freezeDeployment: update update': ['depfrozen', 'depfrozencond', 'thawed'],
  'controllers/kept-writes.ts patch: patch': 'gives the writes of the controllers their pauses',
  'controllers/nodes.ts handle: patch': ['unmanaged'],
  'controllers/rollout-marks.ts handle: patch': ['marktaint', 'marknote'],
  'controllers/secrets.ts handle: patch': ['secretfin', 'secretgone'],
  'controllers/sources.ts protect: patch': ['classfin'],
  'kube/events.ts write: patch create': 'nobody reads Events back',
  'kube/known-cluster.ts remember: create': 'tried again by the check of each half minute',
  'kube/known-cluster.ts onlyKnownCluster: evict': isWrapper,
  'kube/lease-lock.ts write: create patch': 'tried again at the retry period of the election',
  'kube/update.ts update: change patch': isWrapper,
};

/** Methods of a KubeClient. Those of collections have one argument, and that of a client two or more. */
const methods = new Set(['create', 'patch', 'delete', 'evict']);
/** Functions whose calls are writes of their callers. */
const wrappers = new Set(
  Object.entries(writes).flatMap(([place, row]) => (row === isWrapper ? (/(\w+):/.exec(place)?.[1] ?? []) : [])),
);

const files = globSync(['activities/**/*.ts', 'controllers/*.ts', 'kube/*.ts', 'temporal/*.ts'], {
  exclude: ['activities/providers/**', 'kube/memory-cluster.ts', '**/*.test.ts'],
});

/** The functions of a source that write, with their calls: `deleteNode: patch delete`. */
function writersIn(source: string): string[] {
  const calls = new Map<string, string[]>();
  walk(parseSync(source, { syntax: 'typescript', target: 'es2023' }), '');
  return [...calls].map(([name, made]) => `${name}: ${made.join(' ')}`);

  function walk(node: unknown, around: string): void {
    if (typeof node !== 'object' || node === null) return;
    const name = nameOf(node) ?? around;
    const write = 'type' in node && node.type === 'CallExpression' ? writeOf(node as CallExpression) : undefined;
    if (write !== undefined) calls.set(name, [...(calls.get(name) ?? []), write]);
    for (const child of Object.values(node)) walk(child, name);
  }
}

/** Of a function declaration or a method. */
function nameOf(node: object): string | undefined {
  const { type, identifier, key } = node as { type?: string; identifier?: { value: string }; key?: { value: string } };
  if (type === 'FunctionDeclaration') return identifier?.value;
  return type === 'MethodProperty' ? key?.value : undefined;
}

function writeOf({ callee, arguments: given }: { callee: CallExpression['callee']; arguments: Argument[] }) {
  if (callee.type === 'Identifier') return wrappers.has(callee.value) ? callee.value : undefined;
  if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return undefined;
  const { value } = callee.property;
  return methods.has(value) && (value === 'evict' || given.length > 1) ? value : undefined;
}

describe('what Millwright writes to Kubernetes', () => {
  const found = files
    .toSorted()
    .flatMap((file) => writersIn(readFileSync(file, 'utf8')).map((each) => `${file} ${each}`));

  it('is tried on an API server that does not keep it', () => {
    expect(found.filter((place) => writes[place] === undefined)).toEqual([]);
    expect(Object.keys(writes).filter((place) => !found.includes(place))).toEqual([]);
  });

  it('has the rows that are named for it', () => {
    const named = Object.values(writes).flatMap((each) => (typeof each === 'string' ? [] : each));

    expect(named.filter((row) => rows[row] === undefined)).toEqual([]);
    expect(Object.keys(rows).filter((row) => !named.includes(row))).toEqual([]);
  });
});
