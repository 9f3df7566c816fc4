import { describe, expect, it } from '@jest/globals';
import { operationOf, type Prefix } from './operation.ts';

const id = '0a1b2c3d-0000-4000-8000-000000000001';
const project = '6dd292dcc65e4cc0b0c81547ae06a662';

describe('operationOf', () => {
  it.each<[string, Prefix, string, string]>([
    ['POST', 'identity', '/v3/auth/tokens', 'POST /identity/auth/tokens'],
    ['GET', 'compute', '/v2.1/servers/detail', 'GET /compute/servers/detail'],
    ['DELETE', 'compute', `/v2.1/servers/${id}`, 'DELETE /compute/servers/{id}'],
    ['GET', 'compute', `/v2.1/servers/${id}/os-interface`, 'GET /compute/servers/{id}/os-interface'],
    ['GET', 'compute', '/v2.1/flavors/detail', 'GET /compute/flavors/detail'],
    ['GET', 'compute', '/v2.1/flavors/m1.small', 'GET /compute/flavors/{id}'],
    ['PUT', 'network', `/v2.0/ports/${id}/tags/anything`, 'PUT /network/ports/{id}/tags/{id}'],
    ['POST', 'volume', `/v3/${project}/volumes`, 'POST /volume/volumes'],
    ['GET', 'volume', `/v3/${project}/volumes/${id}`, 'GET /volume/volumes/{id}'],
    ['GET', 'image', '/v2/images', 'GET /image/images'],
    ['GET', 'network', '/', 'GET /network'],
  ])('%s %s %s', (method, prefix, path, operation) => {
    expect(operationOf(method, prefix, path)).toBe(operation);
  });
});
