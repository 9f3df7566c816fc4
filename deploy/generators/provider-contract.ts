/** docs/reference/provider-contract.md: the JSON of the cloud activities, from the schemas that check it. */
import type { z } from 'zod';
import {
  ClassVerdict,
  DeleteVmRequest,
  EnsureVmRequest,
  InterruptionPage,
  ListInterruptionsRequest,
  ListVmsRequest,
  type ProviderActivities,
  UpdateVmRequest,
  ValidateClassRequest,
  Vm,
  VmDeletion,
  VmPage,
  VolumeIds,
  VolumeIdsRequest,
} from '../../api/provider.ts';
import { fieldTable } from './field-table.ts';

/** Request and result of every cloud activity; `updateVm` has no result. */
export const activities = {
  ensureVm: { request: EnsureVmRequest, result: Vm },
  deleteVm: { request: DeleteVmRequest, result: VmDeletion },
  listVms: { request: ListVmsRequest, result: VmPage },
  validateClass: { request: ValidateClassRequest, result: ClassVerdict },
  volumeIds: { request: VolumeIdsRequest, result: VolumeIds },
  updateVm: { request: UpdateVmRequest, result: undefined },
  listInterruptions: { request: ListInterruptionsRequest, result: InterruptionPage },
} as const satisfies Record<keyof ProviderActivities, { request: z.ZodType; result: z.ZodType | undefined }>;

/** Content of docs/reference/provider-contract.md. */
export function providerContractDoc(): string {
  const sections = Object.entries(activities).map(([name, { request, result }]) => {
    const answer = result === undefined ? 'No result.' : fieldTable(result);
    return `## ${name}\n\n### Request\n\n${fieldTable(request)}\n\n### Result\n\n${answer}\n`;
  });
  return `<!-- Made from api/provider.ts by \`npm run generate\`. Do not edit. -->
# Provider contract, version 1: fields

The argument and the result of each cloud activity, both JSON. [Writing a provider](../providers.md) says how they are
used. Ignore fields that are not listed here. \`[]\` stands for the elements of a list.

${sections.join('\n')}`;
}
