/**
 * The finalizer of Secrets that source objects (classes) refer to, and of that with the key of the signatures: without
 * them the VMs of a class can not be deleted.
 */

import { signingKeySecret } from '../api/names.ts';
import type { KubeObject } from '../api/objects.ts';
import { secrets } from '../kube/core.ts';
import { mergePatch } from '../kube/patch.ts';
import { ignoreGoneOrChanged } from '../kube/update.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { bySecret, type Change } from './watches.ts';

type SecretControllerContext = Pick<ControllerContext, 'control' | 'watches' | 'dialect' | 'namespace'>;

/**
 * Keys are names of Secrets. One that is deleted stays while a source object refers to it; the key of the signatures
 * while there is any source object.
 */
export function createSecretController({ control, watches, dialect, namespace }: SecretControllerContext): Controller {
  const { marks, source } = dialect;

  async function handle(name: string): Promise<void> {
    const { secretFinalizer } = marks;
    const secret = watches.secrets.get({ namespace, name });
    if (secretFinalizer === undefined || secret === undefined) return;
    const { finalizers = [], deletionTimestamp, resourceVersion } = secret.metadata;
    const isKey = name === signingKeySecret && watches.sources.list().length > 0;
    const isUsed = isKey || watches.sources.has(bySecret, name);
    const isProtected = finalizers.includes(secretFinalizer);
    // A Secret that is being deleted takes no finalizer any more.
    if (isUsed === isProtected || (isUsed && deletionTimestamp !== undefined)) return;
    const others = finalizers.filter((each) => each !== secretFinalizer);
    const wanted = isUsed ? [...others, secretFinalizer] : others;
    const patch = mergePatch({ metadata: { resourceVersion, finalizers: wanted } });
    await ignoreGoneOrChanged(() => control.patch(secrets, { namespace, name }, patch));
  }

  /** The Secrets that a source object refers to, and has referred to before. */
  const secretsOf = (change: Change) => [
    signingKeySecret,
    ...[change.object, ...(change.kind === 'updated' ? [change.previous] : [])].flatMap((object: KubeObject) =>
      source.secretsOf(object).map(({ name }) => name),
    ),
  ];

  return {
    queue: 'secrets',
    hears: { sources: secretsOf, secrets: ({ object }) => [object.metadata.name] },
    delayMs: 0, // a version of a class that is checked has the Secrets as they stay
    keys: () => watches.secrets.list().map(({ metadata }) => metadata.name),
    handle,
    resync: handle,
  };
}
