import { describe, expect, it } from '@jest/globals';
import { type FailureCode, failures } from '../../../api/failures.ts';
import type { Vm } from '../../../api/provider.ts';
import type { Failure } from '../../calls/failure.ts';
import {
  type Attempt,
  afterCall,
  type Creation,
  isOutcomeUnknown,
  mayHaveVm,
  nextAsk,
  notAsked,
  recoverCreation,
  withName,
} from './creation.ts';

const attempt: Attempt = {
  ordinal: 2,
  version: '1',
  provider: 'played',
  request: {
    origin: { kind: 'MachineClass', namespace: 'n', name: 'small', generation: 1 },
    providerSpec: {},
    credentials: [],
    machine: { uid: 'u', namespace: 'n', name: 'm' },
    userData: { namespace: 'n', name: 'pool', key: 'userData' },
    token: 'u-2',
  },
};
const vm: Vm = { state: 'running', providerID: 'p', addresses: [] };
const codes = Object.keys(failures) as FailureCode[];

function failureOf(code: FailureCode): Failure {
  const { outcomeUnknown, blockedOn } = failures[code];
  return { code, message: 'no', outcomeUnknown, blockedOn };
}

const first: Creation = { state: 'none', ordinal: 2, mayHaveParts: false };
const lost: Creation = { state: 'asked', attempt, isRefused: false };
const named: Creation = { state: 'named', attempt, hasJoined: false };
const joined: Creation = { state: 'named', hasJoined: true };

/** Nothing can have come of the call, not even a disk. */
const nothing: Creation = { state: 'none', ordinal: 3, mayHaveParts: false };
/** No VM came of it, but a part may have. */
const parts: Creation = { state: 'none', ordinal: 3, mayHaveParts: true };
/** A VM may have come of it. */
const unknown: Creation = { state: 'asked', attempt, isRefused: false };
/** None came of it, but an earlier call may have made one. */
const refused: Creation = { state: 'asked', attempt, isRefused: true };

/** What each failure makes of: the first call, one after a lost answer, and one for a VM that the Machine names. */
const table: Record<FailureCode, [Creation, Creation, Creation]> = {
  Canceled: [unknown, unknown, named],
  Unknown: [unknown, unknown, named],
  InvalidArgument: [nothing, refused, named],
  DeadlineExceeded: [unknown, unknown, named],
  NotFound: [parts, refused, named],
  AlreadyExists: [parts, refused, named],
  PermissionDenied: [nothing, refused, named],
  ResourceExhausted: [parts, refused, named],
  FailedPrecondition: [parts, refused, named],
  Aborted: [unknown, unknown, named],
  OutOfRange: [parts, refused, named],
  Unimplemented: [nothing, refused, named],
  Internal: [unknown, unknown, named],
  Unavailable: [unknown, unknown, named],
  DataLoss: [parts, refused, named],
  Unauthenticated: [nothing, refused, named],
  Uninitialized: [unknown, unknown, named],
};

describe('afterCall', () => {
  it.each(codes)(
    '[invariant 1] [invariant 2] knows what %s means for the first call, a repeated one and a named VM',
    (code) => {
      const after = [first, lost, named].map((before) => afterCall(before, attempt, failureOf(code)));
      expect(after).toEqual(table[code]);
    },
  );

  it('keeps that parts may be left by a refusal before the last one', () => {
    expect(afterCall({ ...first, mayHaveParts: true }, attempt, failureOf('InvalidArgument'))).toEqual(parts);
  });

  it.each([first, lost, refused])(
    '[invariant 1] takes that a VM may exist from an answer, and from none: %j',
    (before) => {
      expect(afterCall(before, attempt, vm)).toEqual(unknown);
      expect(afterCall(before, attempt, 'lost')).toEqual(unknown);
    },
  );

  it.each([first, lost, refused, named, joined])(
    'learns nothing from a call that no worker has taken: %j',
    (before) => {
      const untaken: Failure = { ...failureOf('Unavailable'), blockedOn: 'ProviderWorker' };
      expect(afterCall(before, attempt, untaken)).toEqual(before);
    },
  );

  it('asks whether the VM of a joined Node is listed after every call that is not refused', () => {
    expect(afterCall(joined, attempt, failureOf('NotFound'))).toEqual({ ...joined, attempt });
    expect(afterCall(joined, attempt, vm)).toEqual(named);
    expect(afterCall(joined, attempt, failureOf('Unavailable'))).toEqual(named);
  });
});

describe('nextAsk', () => {
  it.each<[string, Creation, string | undefined, ReturnType<typeof nextAsk>]>([
    ['asks again when nothing may have come of any call', first, '1', { kind: 'new', ordinal: 2 }],
    ['repeats a call whose answer was lost', lost, '1', { kind: 'repeat', attempt }],
    ['repeats it although the source was corrected: a VM may come of it', lost, '2', { kind: 'repeat', attempt }],
    ['repeats what was refused while the source is the same', refused, '1', { kind: 'repeat', attempt }],
    ['asks again when the source of a refused attempt was corrected', refused, '2', { kind: 'new', ordinal: 3 }],
    ['repeats it when nobody has read the source', refused, undefined, { kind: 'repeat', attempt }],
    ['repeats a call for a VM that the Machine names', named, '2', { kind: 'repeat', attempt }],
    [
      'asks where the Machine records it when a run was lost',
      recoverCreation(true, false, false),
      '1',
      { kind: 'resume' },
    ],
    ['asks there for a named VM, too', recoverCreation(true, true, false), '1', { kind: 'resume' }],
  ])('%s', (_, creation, version, ask) => {
    expect(nextAsk(creation, version)).toEqual(ask);
  });
});

describe('a creation', () => {
  it.each<[string, Creation, boolean, boolean]>([
    ['that has not started', notAsked, false, false],
    ['of which every call was turned down', nothing, false, false],
    ['that may have left parts', parts, true, false],
    ['whose answer was lost', lost, true, true],
    ['that was refused after a lost answer', refused, true, true],
    ['whose VM has not joined', named, true, true],
    ['whose VM has joined', joined, true, false],
  ])('%s says whether a cloud has to be asked, and whether that lists all', (_, creation, isThere, isUnknown) => {
    expect([mayHaveVm(creation), isOutcomeUnknown(creation)]).toEqual([isThere, isUnknown]);
  });

  it.each([
    [false, false, false, notAsked],
    [true, false, false, { state: 'asked', isRefused: false }],
    [true, true, false, { state: 'named', hasJoined: false }],
    [true, true, true, joined],
  ] as const)(
    'is recovered from the object: finalizer %p, provider ID %p, joined %p',
    (managed, isNamed, hasJoined, is) => {
      expect(recoverCreation(managed, isNamed, hasJoined)).toEqual(is);
    },
  );

  it('follows the name of the VM on the Machine, which a restored backup takes away', () => {
    expect(withName(lost, true)).toEqual(named);
    expect(withName(first, true)).toEqual({ state: 'named', hasJoined: false });
    expect(withName(named, false)).toEqual(unknown);
    expect(withName(joined, false)).toEqual({ state: 'asked', isRefused: false });
    for (const creation of [named, joined]) expect(withName(creation, true)).toBe(creation);
    for (const creation of [first, lost]) expect(withName(creation, false)).toBe(creation);
  });
});
