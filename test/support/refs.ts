import { gardener } from '../../api/gardener/index.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { KubeObject } from '../../api/objects.ts';
import { refOf as refIn } from '../../controllers/objects.ts';

/** Reference to an object of `machine.sapcloud.io`. */
export function refOf(object: KubeObject): ObjectRef {
  return refIn(gardener, object);
}
