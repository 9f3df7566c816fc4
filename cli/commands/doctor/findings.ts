/** What `millwright doctor` has found, and the decisions behind it. Pure. */

import type { RightsRole } from '../../../api/rights.ts';
import { settingsOf, versionOf } from '../../../temporal/clusters.ts';
import type { CodecKeys } from '../../../temporal/codec.ts';
import type { KeyUse } from '../../../temporal/key-use.ts';
import type { Poller } from '../../../temporal/task-queues.ts';
import { durationText } from '../../duration-text.ts';
import { codecFlag, sharedDefaults, targetFlag } from '../../shared-settings.ts';

/** Result of one check. */
export interface Finding {
  /** What was looked at. */
  readonly subject: string;
  /** problem: something does not work. warning: it works, and something will be missed. */
  readonly state: 'ok' | 'warning' | 'problem';
  readonly message: string;
  /** What to do, a sentence or a command. Left out where all is well. */
  readonly fix?: string;
}

/**
 * Oldest versions that Millwright is made for: the rules in its CRDs need the one, its searches for workflows the
 * other.
 */
const oldest = { Kubernetes: '1.31.0', Temporal: '1.28.0' } as const;

/** Whether the version of a server is new enough. @param where what follows the version in the message */
export function serverFinding(subject: string, product: keyof typeof oldest, version: string, where: string): Finding {
  const message = `${product} ${version} ${where}`;
  const isNew = compareVersions(version.replace(/^v/, ''), oldest[product]) >= 0;
  if (isNew) return { subject, state: 'ok', message };
  const fix = `upgrade it to ${oldest[product]} or later`;
  return { subject, state: 'warning', message: `${message} is older than Millwright is made for`, fix };
}

const { compare: compareVersions } = new Intl.Collator('en', { numeric: true });

/**
 * Whether the processes of the installation and this command have one version of Millwright.
 * @param own version of this command
 */
export function versionsFinding(own: string, running: Readonly<Record<string, readonly Poller[]>>): Finding {
  const subject = 'versions';
  const versionsOf = (pollers: readonly Poller[]) =>
    [...new Set(pollers.map(({ identity }) => versionOf(identity) ?? 'unknown'))].toSorted(compareVersions);
  const texts = Object.entries(running).map(
    ([component, pollers]) => `${component} ${versionsOf(pollers).join(' and ') || 'not there'}`,
  );
  const message = `this command is Millwright ${own}; ${texts.join(', ')}`;
  const versions = versionsOf(Object.values(running).flat());
  if (versions.every((version) => version === own)) return { subject, state: 'ok', message };
  const [theirs] = versions;
  const fix =
    versions.length > 1
      ? 'complete the upgrade: a workflow that moves between two versions may have to start a new run'
      : `use the command of ${theirs}, for example in a Pod of the workers: \`replay\` and \`rollout plan\` show what the code of this command decides`;
  return { subject, state: 'warning', message, fix };
}

/**
 * Whether the processes of the installation have the same values of the flags that all of them need. Those of another
 * version than `own` are left out: they may show others.
 * @param hasKeys this command has keys: a process without any writes in plain text beside it
 */
export function settingsFinding(
  own: string,
  running: Readonly<Record<string, readonly Poller[]>>,
  hasKeys: boolean,
): Finding {
  const subject = 'settings';
  const processes = Object.entries(running).map(([component, pollers]) => {
    const identities = pollers.map(({ identity }) => identity).filter((each) => versionOf(each) === own);
    return { component, identities, settings: identities.map(settingsOf) };
  });
  const differing = [...sharedDefaults].flatMap(([flag, byDefault]) => {
    const counted = processes.flatMap(({ component, settings }) => {
      const values = Map.groupBy(settings, (each) => each.get(flag) ?? byDefault);
      return [...values].map(([value, { length }]) => ({
        value,
        text: `${value} in ${length} of ${settings.length} ${component}`,
      }));
    });
    const isKey = flag === codecFlag;
    if (isKey && hasKeys && counted.length > 0) counted.unshift({ value: 'given', text: 'given in this command' });
    if (new Set(counted.map(({ value }) => value)).size < 2) return [];
    const effect = isKey ? ': processes without it write payloads in plain text' : '';
    return [{ flag, text: `${flag} is ${listed(counted.map(({ text }) => text))}${effect}` }];
  });
  if (differing.length === 0) {
    const { size } = new Set(processes.flatMap(({ identities }) => identities)); // `millwright run` is in both queues
    const message =
      size < 2
        ? `${size === 0 ? 'no process' : 'one process'} of this version is there: nothing was compared`
        : `the ${size} processes of this version do not differ in the flags of which all need the same value; of ${targetFlag} only the kind of cluster is compared`;
    return { subject, state: 'ok', message };
  }
  return {
    subject,
    state: 'warning',
    message: `of this version, ${differing.map(({ text }) => text).join('; ')}`,
    fix: `give all controllers and workers the same ${differing.map(({ flag }) => flag).join(', ')}`,
  };
}

