import type { z } from 'zod';
import {
  DeleteVmRequest,
  EnsureVmRequest,
  ListInterruptionsRequest,
  ListVmsRequest,
  type ProviderActivities,
  UpdateVmRequest,
  ValidateClassRequest,
  VolumeIdsRequest,
} from '../../api/provider.ts';
import { currentCall } from '../boundary.ts';
import { parseOrRefuse } from './problems.ts';
import type { CallContext, Provider } from './provider.ts';

/**
 * The cloud activities of a TypeScript provider, for a worker on its task queue. Requests are checked against
 * api/provider.ts. The worker needs the interceptor `boundary`.
 */
export function createVmActivities(provider: Provider): ProviderActivities {
  function serve<S extends z.ZodType, R>(
    schema: S,
    act: (request: z.output<S>, context: CallContext) => Promise<R>,
  ): (request: z.input<S>) => Promise<R> {
    return async (request) => act(parseOrRefuse(schema, request, 'request'), currentCall());
  }

  return {
    ensureVm: serve(EnsureVmRequest, provider.ensureVm),
    deleteVm: serve(DeleteVmRequest, provider.deleteVm),
    listVms: serve(ListVmsRequest, provider.listVms),
    validateClass: serve(ValidateClassRequest, provider.validateClass),
    volumeIds: serve(VolumeIdsRequest, provider.volumeIds),
    ...(provider.updateVm && { updateVm: serve(UpdateVmRequest, provider.updateVm) }),
    ...(provider.listInterruptions && {
      listInterruptions: serve(ListInterruptionsRequest, provider.listInterruptions),
    }),
  };
}
