/**
 * User data that is made for one machine: it has a bootstrap token or the machine's name in it. It lives in a Secret of
 * its own until the machine has joined, and so does the token; neither is ever in a workflow.
 */
import { createHash, randomInt } from 'node:crypto';
import { dialectOf } from '../../api/dialects.ts';
import type { ObjectRef } from '../../api/model/ref.ts';
import type { SourceSnapshot } from '../../api/model/source.ts';
import { names } from '../../api/names.ts';
import { referenceTo } from '../../api/objects.ts';
import { tokenNamespace } from '../../api/rights.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Secret, secrets } from '../../kube/core.ts';
import { isAlreadyExists, isNotFound } from '../../kube/errors.ts';
import { mergePatch } from '../../kube/patch.ts';
import { localRequest } from '../local-request.ts';
import { hideSecret } from '../providers/kit/masks.ts';
import { ProviderError } from '../providers/provider.ts';

export interface UserDataDeps {
  readonly control: KubeClient;
  readonly target: KubeClient;
  /** `auth-extra-groups` of bootstrap tokens: comma list, empty for none. */
  readonly bootstrapTokenExtraGroups: string;
}

const tokenAlphabet = '0123456789abcdefghijklmnopqrstuvwxyz';

/** @param deps `control` gets the rendered user data, `target` the bootstrap tokens. */
export function createUserDataActivities(deps: UserDataDeps) {
  const { control, target, bootstrapTokenExtraGroups } = deps;

  /**
   * The Secret of the token for a machine, made unless there is one. One that expires too soon lives longer: a VM may
   * have been made with it. Ids that other machines have are passed over.
   */
  async function ensureToken(ref: ObjectRef, validUntil: string): Promise<Secret> {
    for (let ordinal = 0; ; ordinal++) {
      const wanted = tokenSecret(ref, tokenId(ref.uid, ordinal), validUntil, bootstrapTokenExtraGroups);
      hideSecret({ token: wanted.stringData?.['token-secret'] ?? '' });
      const secret = await createOrFind(target, wanted);
      if (secret.metadata.labels?.[names.machineUid] !== ref.uid) {
        if (decoded(secret, 'token-secret') !== wanted.stringData?.['token-secret']) continue;
        await deleteIfThere(target, wanted.metadata);
        const { namespace, name } = wanted.metadata;
        const what = `the label ${names.machineUid} of Secret "${namespace}/${name}"`;
        throw new ProviderError('FailedPrecondition', `the API server of the nodes does not keep ${what}`);
      }
      if (Date.parse(decoded(secret, 'expiration')) >= Date.parse(validUntil)) return secret;
      const stringData = { expiration: validUntil };
      const prolonged = mergePatch({ metadata: { uid: secret.metadata.uid }, stringData });
      return target.patch(secrets, wanted.metadata, prolonged, localRequest());
    }
  }

  return {
    /**
     * Renders user data for a machine into a Secret and says where it is. Renders again when the source was changed, or
     * when the token in it has gone.
     * @param validUntil when the bootstrap token expires at the earliest, where one is asked for: RFC 3339, on
     * Temporal's clock
     */
    async ensureUserData(
      ref: ObjectRef,
      source: NonNullable<SourceSnapshot['userData']>,
      validUntil: string,
    ): Promise<{ namespace: string; name: string; key: string }> {
      const { namespace } = ref;
      const name = userDataSecretName(ref);
      const place = { namespace, name, key: source.key };
      const original = await control.get(secrets, source, localRequest());
      if (original.data?.[source.key] === undefined) {
        const place = `Secret "${source.namespace}/${source.name}"`;
        throw new ProviderError(
          'InvalidArgument',
          `${place} has no key ${source.key}: add the user data of its machines`,
        );
      }
      let token: Secret | undefined;
      const bootstrapToken = async () => {
        token = await ensureToken(ref, validUntil);
        return textOf(token);
      };
      const template = decoded(original, source.key);
      const values = { machineName: ref.name, bootstrapToken };
      const text = await dialectOf(ref.dialect).source.renderUserData(template, values);
      hideSecret({ text });
      const made = [original.metadata.name, original.metadata.resourceVersion, token?.metadata.uid];
      const version = made.filter((part) => part !== undefined).join('@');
      const rendered = userDataSecret(ref, place, version, text);
      const present = await createOrFind(control, rendered);
      if (present.metadata.annotations?.[names.source] === version) return place;
      await deleteIfThere(control, { namespace, name });
      await createOrFind(control, rendered);
      return place;
    },

    /** Removes what ensureUserData has made. */
    async removeUserData(ref: ObjectRef): Promise<true> {
      const key = { namespace: ref.namespace, name: userDataSecretName(ref) };
      await Promise.all([deleteIfThere(control, key), removeToken(ref)]);
      return true;
    },
  };

  /** Found by its id, as a list would read every token of the cluster. One that is missed expires by itself. */
  async function removeToken(ref: ObjectRef): Promise<void> {
    for (let ordinal = 0; ; ordinal++) {
      const key = { namespace: tokenNamespace, name: `bootstrap-token-${tokenId(ref.uid, ordinal)}` };
      const token = await target.find(secrets, key, localRequest());
      if (token === undefined) return;
      if (token.metadata.labels?.[names.machineUid] === ref.uid) return deleteIfThere(target, key);
    }
  }
}