/** @param texts two at least */
function listed(texts: readonly string[]): string {
  return `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;
}

/** Objects of a kind that keep a namespace which is being deleted, and what says why they stay. */
export interface Remainder {
  readonly kind: string;
  readonly names: readonly string[];
  readonly fix: string;
}

/** Names of a kind that a message has. */
const maxNames = 3;

/** @param left what is in the namespace, in the order in which it goes */
export function terminatingFinding(left: readonly Remainder[]): Finding {
  const present = left.filter(({ names }) => names.length > 0);
  const subject = 'namespace';
  const [first] = present;
  if (first === undefined) {
    const fix = 'kubectl get namespace -o yaml says in its conditions what else is in it';
    return { subject, state: 'warning', message: 'it is being deleted, and holds nothing of Millwright', fix };
  }
  return {
    subject,
    state: 'warning',
    message: `it is being deleted, and waits for ${present.map(countedNames).join(', ')}`,
    fix: first.fix,
  };
}

/** @param lost objects whose owner does not exist */
export function ownersFinding(lost: readonly Pick<Remainder, 'kind' | 'names'>[]): Finding {
  const texts = lost.filter(({ names }) => names.length > 0).map(countedNames);
  return {
    subject: 'owners',
    state: 'problem',
    message:
      `the owner that ${texts.join(' and ')} name does not exist: the garbage collector of Kubernetes deletes such ` +
      'objects, and no set or deployment counts them',
    fix: 'stop Millwright, delete what was made in their place, then remove metadata.ownerReferences from them: docs/how-to/disaster-recovery.md',
  };
}

function countedNames({ kind, names }: Pick<Remainder, 'kind' | 'names'>): string {
  const more = names.length > maxNames ? `, and ${names.length - maxNames} more` : '';
  return `${names.length} ${kind}${names.length === 1 ? '' : 's'} (${names.slice(0, maxNames).join(', ')}${more})`;
}

const daySeconds = 86_400;

/** @param seconds how long Temporal keeps closed runs */
export function retentionFinding(seconds: number, namespace: string): Finding {
  const subject = 'retention';
  const message = `Temporal keeps the history of closed runs for ${durationText(seconds * 1_000)}`;
  if (seconds >= 7 * daySeconds) return { subject, state: 'ok', message };
  return {
    subject,
    state: 'warning',
    message: `${message}: after that, neither \`timeline\` nor \`replay\` can explain a machine`,
    fix: `temporal operator namespace update --namespace ${namespace} --retention 7d`,
  };
}

/** @param lacking names of the search attributes that the namespace lacks or has with another type */
export function searchAttributesFinding(lacking: readonly string[], namespace: string): Finding {
  const subject = 'search attributes';
  if (lacking.length === 0) return { subject, state: 'ok', message: 'the namespace has all of them' };
  const names = lacking.map((name) => `--name ${name} --type Keyword`).join(' ');
  return {
    subject,
    state: 'problem',
    message: `the namespace ${namespace} lacks ${lacking.join(', ')} of type Keyword`,
    fix: `temporal operator search-attribute create --namespace ${namespace} ${names}`,
  };
}

/**
 * Whether open workflows can be read, and what they were encrypted with; nothing where nothing is encrypted.
 * @param keys left out: no flag names a folder
 * @param uses of some open workflows
 */
export function codecFindings(keys: CodecKeys | undefined, uses: readonly KeyUse[]): Finding[] {
  const subject = 'codec';
  const unreadable = uses.flatMap(({ problem }) => problem ?? []);
  const looked = `of ${uses.length} open workflows that were looked at`;
  const [first] = unreadable;
  if (first !== undefined) {
    return [{ subject, state: 'problem', message: `${looked}, ${unreadable.length} cannot be read: ${first}` }];
  }
  if (keys === undefined) return [];
  const counted = [...Map.groupBy(uses, ({ key }) => key)].map(([key, { length }]) =>
    key === undefined ? `${length} began without encryption` : `${length} began with the key '${key}'`,
  );
  const known = counted.length === 0 ? '' : `; ${looked}, ${counted.join(', ')}`;
  if (keys.current !== undefined) {
    return [{ subject, state: 'ok', message: `payloads are encrypted with the key '${keys.current}'${known}` }];
  }
  const fix = 'write the name of a key into the file current, once all processes have the keys';
  return [{ subject, state: 'warning', message: `there are keys, and nothing is encrypted${known}`, fix }];
}

