/** glance. */
import type { Query, Service, ServiceKind } from './service.ts';

export const imageKind: ServiceKind = { types: ['image'], version: 'v2' };

export interface Image {
  readonly id: string;
  readonly name: string;
}

/** Images. */
export function createImages(glance: Service) {
  return {
    images: (query: Query, signal: AbortSignal) => glance.page<Image>('/images', 'images', query, signal),
  };
}
