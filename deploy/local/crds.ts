import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import type { CrdManifest } from '../../api/crds.ts';
import { createKubeClient, type KubeClient } from '../../kube/client.ts';
import { loadKubeconfig } from '../../kube/config.ts';
import { customResourceDefinitions } from '../../kube/core.ts';
import { applyPatch } from '../../kube/patch.ts';

const folder = new URL('../crds/', import.meta.url);

/**
 * Applies deploy/crds to the cluster of a kubeconfig and waits until it serves them. May be repeated, also at the same
 * time. Returns the number of CRDs. Throws StatusError when the server refuses one.
 */
export async function installCrds(kubeconfig: string): Promise<number> {
  const client = createKubeClient({
    access: loadKubeconfig(kubeconfig),
    userAgent: 'millwright-stack/crds',
    qps: 50,
    burst: 50,
  });
  try {
    const files = (await readdir(folder)).filter((file) => file.endsWith('.yaml'));
    const crds = await Promise.all(files.map(async (file) => parse(await readFile(new URL(file, folder), 'utf8'))));
    await Promise.all(crds.map((crd) => installCrd(client, crd)));
    return crds.length;
  } finally {
    await client.close();
  }
}

/** Applies one CRD, strictly, and waits until the server serves it. */
export async function installCrd(
  client: KubeClient,
  crd: Pick<CrdManifest, 'apiVersion' | 'kind' | 'metadata'>,
): Promise<void> {
  const { name } = crd.metadata;
  const apply = applyPatch(crd, { fieldManager: 'millwright-stack', force: true });
  await client.patch(customResourceDefinitions, { name }, apply, { fieldValidation: 'Strict' });
  for (let established = false; !established; await sleep(20)) {
    const { status } = await client.get(customResourceDefinitions, { name });
    established = (status?.conditions ?? []).some(({ type, status }) => type === 'Established' && status === 'True');
  }
}
