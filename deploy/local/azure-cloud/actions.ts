/** Names of what requests do, as roles of Azure permit it. */
import { z } from 'zod';

const verbs: Readonly<Record<string, string>> = {
  GET: 'read',
  HEAD: 'read',
  PUT: 'write',
  PATCH: 'write',
  POST: 'action',
  DELETE: 'delete',
};

/** The action of a request, for example `Microsoft.Compute/virtualMachines/write`. */
export function actionOf(method: string, path: string): string {
  const [before, after] = path.split(/\/providers\//i);
  const verb = verbs[method] ?? method;
  if (after === undefined) {
    const kind = /\/resourcegroups(\/|$)/i.test(before ?? '') ? 'subscriptions/resourceGroups' : 'subscriptions';
    return `Microsoft.Resources/${kind}/${verb}`;
  }
  const [namespace, ...segments] = after.split('/');
  const types = segments.filter((_, i) => i % 2 === 0);
  return [namespace, ...types, verb].join('/');
}

const Id = z.object({ id: z.string().optional() }).nullish();
const Body = z.object({
  identity: z.object({ userAssignedIdentities: z.record(z.string(), z.unknown()).nullish() }).nullish(),
  properties: z
    .object({
      networkProfile: z.object({ networkInterfaces: z.array(Id).nullish() }).nullish(),
      virtualMachineScaleSet: Id,
      availabilitySet: Id,
      capacityReservation: z.object({ capacityReservationGroup: Id }).nullish(),
      networkSecurityGroup: Id,
      ipConfigurations: z
        .array(z.object({ properties: z.object({ subnet: Id, publicIPAddress: Id }).nullish() }))
        .nullish(),
      storageProfile: z
        .object({
          imageReference: Id,
          dataDisks: z.array(z.object({ managedDisk: Id })).nullish(),
        })
        .nullish(),
      creationData: z.object({ galleryImageReference: Id }).nullish(),
    })
    .nullish(),
});

/** Actions on resources that a request names: who sends it has to be permitted these as well. */
export function linkedActionsOf(method: string, body: unknown): string[] {
  if (method !== 'PUT' && method !== 'PATCH') return [];
  const { data } = Body.safeParse(body);
  if (!data) return [];
  const { properties: p, identity } = data;
  const actions: string[] = [];
  const add = (thing: z.output<typeof Id>, verb: string) => {
    // Images of public galleries are in no subscription, and so need no right.
    if (thing?.id !== undefined && /\/providers\//i.test(thing.id)) {
      actions.push(actionOf('', thing.id).replace(/\/$/, verb));
    }
  };
  for (const nic of p?.networkProfile?.networkInterfaces ?? []) add(nic, '/join/action');
  for (const { properties } of p?.ipConfigurations ?? []) {
    add(properties?.subnet, '/join/action');
    add(properties?.publicIPAddress, '/join/action');
  }
  for (const { managedDisk } of p?.storageProfile?.dataDisks ?? []) add(managedDisk, '/write');
  add(p?.virtualMachineScaleSet, '/write');
  add(p?.availabilitySet, '/write');
  add(p?.capacityReservation?.capacityReservationGroup, '/deploy/action');
  add(p?.networkSecurityGroup, '/join/action');
  add(p?.storageProfile?.imageReference, '/read');
  add(p?.creationData?.galleryImageReference, '/read');
  for (const id of Object.keys(identity?.userAssignedIdentities ?? {})) add({ id }, '/assign/action');
  return [...new Set(actions)];
}