/** Something that an account may do. */
export interface Right {
  /** Empty for the core group. */
  readonly group: string;
  /** Plural, with its subresource. */
  readonly resource: string;
  /** undefined: all. */
  readonly name: string | undefined;
  readonly verb: string;
  /** undefined: in all namespaces, or not namespaced. */
  readonly namespace: string | undefined;
  /** Whether only bootstrap tokens need it. */
  readonly isForTokens?: boolean;
}

/** What an account lacks of the rights of a process. */
export interface RoleCheck {
  readonly role: RightsRole;
  /** Of the rights of the process. */
  readonly count: number;
  readonly lacking: readonly Right[];
}

/** @param checked each process: nobody says which ones the account is for, so it is those of which it lacks least */
export function rightsFinding(subject: string, account: string, checked: readonly RoleCheck[]): Finding {
  const shareOf = ({ lacking, count }: RoleCheck) => lacking.filter(({ isForTokens }) => !isForTokens).length / count;
  const least = Math.min(...checked.map(shareOf));
  const meant = checked.filter((each) => shareOf(each) === least);
  const of = meant.map(({ role }) => role).join(' and ');
  const known = new Map(meant.flatMap(({ lacking }) => lacking).map((right) => [JSON.stringify(right), right]));
  const lacking = [...known.values()];
  if (lacking.length === 0) {
    const others = checked.filter((each) => !meant.includes(each)).map(({ role }) => `, and not of ${role}`);
    return { subject, state: 'ok', message: `${account} has all of ${of}${others.join('')}` };
  }
  const byResource = Map.groupBy(lacking, ({ group, resource, name, namespace }) => {
    const resources = `${group === '' ? resource : `${resource}.${group}`}${name === undefined ? '' : ` ${name}`}`;
    return namespace === undefined ? resources : `${resources} in ${namespace}`;
  });
  const parts = [...byResource].map(([resource, rights]) => `${rights.map(({ verb }) => verb).join(', ')} ${resource}`);
  const message = `${account}, as that of ${of}, may not ${parts.join('; ')}`;
  if (least === 0) {
    const fix =
      'apply deploy/rbac/bootstrap-tokens.yaml if user data asks for a bootstrap token: no machine joins without';
    return { subject, state: 'warning', message, fix };
  }
  const fix =
    'apply deploy/rbac with this account as subject; where it is not the one of the processes, run doctor with theirs';
  return { subject, state: 'problem', message, fix };
}

/**
 * Whether orphans are looked for, and deleted.
 * @param state undefined: there is no Schedule
 * @param waiting how many sweeps wait for approval
 */
export function sweepFinding(
  state: { readonly paused: boolean; readonly note?: string | undefined } | undefined,
  waiting: number,
  scheduleId: string,
  namespace: string,
): Finding {
  const subject = 'orphan sweep';
  if (waiting > 0) {
    const active = state === undefined ? '' : ', and the next one of the Schedule may wait for that';
    const schedule = state?.paused ? ', and the Schedule is paused' : active;
    const fix = `${stuckHas}: docs/how-to/orphan-sweep.md#the-brake`;
    return { subject, state: 'warning', message: `${waitingText(waiting)}${schedule}`, fix };
  }
  if (state === undefined) {
    return {
      subject,
      state: 'ok',
      message: 'it has no Schedule: its period is 0, or the controllers have not created it yet',
    };
  }
  if (!state.paused) return { subject, state: 'ok', message: 'its Schedule is active' };
  return {
    subject,
    state: 'warning',
    message: `its Schedule is paused${state.note ? ` (${state.note})` : ''}: orphans stay in the clouds`,
    fix: `temporal schedule toggle --namespace ${namespace} --schedule-id ${scheduleId} --unpause --reason '<why>'`,
  };
}

/**
 * @param lost names of the classes that have lost a Machine for which the last sweep that has completed could not look
 * @param next when the Schedule starts a sweep; undefined: it starts none
 * @param waiting how many sweeps wait for approval
 * @param sweep command line that starts one
 */
