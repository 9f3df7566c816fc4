/** How the next request for a VM is made. */
import { isPastCreation } from '../../../api/model/machine.ts';
import type { Place, SourceSnapshot } from '../../../api/model/source.ts';
import { kubernetes } from '../kubernetes.ts';
import { setMachine } from '../observe.ts';
import { again, type PhaseOutcome } from '../outcome.ts';
import { type MachineState, timeIn } from '../state.ts';
import { untilAnswered } from '../wait.ts';
import { type Ask, type Attempt, mayHaveVm, nextAsk } from './creation.ts';
import { creationRefused } from './refusal.ts';

/** The attempt to make now. Before a cloud is asked the Machine records where. */
export async function prepareAttempt(state: MachineState, doing: string): Promise<Attempt | PhaseOutcome> {
  const ask = nextAsk(state.creation, state.reading?.version);
  const attempt =
    ask.kind === 'repeat' ? await renewUserData(state, ask.attempt, doing) : await newAttempt(state, ask, doing);
  if ('kind' in attempt || state.placeVersion === attempt.version) return attempt;
  const hasOthers = mayHaveVm(state.creation);
  const step = () => kubernetes.rememberPlace(state.ref, placeOf(attempt), hasOthers);
  const wasNamed = state.machine.providerID !== undefined;
  const stored = await untilAnswered(state, 'recording where the VM is made', step);
  if ('placeProblem' in stored) {
    const { placeProblem: message } = stored;
    return creationRefused(state, doing, { code: 'InvalidArgument', message, blockedOn: 'Source' });
  }
  setMachine(state, stored);
  const { providerID, stage } = state.machine;
  // Temporal was restored from a backup: the Machine has its VM, perhaps in another place.
  if ((providerID !== undefined && !wasNamed) || isPastCreation(stage)) return again;
  state.placeVersion = attempt.version;
  return attempt;
}

/** Where the VM of an attempt is made. */
export function placeOf({ provider, request }: Attempt): Place {
  const { origin, providerSpec, credentials } = request;
  return { provider, ...(origin && { origin }), providerSpec, credentials };
}

async function newAttempt(
  state: MachineState,
  ask: Exclude<Ask, { kind: 'repeat' }>,
  doing: string,
): Promise<Attempt | PhaseOutcome> {
  const source = await readSource(state, ask, doing);
  if ('problem' in source) {
    const { problem: message } = source;
    return creationRefused(state, doing, { code: 'InvalidArgument', message, blockedOn: 'Source' });
  }
  const { place, userData, version } = source;
  const { namespace, name, uid } = state.ref;
  const { providerSpecDefaults } = state.machine;
  const ordinal = ask.kind === 'new' ? ask.ordinal : 0;
  const { provider, credentials, ...scope } = place;
  const rendered = userData.personal
    ? await renderUserData(state, userData)
    : { namespace: userData.namespace, name: userData.name, key: userData.key };
  const request = {
    ...scope,
    ...(providerSpecDefaults && { providerSpecDefaults }),
    credentials: [...credentials],
    machine: { uid, namespace, name },
    userData: rendered,
    token: [uid, ...(state.replacements > 0 ? [state.replacements] : []), ordinal].join('-'),
  };
  return { ordinal, version, provider, request, ...(userData.personal && { renewUserDataAtMs: renewalMs(state) }) };
}

/** What a new attempt is made from. A run that was lost may have asked somewhere else than the source says now. */
async function readSource(
  state: MachineState,
  { kind }: Ask,
  doing: string,
): Promise<
  | { readonly place: Place; readonly userData: NonNullable<SourceSnapshot['userData']>; readonly version: string }
  | { readonly problem: string }
> {
  const { source } = state.machine;
  const recorded =
    kind === 'resume' ? await untilAnswered(state, doing, () => kubernetes.readPlaces(state.ref, source)) : undefined;
  const reading =
    recorded?.reading ??
    state.reading ??
    (await untilAnswered(state, doing, () => kubernetes.readSource(state.ref, source)));
  state.reading = reading;
  state.replacements = Math.max(state.replacements, recorded?.replacements ?? 0);
  const { cloud, userData } = reading;
  const place = recorded?.places.at(-1) ?? cloud;
  if (recorded?.problem !== undefined || place === undefined || userData === undefined) {
    return { problem: recorded?.problem ?? reading.problem ?? 'its source cannot be used' };
  }
  const isPresent = JSON.stringify(place) === JSON.stringify(cloud);
  return { place, userData, version: isPresent ? reading.version : '' };
}

/**
 * A bootstrap token in the user data outlasts the creation timeout, which starts again after an outage. The place of
 * the user data stays the same, and with it the request.
 */
async function renewUserData(state: MachineState, attempt: Attempt, doing: string): Promise<Attempt> {
  const { renewUserDataAtMs = Infinity } = attempt;
  if (Date.now() < renewUserDataAtMs) return attempt;
  const read = () => kubernetes.readSource(state.ref, state.machine.source);
  const { userData } = state.reading ?? (await untilAnswered(state, doing, read));
  if (userData?.personal) await renderUserData(state, userData);
  return { ...attempt, renewUserDataAtMs: renewalMs(state) };
}

function renderUserData(state: MachineState, source: NonNullable<SourceSnapshot['userData']>) {
  const validMs = 2 * state.machine.limits.creationSeconds * 1_000;
  state.mayHaveUserData = true;
  const step = () => kubernetes.ensureUserData(state.ref, source, timeIn(validMs));
  return untilAnswered(state, 'rendering the user data', step);
}

function renewalMs({ machine }: MachineState): number {
  return Date.now() + machine.limits.creationSeconds * 1_000;
}