async function createOrFind(cluster: KubeClient, secret: NewSecret): Promise<Secret> {
  try {
    return await cluster.create(secrets, secret, localRequest());
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    return cluster.get(secrets, secret.metadata, localRequest());
  }
}

async function deleteIfThere(cluster: KubeClient, key: { namespace: string; name: string }): Promise<void> {
  try {
    await cluster.delete(secrets, key, localRequest());
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

type NewSecret = Pick<Secret, 'type' | 'stringData'> & {
  metadata: Pick<Secret['metadata'], 'name' | 'labels' | 'annotations' | 'ownerReferences'> & { namespace: string };
};

function userDataSecretName({ uid }: ObjectRef): string {
  return `millwright-user-data-${uid}`;
}

function userDataSecret(
  ref: ObjectRef,
  { name, key }: { readonly name: string; readonly key: string },
  version: string,
  text: string,
): NewSecret {
  const { namespace: _, ...owner } = referenceTo(dialectOf(ref.dialect).kinds.machine, ref);
  return {
    metadata: {
      name,
      namespace: ref.namespace,
      labels: { [names.machineUid]: ref.uid },
      annotations: { [names.machine]: `${ref.namespace}/${ref.name}`, [names.source]: version },
      ownerReferences: [owner],
    },
    type: 'Opaque',
    stringData: { [key]: text },
  };
}

/** A bootstrap token as kubeadm and kube-apiserver define it, six and sixteen of `[0-9a-z]`. */
function tokenSecret(ref: ObjectRef, id: string, expiration: string, extraGroups: string): NewSecret {
  const secret = Array.from({ length: 16 }, () => tokenAlphabet[randomInt(tokenAlphabet.length)]).join('');
  return {
    metadata: {
      name: `bootstrap-token-${id}`,
      namespace: tokenNamespace,
      labels: { [names.machineUid]: ref.uid },
      annotations: { [names.machine]: `${ref.namespace}/${ref.name}` },
    },
    type: 'bootstrap.kubernetes.io/token',
    stringData: {
      description: `Bootstrap token of machine ${ref.namespace}/${ref.name}`,
      'token-id': id,
      'token-secret': secret,
      expiration,
      'usage-bootstrap-authentication': 'true',
      'usage-bootstrap-signing': 'true',
      ...(extraGroups !== '' && { 'auth-extra-groups': extraGroups }),
    },
  };
}

/** Six of `[0-9a-z]` from all of the UID: 2,176,782,336 ids. */
function tokenId(uid: string, ordinal: number): string {
  const digest = createHash('sha256').update(`${uid}/${ordinal}`).digest();
  return Array.from(digest.subarray(0, 6), (byte) => tokenAlphabet[byte % tokenAlphabet.length]).join('');
}

/** `<id>.<secret>` */
function textOf(token: Secret): string {
  return `${decoded(token, 'token-id')}.${decoded(token, 'token-secret')}`;
}

function decoded(secret: Secret, key: string): string {
  return Buffer.from(secret.data?.[key] ?? '', 'base64').toString();
}
