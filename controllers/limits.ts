/** Tells the workflow that grants the limits of the namespace when there may be room for those who wait. */
import type { KubeObject } from '../api/objects.ts';
import { isProvisioning } from '../api/owner/limit-reading.ts';
import { limitsOf } from '../api/owner/limits.ts';
import type { OwnerSet } from '../api/owner/objects.ts';
import { controllerOf } from '../api/owner/ownership.ts';
import { limitsWorkflowId } from '../api/workflow-id.ts';
import { requestRefresh } from '../temporal/workflows.ts';
import type { Controller, ControllerContext } from './controller.ts';
import type { Change } from './watches.ts';

/** The only key is the namespace. Where no owner takes part in a limit, nothing is sent. */
export function createLimitController({
  watches,
  dialect,
  installation,
  namespace,
}: Pick<ControllerContext, 'watches' | 'dialect' | 'installation' | 'namespace'>): Controller {
  function isLimited(): boolean {
    const owners = [...watches.deployments.list(), ...watches.sets.list().filter((set) => !controllerOf(set))];
    return owners.some((owner) => limitsOf(owner) !== undefined);
  }

  function ofMachine(change: Change): string[] {
    const isRoom =
      change.kind === 'deleted' ||
      (change.kind === 'updated' &&
        isProvisioning(dialect, change.previous) &&
        !isProvisioning(dialect, change.object));
    return isRoom && isLimited() ? [namespace] : [];
  }

  function ofOwner(change: Change): string[] {
    const [before, after] = [change.kind === 'updated' ? change.previous : change.object, change.object];
    const textOf = (owner: KubeObject & Pick<OwnerSet, 'spec'>) =>
      JSON.stringify([limitsOf(owner), owner.spec?.replicas]);
    const isChanged = change.kind === 'deleted' || textOf(before) !== textOf(after);
    return isChanged && (limitsOf(before) !== undefined || isLimited()) ? [namespace] : [];
  }

  return {
    queue: 'limits',
    hears: {
      machines: ofMachine,
      deployments: ofOwner,
      sets: (change) => (controllerOf(change.object) ? [] : ofOwner(change)),
    },
    delayMs: 100,
    restMs: 300,
    keys: () => (isLimited() ? [namespace] : []),
    handle: () => requestRefresh(installation, limitsWorkflowId(installation.name, namespace)),
  };
}
