/** How a provider fails. */
import type { FailureDetails } from '../../../api/provider.ts';
import { check, NotRun } from '../breach.ts';
import type { Case } from '../case.ts';
import { answerOf } from '../world.ts';

/** A pause that the caller has to wait for in its workflow, s. */
const longPauseSeconds = 20;

export const refusalCases: readonly Case[] = [
  {
    title: 'bad class',
    promise:
      'A providerSpec that is not valid is InvalidArgument, and validateClass names its problems. Nothing is made.',
    section: 'Failures',
    needs: [],
    async run(world) {
      const bad = { providerSpec: {} };
      const verdict = answerOf(
        'validateClass',
        await (await world.calls.start('validateClass', { ...world.scope, ...bad })).outcome(),
      );
      check(verdict.problems.length > 0, 'validateClass finds no problem in an empty providerSpec');
      await world.refusal('ensureVm', world.creation(world.newMachine(), bad), 'InvalidArgument');
      await world.checkNothingExists();
    },
  },
  {
    title: 'bad credentials',
    promise:
      'Credentials that the cloud refuses are Unauthenticated. Nothing is made, and deleteVm does not answer gone.',
    section: 'Failures',
    needs: [],
    async run(world) {
      const wrong = await world.subject.makeWrongCredentials();
      if (wrong === undefined) throw new NotRun('the class names no Secret with credentials');
      const machine = world.newMachine();
      const credentials = [...world.subject.credentials, wrong];
      // A provider may see by itself that they cannot be right.
      await world.refusal('ensureVm', world.creation(machine, { credentials }), 'Unauthenticated', 'InvalidArgument');
      await world.refusal('deleteVm', world.deletion(machine, { credentials }), 'Unauthenticated', 'InvalidArgument');
      await world.checkNothingExists();
    },
  },
  {
    title: 'missing permission',
    promise:
      'A missing right is PermissionDenied: nothing is made, deleteVm does not answer gone, listVms no empty list.',
    section: 'Failures',
    needs: ['missingPermission'],
    async run(world) {
      const machine = world.newMachine();
      await world.ensure(machine);
      await world.cloud?.setFault({ kind: 'missingPermission' });

      await world.refusal('ensureVm', world.creation(world.newMachine()), 'PermissionDenied');
      await world.refusal('deleteVm', world.deletion(machine), 'PermissionDenied');
      await world.refusal('listVms', world.scope, 'PermissionDenied');
      await world.onlyVm();
    },
  },
  {
    title: 'no capacity',
    promise: 'Used-up capacity is ResourceExhausted and leaves nothing. The next creation succeeds when there is room.',
    section: 'Failures',
    needs: ['noCapacity'],
    async run(world) {
      const machine = world.newMachine();
      await world.cloud?.setFault({ kind: 'noCapacity' });
      await world.refusal('ensureVm', world.creation(machine), 'ResourceExhausted');
      await world.checkNothingExists();

      await world.cloud?.setFault();
      await world.ensure(machine, { token: `${machine.uid}-1` });
      await world.onlyVm();
    },
  },
  {
    title: 'canary secrets',
    promise: 'No secret is in an input, a result, a failure, the details of a heartbeat or the log of the worker.',
    section: 'Failures',
    needs: [],
    usesWorker: true,
    async run(world) {
      const { subject, calls, worker } = world;
      const machine = world.newMachine();
      await world.ensure(machine);
      await (await calls.start('ensureVm', world.creation(world.newMachine(), { providerSpec: {} }), 1)).outcome();
      const wrong = await subject.makeWrongCredentials();
      const credentials = [...subject.credentials, ...(wrong ? [wrong] : [])];
      for (const name of ['ensureVm', 'deleteVm'] as const) {
        const request = { ...world.creation(machine), credentials };
        await (await calls.start(name, request, 1)).outcome();
      }
      await world.remove(machine);

      const texts = [...(await calls.payloads()), ...(worker ? [worker.log()] : [])];
      const encoded = [...subject.canaries].flatMap((secret) => [secret, Buffer.from(secret).toString('base64')]);
      const leak = texts.findIndex((text) => encoded.some((secret) => text.includes(secret)));
      const place = worker !== undefined && leak === texts.length - 1 ? 'the log of the worker' : 'a payload';
      check(leak < 0, `${place} has a secret: ${withoutSecrets(texts[leak] ?? '', encoded)}`);
    },
  },
  {
    title: 'throttling',
    promise: 'A throttled ensureVm waits, or fails with Unavailable, and succeeds once the cloud takes requests again.',
    section: 'Failures',
    needs: ['throttled'],
    async run(world) {
      await world.cloud?.setFault({ kind: 'throttled', times: 2 });
      await world.ensure(world.newMachine());
      await world.onlyVm();
    },
  },
  {
    title: 'throttling with a pause',
    promise: 'Throttling is Unavailable. A caller that has to wait for 10 s or longer is told so by retryAfterMs.',
    section: 'Failures',
    needs: ['askedToWait'],
    async run(world) {
      await world.cloud?.setFault({ kind: 'askedToWait', retryAfterSeconds: longPauseSeconds });
      const failure = await world.refusal('ensureVm', world.creation(world.newMachine()), 'Unavailable');
      const { retryAfterMs } = (failure.details?.[0] ?? {}) as FailureDetails;
      check((retryAfterMs ?? 0) >= longPauseSeconds * 1_000, `retryAfterMs is ${retryAfterMs}`);
      check(failure.nonRetryable === true, 'it is retryable, and so waits where nobody sees it');
    },
  },
];

/** The surroundings of a leak, for the report, which must not leak itself. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  const [secret = ''] = secrets.filter((each) => text.includes(each));
  const at = text.indexOf(secret);
  const around = text.slice(Math.max(0, at - 100), at + secret.length + 50);
  return secrets.reduce((rest, each) => rest.replaceAll(each, '<secret>'), around);
}
