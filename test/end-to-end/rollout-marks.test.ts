/** What a rollout puts on Nodes, and takes off again. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { annotations, taints } from '../../api/gardener/names.ts';
import { machineDeployments } from '../../api/gardener/resources.ts';
import type { Machine } from '../../api/gardener/schema/machine.ts';
import type { MachineDeployment } from '../../api/gardener/schema/machine-deployment.ts';
import { type Node, nodes } from '../../kube/core.ts';
import { mergePatch } from '../../kube/patch.ts';
import { type Installation, phaseOf, startInstallation } from '../support/installation.ts';
import { until } from '../support/until.ts';

const { scaleDownDisabled, scaleDownDisabledByMcm } = annotations;
const byMcm = { disabled: 'true', byMcm: 'true' };
const byOthers = { disabled: 'true', byMcm: undefined };
const none = { disabled: undefined, byMcm: undefined };

describe('Nodes of a deployment that rolls out', () => {
  let millwright: Installation;
  beforeAll(async () => {
    millwright = await startInstallation();
    await millwright.createClass('medium');
  });
  afterAll(() => millwright?.stop());

  const key = () => ({ namespace: millwright.namespace, name: 'pool' });
  const change = (spec: object) =>
    millwright.control.patch<MachineDeployment>(machineDeployments, key(), mergePatch({ spec }));
  const toClass = (name: string) => ({ template: { spec: { class: { name } } } });
  const annotate = (name: string) =>
    millwright.target.patch(
      nodes,
      { name },
      mergePatch({ metadata: { annotations: { [scaleDownDisabled]: 'true' } } }),
    );
  const isTainted = ({ spec }: Node) =>
    spec?.taints?.some(({ key: each }) => each === taints.preferNoSchedule.key) === true;
  const marksOf = ({ metadata }: Node) => ({
    disabled: metadata.annotations?.[scaleDownDisabled],
    byMcm: metadata.annotations?.[scaleDownDisabledByMcm],
  });

  interface Seen {
    readonly machine: Machine;
    readonly node: Node;
  }

  /** All machines with their Nodes, which have their names, once they are so. */
  const untilAll = (what: string, areSo: (seen: readonly Seen[]) => boolean): Promise<readonly Seen[]> =>
    until(
      what,
      async () => {
        const all = await millwright.machinesOf('pool');
        if (!all.every((machine) => phaseOf(machine) === 'Running')) return undefined;
        const found = await Promise.all(
          all.map(({ metadata }) => millwright.target.find(nodes, { name: metadata.name })),
        );
        const seen = all.flatMap((machine, i) => (found[i] === undefined ? [] : [{ machine, node: found[i] }]));
        return seen.length === all.length && areSo(seen) ? seen : undefined;
      },
      { describe: () => millwright.story() },
    );
  const isOf =
    (name: string) =>
    ({ machine }: Seen) =>
      machine.spec?.class?.name === name;
  const areMarked = (seen: readonly Seen[], marks: object) =>
    seen.every(({ node }) => JSON.stringify(marksOf(node)) === JSON.stringify(marks));

  it('[mcm 74] [mcm 75] tell pods to go elsewhere, and the autoscaler to leave all alone, until it is complete or goes back', async () => {
    await millwright.createDeployment('pool', 3);
    const before = await untilAll('it runs', (seen) => seen.length === 3);
    expect(before.some(({ node }) => isTainted(node))).toBe(false);
    // The one that goes last, however late the pause comes: the older go first, then by name.
    const rankOf = ({ machine: { metadata } }: Seen) => `${metadata.creationTimestamp} ${metadata.name}`;
    const [last, ...earlier] = before.toSorted((a, b) => (rankOf(a) < rankOf(b) ? 1 : -1));
    const mine = last?.machine.metadata.name ?? '';
    await annotate(mine);

    await change({ ...toClass('medium'), paused: true });
    expect(areMarked(earlier, none)).toBe(true);
    // The second new machine waits for the pause: without that all could be replaced before it.
    await millwright.cloud.setFaults({ kind: 'hang', operation: 'create', effect: 'done', every: 2 });
    await change({ paused: false });
    await until('the first new machine exists', async (see) =>
      see(await millwright.machines()).some(({ spec }) => spec?.class?.name === 'medium'),
    );
    await change({ paused: true });
    await millwright.cloud.setFaults();
    const halfway = await untilAll('it is half done, and all are marked', (seen) => {
      const [old, fresh] = [seen.filter(isOf('small')), seen.filter(isOf('medium'))];
      const others = seen.filter(({ machine }) => machine.metadata.name !== mine);
      const isHalf = old.length > 0 && fresh.length > 0 && areMarked(others, byMcm);
      return isHalf && old.every(({ node }) => isTainted(node)) && !fresh.some(({ node }) => isTainted(node));
    });
    const own = halfway.filter(({ machine }) => machine.metadata.name === mine);
    expect(own.map(({ node }) => marksOf(node))).toEqual([byOthers]);

    await change({ ...toClass('small'), paused: false });
    const back = await untilAll('it went back', (seen) => {
      const others = seen.filter(({ machine }) => machine.metadata.name !== mine);
      const isBack = seen.length === 3 && seen.every(isOf('small')) && areMarked(others, none);
      return isBack && !seen.some(({ node }) => isTainted(node));
    });
    expect(
      areMarked(
        back.filter(({ machine }) => machine.metadata.name === mine),
        byOthers,
      ),
    ).toBe(true);

    await change(toClass('medium'));
    await untilAll('it is complete', (seen) => {
      return (
        seen.length === 3 &&
        seen.every(isOf('medium')) &&
        areMarked(seen, none) &&
        !seen.some(({ node }) => isTainted(node))
      );
    });
  });
});
