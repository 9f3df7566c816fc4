/** Ids of the workflows of objects. Workflow code imports this file. */
import type { ObjectRef } from './model/ref.ts';

/** Kind of an object that has a workflow. */
export type WorkflowKind = keyof typeof idParts;

const idParts = { Machine: 'machine', MachineDeployment: 'rollout', MachineSet: 'machine-set' } as const;

/** Id of the workflow that grants the limits of a namespace. */
export function limitsWorkflowId(installation: string, namespace: string): string {
  return `${installation}/machine-limits/${namespace}`;
}

/**
 * Id of the workflow of an object. It has the UID: an object created again under the name has a workflow of its own.
 */
export function workflowId(installation: string, kind: WorkflowKind, { namespace, name, uid }: ObjectRef): string {
  return `${workflowIdPrefix(installation, kind, { namespace, name })}${uid}`;
}

/** How the ids of the workflows of all objects begin that have had a name. */
export function workflowIdPrefix(
  installation: string,
  kind: WorkflowKind,
  { namespace, name }: Pick<ObjectRef, 'namespace' | 'name'>,
): string {
  return `${namespacePrefix(installation, kind, namespace)}${name}/`;
}

/** How the ids of the workflows of all objects of a namespace begin. */
export function namespacePrefix(installation: string, kind: WorkflowKind, namespace: string): string {
  return `${installation}/${idParts[kind]}/${namespace}/`;
}
