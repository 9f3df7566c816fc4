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
import { createMask, type Mask, showKeys } from './kit/masks.ts';
import { parseOrRefuse } from './problems.ts';
import type { CallContext, Provider } from './provider.ts';

/**
 * The cloud activities of a TypeScript provider, for a worker on its task queue. Requests are checked against
 * api/provider.ts. What is secret is hidden in the texts of answers. The worker needs the interceptor `boundary`, which
 * hides it in failures.
 */
export function createVmActivities(provider: Provider): ProviderActivities {
  /** @param hide masks the texts for people in an answer */
  function serve<S extends z.ZodType, R>(
    schema: S,
    act: (request: z.output<S>, context: CallContext) => Promise<R>,
    hide: (answer: R, mask: Mask) => R = (answer) => answer,
  ): (request: z.input<S>) => Promise<R> {
    return async (request) => {
      showKeys(provider.plainKeys ?? []);
      return hide(await act(parseOrRefuse(schema, request, 'request'), currentCall()), createMask());
    };
  }

  return {
    ensureVm: serve(EnsureVmRequest, provider.ensureVm, ({ message, ...vm }, mask) => ({
      ...vm,
      ...(message !== undefined && { message: mask(message) }),
    })),
    deleteVm: serve(DeleteVmRequest, provider.deleteVm),
    listVms: serve(ListVmsRequest, async (request, context) => {
      const page = await provider.listVms(request, context);
      return request.withoutTags ? { ...page, items: page.items.map(({ tags: _tags, ...item }) => item) } : page;
    }),
    validateClass: serve(ValidateClassRequest, provider.validateClass, ({ problems, ...verdict }, mask) => ({
      ...verdict,
      problems: problems.map(mask),
    })),
    volumeIds: serve(VolumeIdsRequest, provider.volumeIds),
    ...(provider.updateVm && { updateVm: serve(UpdateVmRequest, provider.updateVm) }),
    ...(provider.listInterruptions && {
      listInterruptions: serve(ListInterruptionsRequest, provider.listInterruptions, ({ items, ...page }, mask) => ({
        ...page,
        items: items.map(({ providerID, reason }) => ({ providerID, reason: mask(reason) })),
      })),
    }),
  };
}
