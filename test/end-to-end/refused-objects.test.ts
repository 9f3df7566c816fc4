/** What the API server refuses to an owner of machines, here by policies as administrators write them. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { machineDeployments, machineSets, machines } from '../../api/gardener/resources.ts';
import type { KubeObject, NewObject, Resource } from '../../api/objects.ts';
import { events } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

const admission = { group: 'admissionregistration.k8s.io', version: 'v1', namespaced: false } as const;
const kinds: readonly Resource<KubeObject>[] = [
  { ...admission, plural: 'validatingadmissionpolicies', kind: 'ValidatingAdmissionPolicy' },
  { ...admission, plural: 'validatingadmissionpolicybindings', kind: 'ValidatingAdmissionPolicyBinding' },
];

describe('what the API server refuses to create', () => {
  let millwright: Installation;
  const nameOf = (plural: string) => `${millwright.namespace}-${plural}`;
  beforeAll(async () => {
    millwright = await startInstallation();
  });
  afterAll(async () => {
    for (const plural of ['machinesets', 'machines'])
      for (const kind of kinds) await millwright?.control.delete(kind, { name: nameOf(plural) }).catch(() => undefined);
    await millwright?.stop();
  });

  /** Refuses the creation of objects of the namespace, and waits until it does. */
  async function refuse(plural: string): Promise<void> {
    const { control, namespace } = millwright;
    const name = nameOf(plural);
    const matchResources = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } };
    const rule = { apiGroups: [machineSets.group], apiVersions: ['*'], operations: ['CREATE'], resources: [plural] };
    const validations = [{ expression: 'false', message: `no more ${plural} today` }];
    const specs = [
      { failurePolicy: 'Fail', matchConstraints: { resourceRules: [rule] }, validations },
      { policyName: name, validationActions: ['Deny'], matchResources },
    ];
    for (const [i, kind] of kinds.entries())
      await control.create(kind, { metadata: { name }, spec: specs[i] } as NewObject<KubeObject>);
    const resource: Resource<KubeObject> = plural === 'machines' ? machines : machineSets;
    const spec = { class: { kind: 'MachineClass', name: 'small' } };
    const matchLabels = { probe: 'yes' };
    const template = { metadata: { labels: matchLabels }, spec };
    const probe = plural === 'machines' ? spec : { replicas: 0, selector: { matchLabels }, template };
    const object = { metadata: { namespace, name: 'probe' }, spec: probe } as NewObject<KubeObject>;
    let answer = 'created';
    await until(
      `${plural} are refused`,
      async () => {
        answer = await control.create(resource, object, { dryRun: 'All' }).then(() => 'created', String);
        return answer.includes(`no more ${plural} today`);
      },
      { describe: () => answer },
    );
  }
  const allow = async (plural: string) => {
    for (const kind of kinds.toReversed()) await millwright.control.delete(kind, { name: nameOf(plural) });
  };

  const keyOf = () => ({ namespace: millwright.namespace, name: 'pool' });
  const conditionsOf = async () => (await millwright.control.get(machineDeployments, keyOf())).status?.conditions ?? [];
  const conditionOf = async (type: string) => (await conditionsOf()).find((each) => each.type === type);
  async function notesOf(reason: string): Promise<string[]> {
    const { items } = await millwright.control.list(events, { namespace: millwright.namespace });
    return items.filter((each) => each.reason === reason).map(({ note }) => note);
  }

  /** Waits until the workflow of the deployment is blocked on this, or on nothing. */
  async function untilStuck(blocker?: string): Promise<void> {
    const { namespace, temporal } = millwright;
    const isOpen = `MillwrightInstallation = '${namespace}' AND WorkflowType = 'rollout' AND ExecutionStatus = 'Running'`;
    const query = `${isOpen} AND MillwrightBlockedOn ${blocker === undefined ? 'IS NOT NULL' : `= '${blocker}'`}`;
    await until(`it is blocked on ${blocker ?? 'nothing'}`, async (see) => {
      return see(await temporal.workflow.count(query)).count === (blocker === undefined ? 0 : 1);
    });
  }

  it('[mcm 68] is said by Progressing and ReplicaFailure, in the words of machine-controller-manager, until it is created', async () => {
    await refuse('machinesets');
    await refuse('machines');
    await millwright.createDeployment('pool', 2);

    const ofSet = await until('the deployment says that its set is refused', async (see) => {
      const found = see(await conditionOf('Progressing'));
      return found?.reason === 'MachineSetCreateError' && found;
    });
    expect(ofSet).toMatchObject({
      status: 'False',
      message: expect.stringMatching(/^Failed to create new machine set "pool-.*": .*no more machinesets today/s),
    });
    expect(await millwright.setsOf('pool')).toEqual([]);
    await until('an Event says it', async (see) =>
      see(await notesOf('MachineSetCreateError')).includes(ofSet.message ?? ''),
    );
    const refusal = 'MachineSetCreateError: Failed to create new machine set "pool-';
    expect((await millwright.command('get', 'deployments')).output).toContain(refusal);
    expect((await millwright.command('rollout', 'status', 'pool', '--watch', 'false')).output).toContain(refusal);
    await untilStuck('KubernetesApi');
    const { output } = await millwright.command('stuck');
    expect(output).toMatch(
      /^KubernetesApi: 1 rollout\. .*\n {2}pool: for .* \(since \S+\), .*no more machinesets today/m,
    );
    expect(output).toContain('To unblock: Check that the API servers answer');

    await allow('machinesets');
    const failure = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate' };
    const message = expect.stringContaining('no more machines today');
    const told = await until('the deployment says that its machines are refused', () => conditionOf('ReplicaFailure'), {
      describe: () => millwright.story(),
    });
    expect(told).toMatchObject({ ...failure, message });
    expect((await millwright.command('get', 'deployments')).output).toContain('FailedCreate: ');
    const [set, ...others] = await millwright.setsOf('pool');
    expect(others).toEqual([]);
    expect(set?.status?.machineSetCondition).toMatchObject([{ ...failure, message }]);
    expect(await conditionOf('Progressing')).not.toMatchObject({ reason: 'MachineSetCreateError' });
    await until('an Event says it', async (see) =>
      see(await notesOf('FailedCreate')).some((note) => note.includes('today')),
    );

    await allow('machines');
    await until(
      'both machines run, and nothing is said of a failure any more',
      async () => {
        const all = await millwright.machinesOf('pool');
        const [own] = await millwright.setsOf('pool');
        const said = (await conditionsOf()).map(({ type, reason }) => `${type} ${reason}`).toSorted();
        const isSaid = String(said) === 'Available MinimumReplicasAvailable,Progressing NewMachineSetAvailable';
        const areRunning = all.length === 2 && all.every((each) => phaseOf(each) === 'Running');
        return areRunning && isSaid && (own?.status?.machineSetCondition ?? []).length === 0;
      },
      { describe: () => millwright.story() },
    );

    await untilStuck();

    // The same where there are machines already: those stay.
    await refuse('machinesets');
    const change = mergePatch({ spec: { template: { metadata: { annotations: { version: '2' } } } } });
    await millwright.control.patch(machineDeployments, keyOf(), change);
    await until(
      'it says so again',
      async (see) => see(await conditionOf('Progressing'))?.reason === 'MachineSetCreateError',
    );
    expect((await millwright.machinesOf('pool')).filter(({ metadata }) => metadata.deletionTimestamp)).toEqual([]);
    await allow('machinesets');
    await until(
      'it is complete',
      async (see) => see(await conditionOf('Progressing'))?.reason === 'NewMachineSetAvailable',
      { describe: () => millwright.story() },
    );
  });
});