export function lostFinding(lost: readonly string[], next: Date | undefined, waiting: number, sweep: string): Finding {
  const of = `${lost.length === 1 ? 'class' : 'classes'} ${lost.join(', ')}`;
  const start = next === undefined ? 'the Schedule starts no sweep' : `the next sweep starts at ${next.toISOString()}`;
  const when = waiting > 0 ? `${waitingText(waiting)}, maybe for this VM` : start;
  const listed = waiting > 0 ? `${stuckHas}, and ` : '';
  return {
    subject: 'lost machines',
    state: 'warning',
    message: `a Machine of ${of} may be gone although its deletion was not finished, and its VM still be there: ${when}`,
    fix: `${listed}\`${sweep}\` looks for the VM now; to keep it, restore the Machine: docs/how-to/orphan-sweep.md#restore-a-machine`,
  };
}

const stuckHas = '`millwright stuck` lists the orphans, and the command that approves them';

function waitingText(waiting: number): string {
  return waiting === 1 ? '1 sweep waits for approval' : `${waiting} sweeps wait for approval`;
}

/** Differences up to this are those of clocks in whole seconds and of slow answers, ms. */
const harmlessSkewMs = 5_000;

/**
 * @param aheadMs by how much the clock of the server is ahead of the one here, at least; negative: it is behind
 */
export function clockFinding(server: string, aheadMs: number): Finding {
  const subject = 'clock';
  const isHarmless = Math.abs(aheadMs) <= harmlessSkewMs;
  if (isHarmless) return { subject, state: 'ok', message: `that of ${server} agrees with the one of this host` };
  return {
    subject,
    state: 'warning',
    message: `that of ${server} is ${durationText(Math.abs(aheadMs))} ${aheadMs > 0 ? 'ahead of' : 'behind'} the one of this host`,
    fix: 'synchronise the clocks of the hosts, for example with chrony',
  };
}

/** A task queue, and what polls it. */
export interface Queue {
  readonly subject: string;
  /** What waits while nobody polls it. */
  readonly serves: string;
  readonly fix: string;
  readonly pollers: readonly Poller[];
}

/** Whether somebody serves the queue. */
export function queueFinding({ subject, serves, fix, pollers }: Queue): Finding {
  if (pollers.length === 0)
    return { subject, state: 'problem', message: `no process is there for them: ${serves} wait`, fix };
  return { subject, state: 'ok', message: pollers.length === 1 ? 'one process' : `${pollers.length} processes` };
}

/**
 * Whether a provider is served, and whether its name may be a mistake.
 * @param sources names of the classes that name it
 * @param known names of the built-in providers
 * @param nowMs by the clock of the server
 */
export function providerFinding(
  provider: string,
  sources: readonly string[],
  pollers: readonly Poller[],
  known: readonly string[],
  nowMs: number,
): Finding {
  const subject = `provider ${provider}`;
  const users = `${sources.slice(0, 3).join(', ')}${sources.length > 3 ? ` and ${sources.length - 3} more` : ''}`;
  if (pollers.length > 0) {
    const seenMs = Math.max(...pollers.map((poller) => poller.seenMs));
    const message = `a worker has polled its task queue ${durationText(nowMs - seenMs)} ago, for ${users}`;
    return { subject, state: 'ok', message };
  }
  const isBuiltIn = known.includes(provider.toLowerCase());
  return {
    subject,
    state: 'problem',
    message: `no worker serves it: the machines of ${users} wait`,
    fix: isBuiltIn
      ? `start a worker with --providers ${provider.toLowerCase()}`
      : `correct the name, if it is one of the built-in ${known.join(', ')}; else start the worker of this provider`,
  };
}

const marks = { ok: '✓', warning: '!', problem: '✗' } as const;

/** A line for each finding and for each fix, and a last line that counts. */
export function findingsText(findings: readonly Finding[]): string {
  const lines = findings.flatMap(({ subject, state, message, fix }) => [
    `${marks[state]} ${subject}: ${message}`,
    ...(fix === undefined ? [] : [`    to fix: ${fix}`]),
  ]);
  const count = (state: Finding['state']) => findings.filter((finding) => finding.state === state).length;
  const counted = (state: 'problem' | 'warning') => `${count(state)} ${state}${count(state) === 1 ? '' : 's'}`;
  return [...lines, '', `${counted('problem')}, ${counted('warning')}`].join('\n');
}
